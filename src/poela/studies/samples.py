"""What of a large log rests on a part of it, in words that the record keeps and the output says."""

from poela.data.trajectories import Trajectories
from poela.evaluation.value_model import MOST_FITTED
from poela.learners.value_learner import MOST_COMPARED
from poela.regression.ridge import MOST_LEFT_OUT


def said_of_samples(train: Trajectories) -> str:
    """Which choices rest on a part of the log; nothing of logs that are looked at as a whole.

    >>> logs = Trajectories([[0.0]], [0], [0.0], [0, 1])
    >>> said_of_samples(logs)
    ''
    """
    if train.n_steps <= min(MOST_COMPARED, MOST_LEFT_OUT):
        return ""
    parts = [
        f"kinds of regression are compared on about {MOST_COMPARED:,}",
        f"penalties on about {MOST_LEFT_OUT:,}",
    ]
    if train.n_steps == train.n_episodes > MOST_FITTED:
        parts.append(f"values that steady the weights are fitted on {MOST_FITTED:,}")
    return f"; of {train.n_steps:,} decisions every one teaches; {' and '.join(parts)}"
