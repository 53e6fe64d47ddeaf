"""What is promised and what is true, fairly: estimate beside estimate, bound beside bound, the same learner in both.

    python benchmarks/headline.py --logs 20 --jobs 16 --minutes 9 --out docs/results/headline
    python benchmarks/headline.py --table docs/results/headline
    python benchmarks/headline.py --draw docs/results/headline        # docs/estimate-against-truth.svg, light and dark

`study:LEARNER` is `poela.learn` with that learner alone: its best estimate and what it shows. `usual:LEARNER` learns
the same settings and checkpoints on 60% of episodes and takes the highest self-normalised estimate (SNTIS) on the
others, with the lower end of its nominal interval. `bcq` and `cql` choose among as many settings by fitted-Q evaluation
and report that, as users of offline reinforcement learning do (our own implementations of both). `aipw-tree` and
`aipw-linear` are rules on cross-fitted doubly robust scores (single decisions only). Bounds are one-sided at 95%. Where
a study keeps what is done, or an estimate is no number, there is no promise. Truths are integrals or 20,000 roll-outs.
Seeds begin at 80,000, where nothing was chosen.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from claims import KINDS as CLAIMS
from shown_gain import tumor_points
from stored_rows import Row, add_flags, carry_out, rows_in, seeds
from usual_ways import Fixed, judged

import poela
from poela.data.trajectories import Trajectories
from poela.studies.candidates import Candidate, grid

FIRST_SEED, ROLL_OUTS, DOCS = 80_000, 20_000, Path(__file__).parents[1] / "docs"
GRIDS: dict[str, tuple[Candidate, ...]] = {  # as many policies for each: settings times checkpoints
    "fittedq": tuple(grid("fittedq", history=[0, 2])),
    "pocrm": tuple(grid("pocrm", variance_penalty=[0.01, 0.1, 1.0])),
    "bcq": tuple(grid("bcq", threshold=[0.05, 0.1, 0.3])),
    "cql": tuple(grid("cql", conservatism=[0.3, 1.0, 3.0])),
}
NAMES = {
    "study:fittedq": "poela, fitted Q",
    "usual:fittedq": "fitted Q, best held-out SNTIS",
    "study:pocrm": "poela, PO-CRM",
    "usual:pocrm": "PO-CRM, best held-out SNTIS",
    "bcq": "BCQ, fitted-Q evaluation",
    "cql": "CQL, fitted-Q evaluation",
    "aipw-tree": "AIPW, policy tree",
    "aipw-linear": "AIPW, linear rule",
}


class Kind(NamedTuple):
    """How logs are made from a seed, what a policy truly gains, and what a unit of return is called."""

    logs: Callable[[int], Trajectories]
    gain: Callable[[Any], float]
    steps: int = 1


def kind_of(name: str) -> Kind:
    """By name."""
    if name in ("effect-prognosis", "effect-strong"):
        made = CLAIMS[name]
        assert made.gain is not None
        return Kind(lambda seed: made.logs(made.episodes, seed), made.gain)
    if name == "hole":
        from holes_in_support.scenarios import scenario

        hole = scenario("half:own")
        return Kind(lambda seed: hole.logs(1500, seed), lambda policy: float(hole.process.truth(policy).gain))
    from poela.evaluation.rollouts import true_value
    from poela.simulators.registry import simulate, source

    origin, points = source("tumor"), tumor_points()

    def value(policy: Any) -> float:
        return float(points * true_value(policy, origin.simulator, ROLL_OUTS, seed=1).value)

    now = value(origin.behavior)
    return Kind(lambda seed: simulate("tumor", 400, seed), lambda policy: value(policy) - now, steps=30)


KINDS = ("effect-prognosis", "effect-strong", "hole", "tumor")


def measured(name: str, way: str, seed: int) -> Row:
    """What one way promises on one log, and what is true of its policy."""
    warnings.simplefilter("ignore")
    kind = kind_of(name)
    logs, row = kind.logs(seed), {"kind": name, "way": way, "seed": seed}
    if way.startswith("aipw"):
        estimate, bound, rule = judged(way.removeprefix("aipw-"), logs, seed)
        found = (estimate, bound, Fixed(rule, logs.n_actions))
    else:
        found = study(way[6:], logs, seed) if way.startswith("study") else usual(way, logs, seed)
    estimate, bound, policy = found
    if policy is None or estimate is None:
        return row | {"estimate": None, "bound": None, "true": None}
    points = tumor_points() if name == "tumor" else 1.0
    told = {"estimate": points * estimate, "bound": None if bound is None else points * bound}
    return row | told | {"true": kind.gain(policy)}


Found = tuple[float | None, float | None, Any]


def study(learner: str, logs: Trajectories, seed: int) -> Found:
    """What `poela.learn` says; nothing where it keeps what is done."""
    done = poela.learn(logs, candidates=GRIDS[learner], backend="inline", seed=seed)
    if done.keeps_logging_policy or done.gain is None:
        return None, None, None
    return done.gain.value, done.gain.low, done.policy


def usual(way: str, logs: Trajectories, seed: int) -> Found:
    """The policy with the highest estimate on episodes that did not teach it."""
    learner = way.removeprefix("usual:")
    by_model = learner in ("bcq", "cql")
    train, others = logs.split((0.6, 0.4), seed=seed)
    known = train.propensities is not None and train.propensities.ndim == 2
    settings = {"estimator": "fqe", "smoothing": 0.01 * known} if by_model else {"estimator": "sntis"}
    behavior = None if known else poela.BoostedBehavior().fit(train)  # of the logged actions alone: by a model
    best: tuple[float, Any] = (-np.inf, None)
    for candidate in GRIDS[learner]:
        for point in candidate.build().fit_path(train, seed=seed, behavior=behavior):
            estimate = poela.evaluate(point.policy, others, interval=None, **settings)
            value = estimate.value
            if value is not None and value > best[0]:
                best = value, point.policy
    if best[1] is None:
        return None, None, None
    estimate = poela.evaluate(best[1], others, level=0.9, **settings)
    gain = estimate.gain
    return (None, None, None) if gain is None else (gain.value, gain.low, best[1])


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown: how often a promise was above the truth, and by how much on average."""
    yield (
        "| kind | way | logs | promises | estimate | bound | true | estimates above the truth | bounds above the truth "
        "| truly worse than practice | cpu |"
    )
    yield "|" + "---|" * 11
    for kind in KINDS:
        for way, label in NAMES.items():
            own = [row for row in rows if (row["kind"], row["way"]) == (kind, way)]
            if not own:
                continue
            told = [row for row in own if row["true"] is not None]
            bounds = [row for row in told if row["bound"] is not None]
            means = [_mean(told, "estimate"), _mean(bounds, "bound"), _mean(told, "true")]
            above = (
                sum(row["estimate"] > row["true"] for row in told),
                sum(row["bound"] > row["true"] for row in bounds),
            )
            worse = sum(row["true"] < 0 for row in told)
            cells = [kind, label, len(own), len(told), *means, *above, worse]
            yield "| " + " | ".join(map(str, cells)) + f" | {_mean(own, 'cpu')} |"


def _mean(rows: Sequence[Row], name: str) -> str:
    return f"{np.mean([row[name] for row in rows]):.3f}" if rows else ""


def draw(rows: Sequence[Row], out: Path) -> None:
    """Two panels, light and dark: dots above the diagonal promise more than there is."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "poela"
    told = [row for row in rows if row["true"] is not None]
    most = {kind: max((abs(row["true"]) for row in told if row["kind"] == kind), default=1.0) for kind in KINDS}
    for dark in (False, True):
        with plt.style.context("dark_background" if dark else "default"):
            figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.8), sharex=True, sharey=True, layout="constrained")
            for axes, what, title in zip(
                panels, ("estimate", "bound"), ("best estimate", "one-sided 95% bound"), strict=True
            ):
                axes.plot((-2, 2), (-2, 2), color="0.6", linewidth=1)
                for place, (way, label) in enumerate(NAMES.items()):
                    dots = [
                        (row["true"] / most[row["kind"]], row[what] / most[row["kind"]])
                        for row in told
                        if row["way"] == way and row[what] is not None
                    ]
                    ours, color = way.startswith("study"), f"C{place // 2 if place < 4 else place - 2}"
                    style = {"marker": "o" if ours else "x", "color": color, "alpha": 0.85, "s": 28}
                    axes.scatter(*(zip(*dots, strict=True) if dots else ((), ())), label=label, **style)
                axes.set(xlabel="true gain over practice", title=title, xlim=(-1.1, 1.1), ylim=(-0.6, 1.8))
                axes.spines[["top", "right"]].set_visible(False)
            panels[0].set_ylabel("promised gain")
            figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
            place_of = out.with_name(f"{out.stem}-dark{out.suffix}") if dark else out
            figure.savefig(place_of, metadata={"Date": None}, transparent=dark)
            plt.close(figure)


def main(arguments: list[str]) -> None:
    """Measure what has no row yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--ways", nargs="+", choices=NAMES, default=[*NAMES])
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="only draw what the rows there come to")
    add_flags(parser, "headline")
    asked = parser.parse_args(arguments)
    if asked.draw is not None:
        draw(rows_in(asked.draw), DOCS / "estimate-against-truth.svg")
        return
    if asked.table is None:
        if unknown := [kind for kind in asked.kinds if kind not in KINDS]:
            parser.error(f"there is no kind {unknown[0]!r}: choose from {', '.join(KINDS)}")
        own = seeds(FIRST_SEED if asked.first is None else asked.first, asked.logs, asked.shard)
        tasks = [
            (kind, way, seed)
            for seed in own
            for kind in asked.kinds or KINDS
            for way in asked.ways
            if not (way.startswith("aipw") and (kind == "tumor" or kind == "hole"))  # one step, every propensity
        ]
        for _ in carry_out(tasks, measured, asked.out, asked.shard, asked.jobs, asked.minutes):
            pass
    print("\n".join(tables(rows_in(asked.table or asked.out))))


if __name__ == "__main__":
    main(sys.argv[1:])
