"""Weights on patients who died: does a chosen sepsis policy get its estimate by looking away from them?"""

from collections.abc import Iterator

from poela.experiments.chosen_policies import ANY
from poela.experiments.comparison import compared
from poela.experiments.published.records import NO_PENALTY, Number
from poela.experiments.published.tumor import WEIGHT, WEIGHTS
from poela.experiments.results import ResultTable
from poela.experiments.sepsis_policies import Examiner
from poela.experiments.tumor_weights import normalised_weights

CONTEXTS = "sepsis"  # as the paper's table of both tasks has them


def weight_table(examiner: Examiner, command: str) -> ResultTable:
    """The share of the weights of training episodes that end in death, under each chosen final policy."""
    train, _, _ = examiner.source.task.weighted_logs(examiner.source.size)
    died = train.returns() == 0
    own = [chosen for chosen in examiner.chosen("final") if chosen[0] != NO_PENALTY]

    def numbers() -> Iterator[Number]:
        for name, item, _ in own:
            weights = normalised_weights(examiner.policy(item), train, item.metrics["smoothing"] or 0.0)
            yield Number(name, CONTEXTS, WEIGHT, float(weights[died].sum()))

    any_size = [name for name, _, least in own if least == ANY]
    notes = (
        "sum of the SNTIS weights of training episodes that end in death under the chosen final policy",
        "behavior by kNN, fitted on the training episodes",
        f"such episodes (of those cut off after 20 steps, a drawn share) are {died.mean():.0%} of the logs (the paper "
        "says over 60%, and that clinicians score 81.1, "
        "which cannot both hold)",
        *([f"chosen with any effective sample size: {', '.join(any_size)}"] if any_size else []),
    )
    return ResultTable(
        "Sepsis: weight on training episodes that end in death", compared(WEIGHTS[0], numbers()), command, notes
    )
