"""Where a study may be written: an empty folder or a study of ours, without anybody else's things in its places."""

from pathlib import Path
from typing import Any

from poela.core.errors import InputError
from poela.core.paths import is_there, output_folder, place, regular_file
from poela.core.storage import refuse_foreign_stored
from poela.policies.saving import FILE_FORMAT as POLICY_FORMAT
from poela.studies.fold_data import BEHAVIOR_FORMAT
from poela.studies.keeping_apart import EPISODES
from poela.studies.logging_policy import PROPENSITIES, PROPENSITIES_FORMAT
from poela.studies.outcomes import OUTCOMES, OUTCOMES_FORMAT
from poela.studies.store import LOTLESS, Store

TABLE = "table.parquet"
OF_A_TABLE = {"learner", "candidate", "restart"}  # columns that every version of ours has
PARTS = {
    "policy": POLICY_FORMAT,
    "promising": POLICY_FORMAT,
    LOTLESS: POLICY_FORMAT,
    "behavior": BEHAVIOR_FORMAT,
    "episodes": EPISODES,
    PROPENSITIES: PROPENSITIES_FORMAT,
    OUTCOMES: OUTCOMES_FORMAT,
}


def study_place(out: Any, resume: bool) -> Path:
    """The folder for a study; whatever could be in the way is refused here, before any work, and nothing is touched."""
    folder = output_folder(out, "a study")
    store = Store(folder)
    store.refuse_foreign()
    if store.exists and not resume:
        raise InputError(f"{place(folder)} already holds a study: add --resume to continue it, or choose another")
    for name, file_format in PARTS.items():
        refuse_foreign_stored(folder / name, file_format)
    _refuse_foreign_table(folder / TABLE)
    return folder


def _refuse_foreign_table(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not is_there(path):
        return
    try:
        ours = not path.is_symlink() and set(pq.read_schema(regular_file(path)).names) >= OF_A_TABLE
    except (InputError, pa.ArrowException, OSError):
        ours = False
    if not ours:
        raise InputError(f"{place(path)} is not the table of a study, and would be overwritten: move it away")
