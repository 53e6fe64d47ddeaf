"""The README's picture: what is believed of a policy against what it is worth, the usual way and ours.

    python benchmarks/estimate_against_truth.py --logs 12 --jobs 2 --out docs/estimate-against-truth.svg

Small tumor logs (200 episodes, propensities logged). The usual way: importance-sampling policy learning (PO-CRM), three
settings and every checkpoint, chosen by the estimate on held-out episodes, which is then reported. Ours: a study with
its defaults but for the quick learners; what is reported is the gain that is shown. The truth is a roll-out.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

EPISODES, FIRST_SEED = 200, 7000


def believed_and_true(seed: int) -> dict[str, float | None]:
    """Gains over the logging policy in normalised points: believed and true, the usual way and ours."""
    from poela.evaluation.rollouts import true_value
    from poela.simulators.registry import simulate, source
    from poela.simulators.tumor import normalised
    from poela.studies.candidates import grid
    from poela.studies.learning import learn
    from poela.studies.selection import Selection

    logs, origin = simulate("tumor", EPISODES, seed), source("tumor")
    points = normalised(1.0) - normalised(0.0)
    now = true_value(origin.behavior, origin.simulator, 20_000, seed=1).value

    def gain(policy: Any) -> float:
        return float(points * (true_value(policy, origin.simulator, 20_000, seed=1).value - now))

    usual = learn(
        logs,
        candidates=grid("pocrm", variance_penalty=[0.01, 0.1, 1.0]),
        shares=(0.6, 0.3, 0.1),
        selection=Selection("sntis", "best"),
        backend="inline",
        seed=seed,
    )
    ours = learn(logs, learners=("fittedq", "consensus"), backend="inline", seed=seed)
    chosen = usual.choice.chosen
    found: dict[str, float | None] = {"seed": seed, "usual": None, "usual true": None, "ours": None, "ours true": None}
    if chosen is not None and chosen.metrics["sntis"] is not None:
        logged = usual.record.logging_policy.value
        found |= {"usual": float(points * (chosen.metrics["sntis"] - logged)), "usual true": gain(usual.policy)}
    if not ours.keeps_logging_policy and ours.gain is not None and ours.gain.low is not None:
        found |= {"ours": float(points * ours.gain.low), "ours true": gain(ours.policy)}
    return found


def draw(rows: list[dict[str, float | None]], out: Path) -> None:
    """Dots above the diagonal promise more than there is."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "poela"
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    ends = (-35, 55)
    axes.plot(ends, ends, color="0.6", linewidth=1)
    axes.text(-4, -14, "on the line: as promised; below it: better", color="0.4")
    for way, colour, label in (
        ("usual", "#c44e27", "the usual way: the best held-out estimate"),
        ("ours", "#1f6f8b", "poela: the gain that is shown"),
    ):
        known = [(row[f"{way} true"], row[way]) for row in rows if row[way] is not None]
        axes.scatter(*zip(*known, strict=True), s=36, color=colour, label=label, alpha=0.85)
    axes.set(
        xlabel="true gain over what is done now (points)",
        ylabel="promised gain (points)",
        title=f"What is promised, and what is true: {len(rows)} logs of {EPISODES} cases",
        xlim=ends,
        ylim=(-20, 55),
    )
    axes.legend(loc="upper left", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    """Learn, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("estimate-against-truth.svg"))
    asked = parser.parse_args()
    with ProcessPoolExecutor(asked.jobs) as pool:
        rows = list(pool.map(believed_and_true, range(FIRST_SEED, FIRST_SEED + asked.logs)))
    asked.out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows, asked.out)


if __name__ == "__main__":
    main()
