"""What came of each logged decision that taught a study, so that decisions can say what happened to similar cases.

It stays in the study's folder: a policy file, which travels, holds no outcomes.
"""

from pathlib import Path

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.paths import is_there
from poela.core.ragged import returns_to_go
from poela.core.storage import Stored, load_stored, save_stored
from poela.core.validation import expect_array, expect_contents
from poela.data.trajectories import Trajectories

OUTCOMES, OUTCOMES_FORMAT = "outcomes", "poela-outcomes"


def write_outcomes(directory: Path, train: Trajectories, discount: float) -> None:
    """Write the (discounted) rewards from each step to the end of its episode, in the order of the training log."""
    arrays = {"to_go": returns_to_go(train.rewards, train.offsets, discount)}
    stored, notes = Stored(OUTCOMES, arrays=arrays), {"contains_outcomes": True}
    save_stored(directory / OUTCOMES, stored, file_format=OUTCOMES_FORMAT, version=1, notes=notes, overwrite=True)


def read_outcomes(directory: Path) -> FloatArray | None:
    """What `write_outcomes` wrote; None where nothing is there, as in studies of earlier versions."""
    if not is_there(directory / OUTCOMES):
        return None
    stored, _ = load_stored(directory / OUTCOMES, file_format=OUTCOMES_FORMAT, version=1)
    expect_contents(stored, arrays=("to_go",))
    return expect_array(stored, "to_go", np.float64, (None,))
