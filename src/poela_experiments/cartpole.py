"""The paper's CartPole tables: learners on logs from beginner to expert, on test logs and (ours) by roll-outs."""

from functools import partial
from typing import Any

from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.rollouts import true_value
from poela.simulators.cartpole import STEPS, CartPole
from poela.simulators.registry import simulate
from poela_experiments.frame.candidates import candidates_of
from poela_experiments.frame.policies import Examined, Source, Truth, weak_notes
from poela_experiments.frame.published import LEARNERS, NO_PENALTY, Number, published
from poela_experiments.frame.results import Cell, Report
from poela_experiments.frame.run import Run
from poela_experiments.frame.trials import SMOOTHING, Choosing

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
    chosen = [row for one in made.values() for row in one["chosen"]]
    about = (
        "least ESS: the least effective sample size on the validation logs that a policy of the learner had to have",
        "training ESS: of the training episodes, whose propensities come from the same model as those of the test logs",
    )
    return run.report([*tables, run.table("chosen", "Chosen policies", chosen, about)])


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
        found[protocol] = {"numbers": plain, "notes": [*weak_notes(examined, (*LEARNERS, NO_PENALTY))]}
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
