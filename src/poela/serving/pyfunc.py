"""A policy as an MLflow model (`pyfunc`): its own files inside, read by `load_policy`; nothing is unpickled."""

import tempfile
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from poela.core.errors import InputError
from poela.core.files import make_private, refuse_foreign
from poela.core.paths import output_folder
from poela.core.registry import how_to_install
from poela.data.decided import CASE
from poela.data.decision_rows import RowRequirements
from poela.policies.ruled import RuledPolicy

LOADER = "poela.serving.pyfunc"
FOLDER = "policy"
LEAVE = "leave"


class PolicyModel:
    """What MLflow calls: decisions for the rows of a table."""

    def __init__(self, policy: Any, leave: bool = False) -> None:
        self.policy, self.leave = policy, leave

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """As `policy.decide`, as a data frame where one was given; there are no `params`.

        Models are asked about a row or two at a time, whose numbers name no case: there must be a column that does.
        """
        there = [str(name) for name in getattr(data, "columns", data)]
        if RowRequirements(self.policy.table_schema, ()).case_in(there) is None:
            own = self.policy.table_schema.episode or CASE
            raise InputError(f"column {own!r} is missing: name the case of each row, since its action is drawn by it")
        decided = self.policy.decide(data, leave=self.leave)
        return decided.to_pandas() if hasattr(data, "iloc") else decided


def save_mlflow(policy: RuledPolicy, path: str | Path, *, include_contexts: str = "all", leave: bool = False) -> None:
    """Write a policy as an MLflow model into a new folder: `mlflow.pyfunc.load_model(path).predict(table)` decides.

    With `leave` it leaves choices among what is not barred to people, as `policy.decide(rows, leave=True)` does.
    """
    if not isinstance(policy, RuledPolicy):
        raise InputError(f"a {type(policy).__name__} decides about no rows: give a learned policy")
    if find_spec("mlflow") is None:
        raise InputError(f"MLflow models need it: {how_to_install('track')}")
    place = output_folder(path, "an MLflow model")
    refuse_foreign(place, (), "MLflow model that may be replaced")
    make_private(place)  # before anything is in it
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow warns of its own types
        from mlflow.pyfunc import save_model

        policy.save(Path(folder) / FOLDER, include_contexts)
        save_model(
            path=str(place),
            loader_module=LOADER,
            data_path=str(Path(folder) / FOLDER),
            pip_requirements=["poela"],
            model_config={LEAVE: leave},
            metadata={"feature_names": list(policy.feature_names), "action_names": list(policy.action_names)},
        )
    _keep_private(place)


def _keep_private(folder: Path) -> None:
    """For the owner alone, as what we write ourselves: it may hold logged contexts."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> PolicyModel:
    """What MLflow calls to load the model."""
    from poela.policies.storage import load_policy

    return PolicyModel(load_policy(path), leave=bool((model_config or {}).get(LEAVE)))
