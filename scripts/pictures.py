"""The pictures of the site that explain, drawn from real runs of the library.

python scripts/pictures.py [--out docs/pictures] [eligibility overfitting ladder]
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import poela
from poela.simulators.registry import simulate

BLUE, ORANGE, GREY, GREEN = "#1f6f8b", "#c8553d", "#777777", "#2e7d32"
matplotlib.rcParams |= {"svg.hashsalt": "poela", "svg.fonttype": "path", "font.size": 10, "axes.spines.top": False}
matplotlib.rcParams |= {"axes.spines.right": False, "figure.constrained_layout.use": True}


def eligibility() -> Figure:
    """Two groups of cases, treated differently: where each action may be taken, for two radii."""
    rng = np.random.default_rng(3)
    waited = rng.normal((-1.0, -0.4), (0.7, 0.6), (35, 2))
    treated = rng.normal((1.0, 0.5), (0.7, 0.6), (35, 2))
    contexts, actions = np.vstack([waited, treated]), np.repeat([0, 1], 35)
    logs = poela.Trajectories(contexts, actions, np.zeros(70), np.arange(71))
    across, up = np.meshgrid(np.linspace(-3.4, 3.4, 240), np.linspace(-2.6, 2.6, 200))
    figure = Figure(figsize=(9, 3.1))
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    for axes, radius in zip(panels, (None, 0.06, 0.5), strict=True):
        if radius is not None:
            rule = poela.Radius(radius).fit(logs)
            mask = rule.distances(np.column_stack([across.ravel(), up.ravel()])) <= radius
            for action, colour in enumerate((BLUE, ORANGE)):
                region = mask[:, action].reshape(across.shape).astype(float)
                axes.contourf(across, up, region, levels=[0.5, 1.5], colors=[colour], alpha=0.25)
        for action, colour, marker in ((0, BLUE, "o"), (1, ORANGE, "^")):
            rows = contexts[actions == action]
            axes.scatter(rows[:, 0], rows[:, 1], s=14, c=colour, marker=marker, label=("wait", "treat")[action])
        axes.set_xlabel("lactate (standardised)")
    panels[0].set_ylabel("pressure (standardised)")
    panels[0].legend(frameon=False, loc="lower right")
    panels[0].set_title("what was logged")
    panels[1].set_title("small radius: little overlap")
    panels[2].set_title("large radius: both in the middle")
    return figure


def overfitting() -> Figure:
    """Rewards are pure chance, so every policy is worth 0. What do two learners make of it, step by step?"""
    rng = np.random.default_rng(1)
    cases, stages = 80, (1, 60, 600)
    contexts = rng.normal(size=(cases, 4)).astype(np.float32)
    rewards = rng.normal(size=cases)
    rewards -= rewards.mean()
    logs = poela.Trajectories(
        contexts, rng.integers(0, 2, cases), rewards, np.arange(cases + 1), propensities=np.full((cases, 2), 0.5)
    )
    figure = Figure(figsize=(9, 5.4))
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    learners: tuple[tuple[Any, dict[str, Any], str], ...] = (
        (poela.POCRM, {}, "any action (PO-CRM)"),
        (poela.POELA, {"radius": "q50"}, "only eligible actions (POELA)"),
    )
    for row, (kind, settings, name) in zip(panels, learners, strict=True):
        for axes, steps in zip(row, stages, strict=True):
            policy = kind(steps=steps, variance_penalty=0.0, learning_rate=0.01, **settings).fit(logs, seed=0)
            chances = policy.probabilities(contexts)[np.arange(cases), logs.actions]
            _weighted_cases(axes, contexts[:, 0], rewards, chances / 0.5)
            axes.set_title(f"{name}\nafter {steps} steps" if steps > 1 else f"{name}\nat the start", fontsize=10)
        row[0].set_ylabel("reward (pure chance)")
    panels[0][0].set_ylim(-3.2, None)  # room for words under the cases
    for axes in panels[1]:
        axes.set_xlabel("a feature")
    return figure


def _weighted_cases(axes: Axes, places: np.ndarray, rewards: np.ndarray, weights: np.ndarray) -> None:
    colours = np.where(rewards > 0, GREEN, ORANGE)
    axes.scatter(places, rewards, s=3 + 22 * weights, c=colours, alpha=0.6, linewidths=0)
    estimate = (weights * rewards).sum() / weights.sum()
    axes.axhline(estimate, color="black", linewidth=1.2)
    axes.axhline(0, color=GREY, linewidth=1, linestyle=":")
    axes.text(0.98, 0.02, f"estimate {estimate:+.2f}, truth 0", transform=axes.transAxes, ha="right", va="bottom")


def ladder() -> Figure:
    """A study's policies from cautious to bold: what is estimated, and what is shown."""
    study = poela.learn(simulate("tumor", episodes=300, seed=0), learners=["fittedq"], backend="inline")
    best = study.ladder().to_pandas()
    figure = Figure(figsize=(9, 3.6))
    axes = figure.subplots()
    places = np.arange(len(best))
    axes.plot(places, best["gain"], "o-", color=BLUE, label="estimated gain")
    axes.plot(places, best["shown"].where(best["verdict"] == "trust"), "s-", color=GREEN, label="shown: at least")
    chosen = best.index[best["chosen"]]
    for place in chosen:
        axes.annotate("recommended", (place, best["shown"][place]), (place, best["shown"][place] - 1.8),
                      ha="center", arrowprops={"arrowstyle": "->"})  # fmt: skip
    doubtful = int((best["verdict"] == "trust").sum())
    axes.axvspan(doubtful - 0.5, len(best) - 0.5, color=GREY, alpha=0.15)
    axes.text(doubtful - 0.3, axes.get_ylim()[0] + 0.3, "the logs cannot tell")
    told = places[::3]
    axes.set_xticks(told, [f"{ess:.0f}" if ess >= 10 else f"{ess:.1f}" for ess in best["ess"][told]])
    axes.set_xlabel("effective cases: cautious on the left, bold on the right")
    axes.set_ylabel("new − current")
    axes.legend(frameon=False, loc="upper left")
    return figure


PICTURES = {"eligibility": eligibility, "overfitting": overfitting, "ladder": ladder}


def main() -> None:
    """Draw all, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(PICTURES))
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.names:
        PICTURES[name]().savefig(asked.out / f"{name}.svg", metadata={"Date": None})
        print(asked.out / f"{name}.svg")


if __name__ == "__main__":
    main()
