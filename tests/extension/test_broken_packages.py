"""A package of somebody else's that cannot be imported hurts nobody who does not ask for it."""

import gc
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.robustness.fuzz_studies import logs

import poela
from poela.cli import main
from poela.core.errors import PoelaError
from poela.core.registry import Registry
from poela.learners.fitted_q import FittedQ
from poela.simulators.registry import simulate

KINDS = {
    "missing": "",
    "a slip of the pen": "def (",
    "an error": "raise RuntimeError('no licence')",
    "an end": "raise SystemExit(3)",
    "nothing": "something = 5",
}


@pytest.fixture(params=KINDS)
def broken(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The kind of a package that every table of names has an entry of."""
    if request.param != "missing":
        (tmp_path / "broken_package.py").write_text(KINDS[request.param])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken_package", raising=False)
    for table in [one for one in gc.get_objects() if type(one) is Registry]:
        monkeypatch.setitem(table._places, "broken", "broken_package:thing")
    yield request.param
    sys.modules.pop("broken_package", None)


def test_who_asks_for_it_is_told(broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PoelaError, match=re.escape("'broken' cannot be loaded (")):
        simulate("broken", episodes=2)
    file = tmp_path / "logs.parquet"
    assert main(["simulate", "tumor", "--episodes", "20", "--out", str(file)]) == 0
    capsys.readouterr()
    for given in (["--learners", "broken"], ["--learners", "fittedq", "--behavior", "broken"]):
        assert main(["learn", str(file), "--out", str(tmp_path / "study"), *given]) in (1, 2)
        said = capsys.readouterr().err
        assert said.count("error:") == 1, said
        assert "broken_package" in said, said
        assert "report" not in said


def test_others_do_not_notice(broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = poela.learn(
        logs(), learners=[FittedQ(history=0)], out=tmp_path / "study", backend="inline", folds=2, seed=0
    )
    assert study.result is not None
    for line in (["learn", "--help"], ["simulate", "--help"], ["studies", "show", str(tmp_path / "study")]):
        assert main(line) == 0, capsys.readouterr()
    capsys.readouterr()
