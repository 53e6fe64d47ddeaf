"""The table of experiments: a new one is one file and one line here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Experiment:
    """Where an experiment lives, and what it shows.

    `run` names a function `(out: Path, quick: bool, seed: int, running: Running) -> report`; a report prints as text
    and has `to_dict()`.
    """

    run: str
    summary: str


EXPERIMENTS: dict[str, Experiment] = {
    "demo": Experiment(
        "poela.experiments.demo:demo", "from a simulated log to an evaluated policy, in a minute or two"
    ),
    "tumor": Experiment("poela.experiments.tumor:tumor", "five learners on tumor logs, beside the truth: six tables"),
    "tumor-weights": Experiment(
        "poela.experiments.tumor_weights:tumor_weights", "their weights on low returns; --out tumor uses those studies"
    ),
    "values": Experiment(
        "poela.experiments.value_learners:value_learners", "BCQ, PQL, CQL and FittedQ's path on tumor logs"
    ),
    "sepsis": Experiment(
        "poela.experiments.sepsis:sepsis",
        "learners on simulated sepsis logs, beside the truth: the paper's tables and figures",
    ),
    "cartpole": Experiment("poela.experiments.cartpole:cartpole", "five learners on CartPole logs: four tables"),
    "counterexamples": Experiment(
        "poela.experiments.counterexamples:counterexamples", "the paper's small examples: episodes needed against H"
    ),
    "behavior": Experiment(
        "poela.experiments.behavior_models:behavior_models", "behavior models beside known logging policies"
    ),
    "coverage": Experiment(
        "poela.experiments.coverage:coverage", "how often each interval holds the truth, and what the verdict says"
    ),
}
