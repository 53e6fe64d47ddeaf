"""Figures for papers: the numbers of the page, on Matplotlib axes with titles and labels."""

import numpy as np
import pytest

from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.report.numbers.changes import action_shares
from poela.report.numbers.judged import frontier_of, ladder_of
from poela.report.study_logs import study_logs
from poela.studies.study import Study

pytest.importorskip("matplotlib")


def test_every_figure_has_a_title_and_labels(study: Study) -> None:
    plot = study.plot
    for axes in (plot.frontier(), plot.ladder(), plot.actions(by="age"), plot.weights(), plot.eligibility(3)):
        assert axes.get_title()
        assert axes.get_xlabel() or axes.get_xticklabels()
        axes.figure.canvas.draw()


def test_the_frontier_shows_every_policy_and_labels_the_choice(study: Study) -> None:
    from matplotlib.collections import PathCollection

    axes = study.plot.frontier()
    shown = np.concatenate(
        [np.asarray(dots.get_offsets()) for dots in axes.collections if isinstance(dots, PathCollection)]
    )
    points = [point for point in frontier_of(study).points if not point.chosen]
    expected = sorted((point.ess or 0.0, point.value or 0.0) for point in points)
    np.testing.assert_allclose(sorted(map(tuple, shown)), expected)
    assert any("recommended" in text.get_text() for text in axes.texts)


def test_the_ladder_has_a_row_for_each_rung(study: Study) -> None:
    labels = [label.get_text() for label in study.plot.ladder().get_yticklabels()]
    assert len(labels) == len(ladder_of(study))
    assert sum(label.startswith("✓") for label in labels) == 1


def test_actions_are_those_of_the_page(study: Study, logs: Trajectories) -> None:
    beside = study_logs(study, logs)
    assert beside is not None
    image = np.asarray(study.plot.actions(by="age").images[0].get_array())
    strata = action_shares(beside, ["age"]).strata
    np.testing.assert_allclose(image, [shares for one in strata for shares in (one.logged, one.policy)])


def test_a_study_from_disk_asks_for_its_logs(study: Study, logs: Trajectories) -> None:
    opened = Study.open(study.directory)
    with pytest.raises(InputError, match="give them as logs="):
        opened.plot.weights()
    assert opened.plot.weights(logs=logs).get_title().startswith("Weight by return")


def test_figures_can_share_axes(study: Study) -> None:
    from matplotlib.figure import Figure

    mine = Figure().subplots()
    assert study.plot.frontier(axes=mine) is mine
