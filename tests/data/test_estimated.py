"""Whether propensities are estimates is known to the logs, and kept by all that copies them."""

from pathlib import Path

import numpy as np
import pytest
from tests.data.log_files import Write, arrow, csv, feather, parquet

from poela import KNNBehavior, Trajectories, read_logs
from poela.data.joining import joined
from poela.data.trajectories import Trajectories as Logs
from poela.studies.fold_data import FoldData, data_hash, read_fold, write_fold


def logs_of(propensities: str = "none") -> Trajectories:
    rng = np.random.default_rng(0)
    given = {"none": None, "logged": np.full(40, 0.5), "full": np.full((40, 2), 0.5)}[propensities]
    return Trajectories(rng.normal(size=(40, 1)), np.arange(40) % 2, np.zeros(40), np.arange(0, 41, 4), given)


@pytest.mark.parametrize("before", ["none", "logged", "full"])
def test_what_a_model_annotates_is_estimated(before: str) -> None:
    logs, model = logs_of(before), KNNBehavior(k=20).fit(logs_of())
    assert not logs.estimated
    for annotated in (model.annotate(logs), model.annotate(logs, folds=2), KNNBehavior(k=20).annotate(logs)):
        assert annotated.estimated
        assert repr(annotated).endswith("2 actions, estimated propensities)")
        assert annotated.propensities is not None
        assert annotated.propensities.ndim == 2


def test_what_is_kept_and_what_is_new() -> None:
    annotated = KNNBehavior(k=20).annotate(logs_of())
    assert annotated.take([0, 2]).estimated
    assert all(part.estimated for part in annotated.split((0.5, 0.5), seed=0))
    assert annotated.with_history(1).estimated
    assert not annotated.with_propensities(np.full(40, 0.5)).estimated
    assert annotated.with_propensities(np.full(40, 0.5), estimated=True).estimated
    assert not annotated.with_propensities(None).estimated
    assert not logs_of().with_propensities(None, estimated=True).estimated
    assert joined(annotated, annotated).estimated
    assert joined(logs_of("full"), annotated).estimated
    assert not joined(logs_of("full"), logs_of("full")).estimated


def test_materials_keep_it_for_each_part(tmp_path: Path) -> None:
    annotated, known = KNNBehavior(k=20).annotate(logs_of()), logs_of("full")
    grouped = Logs(
        known.contexts, known.actions, known.rewards, known.offsets, known.propensities, clusters=np.arange(10) // 2
    )
    for train, validation in ((annotated, grouped), (grouped, annotated)):
        write_fold(tmp_path / "material", FoldData(train, validation))
        back = read_fold(tmp_path / "material")
        for one, other in ((back.train, train), (back.held_out, validation)):
            assert one.estimated == other.estimated
            assert one.units.tolist() == other.units.tolist()
            assert (one.clusters is None) == (other.clusters is None)
            assert data_hash(one) == data_hash(other)
    assert data_hash(annotated) != data_hash(annotated.with_propensities(annotated.propensities))


@pytest.mark.parametrize("write", [parquet, arrow, feather])
@pytest.mark.parametrize("single", [False, True])
def test_files_keep_it_but_csv(write: Write, single: bool, tmp_path: Path) -> None:
    annotated = KNNBehavior(k=20).annotate(logs_of())
    if single:
        annotated = annotated.with_propensities(annotated.logged_propensities, estimated=True)
    table = annotated.to_table()
    assert read_logs(write(table, tmp_path)).estimated
    assert not read_logs(csv(table, tmp_path)).estimated
    assert not read_logs(write(logs_of("full").to_table(), tmp_path)).estimated


def test_propensities_of_another_column_are_not_those_that_were_estimated() -> None:
    table = KNNBehavior(k=20).annotate(logs_of()).to_table().append_column("p", [np.full(40, 0.5)])
    assert read_logs(table, context=["x0"]).estimated
    assert not read_logs(table, context=["x0"], propensity="p").estimated
