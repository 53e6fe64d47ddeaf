"""A policy as an MLflow model: the real package saves and loads it, and it decides as the policy does."""

from pathlib import Path

import pytest
from tests.serving.episodes import FEATURES, logs
from tests.serving.policies import MULTINOMIAL, POLICIES

from poela.core.errors import InputError
from poela.serving.pyfunc import save_mlflow

pytestmark = pytest.mark.filterwarnings("ignore")  # of mlflow's own


def test_a_model_decides_as_its_policy(tmp_path: Path) -> None:
    import mlflow
    import pandas as pd

    train = logs()
    policy = POLICIES["poela"](train)
    save_mlflow(policy, tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    table = pd.DataFrame(train.contexts[:50] + 0.3, columns=list(FEATURES))
    with pytest.raises(InputError, match="column 'episode' is missing: name the case of each row"):
        model.predict(table)
    table["case"] = [f"case {row}" for row in range(50)]
    expected = policy.decide(table).to_pandas()
    pd.testing.assert_frame_equal(model.predict(table), expected)
    shuffled = table[["case", *reversed(FEATURES)]]
    pd.testing.assert_frame_equal(model.predict(shuffled), expected)
    one = model.predict(table.iloc[[7]])  # beside whatever other rows
    assert one["action"].iloc[0] == expected["action"].iloc[7]
    modes = {path.stat().st_mode & 0o077 for path in (tmp_path / "model", *(tmp_path / "model").rglob("*"))}
    assert modes == {0}  # for the owner alone: contexts of the log may be inside
    files = {path.suffix for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert not files & {".pkl", ".pickle", ".pt", ".bin"}


def test_what_decides_about_no_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="decides about no rows"):
        save_mlflow(MULTINOMIAL.fit(logs()), tmp_path / "model")  # type: ignore[arg-type]
