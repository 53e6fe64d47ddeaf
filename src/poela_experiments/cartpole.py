"""The paper's CartPole tables: learners on logs from beginner to expert, on test logs and (ours) by roll-outs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.progress import progress
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import DEFAULT_TRUNCATION
from poela.evaluation.rollouts import true_value
from poela.evaluation.weights import effective_sample_size, weights_of
from poela.simulators.cartpole import STEPS, CartPole, CartPoleBehavior
from poela.simulators.registry import simulate
from poela.studies.selection import Point
from poela_experiments.frame.candidates import candidates_of
from poela_experiments.frame.policies import Choosing, Examined, Source, Truth, weak_notes
from poela_experiments.frame.published import LEARNERS, NO_PENALTY, published
from poela_experiments.frame.results import Cell, Report, ResultTable
from poela_experiments.frame.run import Run

LOGGING = "logging policy"
SHARES = (0.6, 0.2, 0.2)
SCALE = 100 / STEPS  # 200 steps are 100
# A share, so that smaller versions can choose too: 30 of 248 validation episodes, as in the paper.
CHOOSING = Choosing(30 / 248)


def cartpole_source(run: Run, markov: bool) -> Source:
    """The logs with or without the angular velocity, and the study of them."""
    # Propensities are estimated, as the name of the paper's PO-mu column has it.
    return Source(
        run,
        _named(markov).lower(),
        run.seed,
        lambda: split_logs(run, markov, hidden=True),
        candidates_of("cartpole", run.size),
        run.size.behavior,
        partial(_truth, markov=markov, roll_outs=run.size.roll_outs, seed=run.seed),
        CHOOSING,
        contexts=_named(markov),
        scale=SCALE,
    )


def _named(markov: bool) -> str:
    return "Markov" if markov else "non-Markov"


def _truth(policy: Any, markov: bool, roll_outs: int, seed: int) -> Truth:
    found = true_value(policy, CartPole(markov), roll_outs, seed=seed)
    return Truth(SCALE * found.value, SCALE * found.standard_error)


def split_logs(run: Run, markov: bool, hidden: bool = False) -> tuple[Trajectories, ...]:
    """The episodes to learn from, to choose by and to test with; `hidden`: without propensities."""
    logs = simulate("cartpole", run.size.episodes, run.seed, markov=markov)
    return (logs.with_propensities(None) if hidden else logs).split(SHARES, seed=run.seed)


def logging_checkpoints(run: Run) -> FloatArray:
    """Each logging checkpoint's own probabilities [N, checkpoints, 2] along the validation episodes."""
    return CartPoleBehavior().of_each(split_logs(run, markov=True)[1].contexts)


def every_choice(source: Source) -> Iterator[tuple[Examined, float | None]]:
    """Every choice and the logging policy, by either protocol; with the effective sample size in training."""
    train = source.weighted(source.logs[0])
    for protocol in CHOOSING.selections:
        for learner, item, least in source.choices(protocol):
            smoothing = item.metrics["smoothing"] or 0.0
            ess = evaluate(source.policy(item), train, interval=None, smoothing=smoothing).ess
            yield source.examined(item, learner, protocol, least), ess
        yield source.logging(LOGGING, protocol), None


def cartpole(run: Run) -> Report:
    """Four tables: final policies and best checkpoints, with and without the angular velocity."""
    examined: list[tuple[Examined, float | None]] = []
    support: list[dict[str, Cell]] = []
    with progress("CartPole", 2) as advance:
        for markov in (True, False):
            source = cartpole_source(run, markov)
            examined += every_choice(source)
            validation = source.weighted(source.logs[1])
            support += supports(validation, logging_checkpoints(run), source.by_learner, source.contexts)
            advance()
    notes = (
        f"on the validation logs, whose propensities are estimated; weights are truncated at {DEFAULT_TRUNCATION:g}",
        "a logging checkpoint is one of the eight policies that made the logs; of the learners, the policy with the "
        "largest effective sample size of all checkpoints",
    )
    table = run.table("support", "Effective sample sizes to choose from", support, notes)
    return run.report([*tables_of(run, examined), table])


def tables_of(run: Run, examined: Sequence[tuple[Examined, float | None]]) -> Iterator[ResultTable]:
    """The four tables of the paper, and what was chosen."""
    for paper in published("cartpole").values():
        where = (paper.protocol, paper.numbers[0].contexts)
        own = [item for item, _ in examined if (item.protocol, item.contexts) == where]
        weak, missing = weak_notes(own, (*LEARNERS, NO_PENALTY))
        notes = (
            "200 steps are 100; bounds: 5% and 95%; chosen by validation SNTIS among policies with an effective sample "
            f"size of {CHOOSING.least_ess} of the validation episodes or more",
            "true value: by roll-outs, which the paper does not give",
            "behavior is estimated; where nothing is near, POELA allows every action, as the authors' code does",
            *weak,
            *missing,
        )
        yield run.beside(paper, [number for item in own for number in item.numbers()], notes)
    about = (
        "least ESS: the least effective sample size on the validation logs that a policy of the learner had to have",
        "training ESS: of the training episodes, whose propensities come from the same model as those of the test logs",
    )
    yield run.table("chosen", "Chosen policies", [_details(*pair) for pair in examined], about)


def _details(item: Examined, training_ess: float | None) -> dict[str, Cell]:
    return {
        "contexts": item.contexts,
        "protocol": item.protocol,
        "learner": item.learner,
        "SNTIS": item.scale * item.promise.value,
        "true value": None if item.truth is None else item.truth.value,
        "ESS": item.promise.ess,
        "training ESS": training_ess,
        "verdict": item.promise.verdict,
        "least ESS": item.least_ess,
        "chosen": item.chosen,
    }


def supports(
    validation: Trajectories, checkpoints: FloatArray, learners: Mapping[str, Sequence[Point]], contexts: str
) -> Iterator[dict[str, Cell]]:
    """A row for each logging checkpoint [N, checkpoints, 2], and for each learner's best supported policy."""
    for number in range(checkpoints.shape[1]):
        name = f"logging checkpoint {number + 1} of {checkpoints.shape[1]}"
        yield {"contexts": contexts, "policy": name, **support(checkpoints[:, number], validation)}
    for learner, own in learners.items():
        best = max(own, key=lambda item: item.metrics.get("ess") or 0.0)
        value = best.metrics.get("sntis")
        yield {
            "contexts": contexts,
            "policy": learner,
            "ESS": best.metrics.get("ess"),
            "SNTIS": None if value is None else SCALE * value,
            "episodes at the truncation": None,
        }


def support(probabilities: FloatArray, logs: Trajectories) -> dict[str, Cell]:
    """Of a policy with these probabilities [N, A] along the logs; 200 steps are 100.

    >>> logs = Trajectories(np.zeros((8, 1)), [0, 1] * 4, np.ones(8), [0, 4, 8], propensities=np.full((8, 2), 0.5))
    >>> support(np.full((8, 2), 0.5), logs)
    {'ESS': 2.0, 'SNTIS': 2.0, 'episodes at the truncation': 0}
    """
    weights = weights_of(probabilities, logs)
    used = np.exp(weights.truncated(DEFAULT_TRUNCATION))
    return {
        "ESS": effective_sample_size(weights.truncated(DEFAULT_TRUNCATION)),
        "SNTIS": float(SCALE * (used @ logs.returns()) / used.sum()),
        "episodes at the truncation": int((weights.episodes > np.log(DEFAULT_TRUNCATION)).sum()),
    }
