"""Figures for papers, as Matplotlib axes: the same numbers as on the page, with titles and direct labels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.errors import InputError
from poela.core.registry import how_to_install
from poela.report.numbers.changes import action_shares
from poela.report.numbers.judged import frontier_of, ladder_of
from poela.report.numbers.weights import eligible_along, weights_by_return
from poela.report.pictures.drawing import clean
from poela.report.study_logs import Given, StudyLogs, study_logs
from poela.studies.allotment import curve, spend_name, spend_points

if TYPE_CHECKING:
    from poela.studies.study import Study

LOG, NEW, PICK = "#6e7781", "#1f6fc4", "#b8400e"
STYLES: dict[str, dict[str, Any]] = {
    "trust": {"color": NEW, "label": "can be trusted"},
    "caution": {"facecolors": "white", "edgecolors": NEW, "label": "caution"},
    "do not trust": {"color": "#c4cad0", "label": "not to be trusted"},
    "": {"color": NEW, "label": "not yet checked"},
}


class Plots:
    """The figures of one study: `study.plot`. Each method takes axes to draw on, or makes a figure.

    Those about single cases (`actions`, `weights`, `eligibility`) need the logs that the study was made of: they are at
    hand in the process that learned from them, and else are given as `logs`.
    """

    def __init__(self, study: "Study") -> None:
        self._study = study
        self._known: dict[int | None, StudyLogs | None] = {}

    def frontier(self, axes: Any = None) -> Any:
        """Value against effective sample size, with the choice labelled."""
        frontier, axes = frontier_of(self._study), _axes(axes, (6.0, 4.0))
        for verdict, style in STYLES.items():
            points = [point for point in frontier.points if point.verdict == verdict and not point.chosen]
            if points:
                axes.scatter([point.ess for point in points], [point.value for point in points], s=18, **style)
        line = frontier.line
        axes.plot([point.ess for point in line], [point.value for point in line], color=LOG, lw=0.8, ls=":")
        axes.errorbar(
            [frontier.units], [frontier.current], yerr=[frontier.current_error], fmt="o", color=LOG, capsize=2
        )
        _label(axes, frontier.units, frontier.current, "what is done now (± standard error)")
        for point in frontier.points:
            if point.chosen:
                axes.errorbar(
                    [point.ess], [point.value], yerr=[point.value_error or 0.0], fmt="o", ms=8, color=PICK, capsize=2
                )
                _label(axes, point.ess or 1.0, point.value or 0.0, f"{frontier.called} (± standard error)", PICK)
        axes.set(
            xscale="log", xlabel="effective cases", ylabel="estimated value", title="Value against effective cases"
        )
        axes.legend(fontsize="small", frameon=False)
        return axes

    def ladder(self, axes: Any = None) -> Any:
        """From cautious to bold: the estimated gain, and a bar down to what is shown."""
        rungs = ladder_of(self._study)
        axes = _axes(axes, (6.0, 0.4 * len(rungs) + 1.4))
        places = np.arange(len(rungs))[::-1]
        for place, rung in zip(places, rungs, strict=True):
            colour = PICK if rung.chosen else NEW
            if rung.gain is None:
                continue
            if rung.shown is not None:
                axes.plot([rung.shown, rung.gain], [place, place], color=colour, lw=2, marker="|", markevery=[0])
            axes.plot([rung.gain], [place], "o", color=colour, mfc=colour if rung.shown is not None else "white")
            axes.annotate(f" {rung.ess or 0:,.0f} cases", (rung.gain, place), fontsize="x-small", va="bottom")
        axes.axvline(0.0, color=LOG, lw=0.8)
        axes.margins(x=0.14)
        axes.set_yticks(
            places, [f"{'✓ ' if rung.chosen else ''}{clean(rung.name, 50)}" for rung in rungs], fontsize="small"
        )
        axes.set(xlabel="gain over what is done now (bar: down to what is shown)", title="From cautious to bold")
        return axes

    def spend(self, axes: Any = None) -> Any:
        """Shown gain against what policies spend per case: the walk by value for money, and all others."""
        points = [one for one in spend_points(self._study) if one.shown is not None]
        if not points:
            raise InputError("this study knows no spend: learn with cost= or capacity=, and choose by gain")
        axes = _axes(axes, (6.0, 4.0))
        for walk, label, colour in ((False, "other policies", LOG), (True, "by value for money", NEW)):
            own = [one for one in points if one.walk == walk]
            axes.plot([one.spend for one in own], [one.shown for one in own], "o", color=colour, ms=4, label=label)
        best = curve(points)
        axes.plot(
            [one.spend for one in best], [one.shown for one in best], color=PICK, lw=1.2, label="the most that is shown"
        )
        for one in points:
            if one.chosen:
                _label(axes, one.spend, one.shown or 0.0, "recommended", PICK)
        axes.axhline(0.0, color=LOG, lw=0.8)
        axes.set(xlabel=spend_name(self._study), ylabel="gain that is shown", title="Gain against spend")
        axes.legend(fontsize="small", frameon=False)
        return axes

    def actions(self, by: str | Sequence[str] = (), logs: Given | None = None, axes: Any = None) -> Any:
        """Shares of actions, policy against log, for everybody and for the strata of the columns in `by`."""
        by_stratum = action_shares(self._logs(logs), (by,) if isinstance(by, str) else by)
        rows = [
            (f"{stratum.name}, {whose}", shares)
            for stratum in by_stratum.strata
            for whose, shares in (("log", stratum.logged), ("policy", stratum.policy))
        ]
        axes = _axes(axes, (max(4.0, 0.5 * len(by_stratum.actions) + 2.5), 0.35 * len(rows) + 1.4))
        matrix = np.stack([shares for _, shares in rows])
        image = axes.imshow(matrix, cmap="Blues", vmin=0.0, aspect="auto")
        axes.set_yticks(range(len(rows)), [clean(name, 40) for name, _ in rows], fontsize="small")
        turned = {"rotation": 60, "ha": "right"} if len(by_stratum.actions) > 6 else {}
        axes.set_xticks(
            range(len(by_stratum.actions)), [clean(name, 20) for name in by_stratum.actions], fontsize="small", **turned
        )
        if len(by_stratum.actions) <= 12:
            for (row, column), share in np.ndenumerate(matrix):
                colour = "white" if share > 0.6 * matrix.max() else "black"
                axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize="x-small", color=colour)
        axes.figure.colorbar(image, ax=axes, label="share of decisions")
        axes.set(title="Actions, policy against log")
        return axes

    def weights(self, logs: Given | None = None, axes: Any = None) -> Any:
        """The share of weight beside the share of episodes, from low to high returns, held out."""
        weights = weights_by_return(self._logs(logs))
        if weights is None:
            raise InputError("this study has no policy with weight on held-out episodes that are at hand")
        axes = _axes(axes, (6.0, 3.6))
        places = np.arange(len(weights.low))
        axes.bar(places - 0.2, weights.episodes, 0.4, color=LOG, label="share of episodes")
        axes.bar(places + 0.2, weights.weight, 0.4, color=NEW, label="share of weight")
        axes.set_xticks(places, [f"{low:.3g}" for low in weights.low], fontsize="small")
        axes.set(
            xlabel="return of the episode, from",
            ylabel="share",
            title=f"Weight by return ({weights.ess:,.0f} effective cases)",
        )
        axes.legend(fontsize="small", frameon=False)
        return axes

    def eligibility(self, episode: int | None = None, logs: Given | None = None, axes: Any = None) -> Any:
        """Which actions are eligible along one episode (by position): the paper's figure 1."""
        eligible = eligible_along(self._logs(logs), episode)
        steps = len(eligible.logged)
        axes = _axes(axes, (max(4.0, 0.18 * steps + 2.0), 0.22 * len(eligible.actions) + 1.6))
        axes.imshow(eligible.mask.T, cmap="Greys", vmin=0, vmax=4, aspect="auto")
        axes.plot(range(steps), eligible.policy.argmax(axis=1), "o", mfc="none", mec=PICK, ms=9)
        axes.plot(range(steps), eligible.logged, "k.", ms=7)
        axes.set_yticks(range(len(eligible.actions)), [clean(name, 20) for name in eligible.actions], fontsize="small")
        axes.set_xlabel("step (grey: eligible; dot: done; ring: favoured by the policy)", fontsize="small")
        axes.set(title=f"Eligible actions in episode {eligible.episode}")
        return axes

    def _logs(self, logs: Given | None) -> StudyLogs:
        key = None if logs is None else id(logs)
        if key not in self._known:
            self._known[key] = study_logs(self._study, logs)
        known_logs = self._known[key]
        if known_logs is None:
            raise InputError("this figure needs the logs that the study was made of: give them as logs=")
        return known_logs


def _axes(axes: Any, size: tuple[float, float]) -> Any:
    if axes is not None:
        return axes
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(f"figures need Matplotlib: {how_to_install('figures')}") from None
    # No pyplot: a figure of its own, which no global list keeps alive.
    made: Any = Figure(figsize=size, layout="constrained")
    return made.subplots()


def _label(axes: Any, x: float, y: float, words: str, colour: str = "black") -> None:
    axes.annotate(words, (x, y), textcoords="offset points", xytext=(-7, 7), ha="right", fontsize="small", color=colour)
