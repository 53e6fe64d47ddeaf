"""The paper's CartPole tables: learners on logs from beginner to expert, on test logs and (ours) by roll-outs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import DEFAULT_TRUNCATION
from poela.evaluation.rollouts import true_value
from poela.evaluation.weights import effective_sample_size, weights_of
from poela.simulators.cartpole import STEPS, CartPole, CartPoleBehavior
from poela.simulators.registry import simulate
from poela_experiments.frame.candidates import candidates_of
from poela_experiments.frame.policies import Examined, Source, Truth, weak_notes
from poela_experiments.frame.published import LEARNERS, NO_PENALTY, Number, published
from poela_experiments.frame.results import Cell, Report
from poela_experiments.frame.run import Run
from poela_experiments.frame.trials import SMOOTHING, Choosing, Tried

LOGGING = "logging policy"
SHARES = (0.6, 0.2, 0.2)
SCALE = 100 / STEPS  # 200 steps are 100
# A share, so that smaller versions can choose too: 30 of 248 validation episodes, as in the paper.
CHOOSING = Choosing(30 / 248)
ABOUT = (
    "200 steps are 100; bounds: 5% and 95%; chosen by validation SNTIS among policies with an effective sample size "
    f"of {CHOOSING.least_ess} of the validation episodes or more",
    "true value: by roll-outs, which the paper does not give",
    "behavior is estimated; where nothing is near, POELA allows every action, as the authors' code does",
)


def cartpole(run: Run) -> Report:
    """Four tables: final policies and best checkpoints, with and without the angular velocity."""
    made = run.made({named: partial(part, run, named) for named in ("Markov", "non-Markov")})
    tables = []
    for paper in published("cartpole").values():
        own = made[paper.numbers[0].contexts][paper.protocol]
        numbers = [Number(*number) for number in own["numbers"]]
        tables.append(run.beside(paper, numbers, (*ABOUT, *own["notes"])))
    chosen, support = ([row for one in made.values() for row in one[key]] for key in ("chosen", "support"))
    about = (
        "least ESS: the least effective sample size on the validation logs that a policy of the learner had to have",
        "training ESS: of the training episodes, whose propensities come from the same model as those of the test logs",
    )
    tables.append(run.table("chosen", "Chosen policies", chosen, about))
    notes = (
        f"on the validation logs, whose propensities are estimated; weights are truncated at {DEFAULT_TRUNCATION:g}",
        "a logging checkpoint is one of the eight policies that made the logs; of the learners, the policy with the "
        "largest effective sample size of all checkpoints",
    )
    return run.report([*tables, run.table("support", "Effective sample sizes to choose from", support, notes)])


def part(run: Run, named: str) -> dict[str, Any]:
    """All that the tables say of logs with or without the angular velocity, in plain."""
    source = cartpole_source(run, named == "Markov")
    found: dict[str, Any] = {"chosen": []}
    for protocol in CHOOSING.selections:
        logging = source.logging(LOGGING, protocol)
        examined = []
        for learner, item, least in source.choices(protocol):
            examined.append(source.examined(item, learner, protocol, least))
            ess = evaluate(item.policy, source.logs[0], interval=None, smoothing=SMOOTHING).ess
            found["chosen"].append(_details(examined[-1], ess))
        found["chosen"].append(_details(logging, None))
        numbers = [number for one in [*examined, logging] for number in one.numbers()]
        plain = [[n.learner, n.contexts, n.quantity, n.value, n.error, n.judged] for n in numbers]
        weak, missing = weak_notes(examined, (*LEARNERS, NO_PENALTY))
        found[protocol] = {"numbers": plain, "notes": [*weak, *missing]}
    checkpoints = CartPoleBehavior().of_each(split_logs(run, markov=True)[1].contexts)
    found["support"] = [*supports(source.logs[1], checkpoints, source.by_learner, named)]
    return found


def cartpole_source(run: Run, markov: bool) -> Source:
    """The logs with or without the angular velocity, and what is learned from them."""
    # Propensities are estimated, as the name of the paper's PO-mu column has it.
    return Source(
        run.seed,
        [logs.with_propensities(None) for logs in split_logs(run, markov)],
        run.size.behavior,
        candidates_of("cartpole", run.size),
        run.size.restarts,
        partial(_truth, markov=markov, roll_outs=run.size.roll_outs, seed=run.seed),
        CHOOSING,
        contexts="Markov" if markov else "non-Markov",
        scale=SCALE,
    )


def _truth(policy: Any, markov: bool, roll_outs: int, seed: int) -> Truth:
    found = true_value(policy, CartPole(markov), roll_outs, seed=seed)
    return Truth(SCALE * found.value, SCALE * found.standard_error)


def split_logs(run: Run, markov: bool) -> tuple[Trajectories, ...]:
    """The episodes to learn from, to choose by and to test with."""
    return simulate("cartpole", run.size.episodes, run.seed, markov=markov).split(SHARES, seed=run.seed)


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
    validation: Trajectories, checkpoints: FloatArray, learners: Mapping[str, Sequence[Tried]], contexts: str
) -> Iterator[dict[str, Cell]]:
    """A row for each logging checkpoint [N, checkpoints, 2], and for each learner's best supported policy."""
    for number in range(checkpoints.shape[1]):
        name = f"logging checkpoint {number + 1} of {checkpoints.shape[1]}"
        yield {"contexts": contexts, "policy": name, **support(checkpoints[:, number], validation)}
    for learner, own in learners.items():
        best = max(own, key=lambda item: item.metric("ess"))
        row = {"ESS": best.metrics["ess"], "SNTIS": SCALE * best.metric("sntis"), "episodes at the truncation": None}
        yield {"contexts": contexts, "policy": learner, **row}


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
