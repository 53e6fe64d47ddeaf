"""Every learner beside the logging policy, in truth and by its estimate; and what a default study hands back."""

from collections.abc import Sequence

from poela.simulators.episodes import run as simulated
from poela.simulators.sepsis import Sepsis, SepsisBehavior
from poela.studies.study import Study
from poela_experiments.frame.policies import Examined, Source, Truth
from poela_experiments.frame.published import NO_PENALTY
from poela_experiments.frame.results import Cell, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.sepsis_studies import CHOOSING, LOGGING, OWN, sepsis_source, standard_errors_above

LOST = 2.0  # standard errors below the logging policy
FROM_LOGGING = "standard errors from the clinicians"
MISLEADS = "says better, is worse"
CAUGHT, MISSED = "yes, caught", "yes, not caught"


def beside_table(run: Run, variant: str, number: int) -> ResultTable:
    """Each learner's own choice with own care: its truth, its estimate, and whether the verdict can be believed."""
    source = sepsis_source(run, variant, OWN, number)
    logging = source.logging(LOGGING, "")
    chosen = [own for own in source.choices("best") if own[0] != NO_PENALTY]
    rows = [_row(source.examined(item, name, "best", least), logging) for name, item, least in chosen]
    notes = (
        f"chosen by validation SNTIS among all checkpoints, with an effective sample size of {CHOOSING.least_ess} of "
        "the validation episodes or more; where no policy of a learner has that, with any",
        f"{MISLEADS}: the truth is more than {LOST:g} standard errors below the clinicians', the estimate above their "
        "mean return on the same test logs; caught: the verdict is not 'trust'",
        f"{source.study.record.data.propensities}",
    )
    which, key = (", another data set", "-another") if number else ("", "")
    title = f"Sepsis, {variant}{which}: every learner beside the clinicians"
    return run.table(f"beside-{variant}{key}", title, [_row(logging, logging), *rows], notes)


def _row(item: Examined, logging: Examined) -> dict[str, Cell]:
    return {
        "learner": item.learner,
        "true value": item.worth.value,
        "its error": item.worth.standard_error,
        FROM_LOGGING: 0.0 if item is logging else standard_errors_above(item.worth, logging.worth),
        "SNTIS": item.promise.value,
        "± SNTIS": item.promise.standard_error,
        "lower bound": item.promise.low,
        "upper bound": item.promise.high,
        "validation SNTIS": item.validation,
        "ESS": item.promise.ess,
        "verdict": item.promise.verdict,
        MISLEADS: misleads(item, logging),
        "least ESS": item.least_ess,
        "chosen": item.chosen,
    }


def misleads(item: Examined, logging: Examined) -> str:
    """Whether a policy is worse than the logging policy while its estimate says better, and the verdict warns."""
    worse = item is not logging and standard_errors_above(item.worth, logging.worth) < -LOST
    if not (worse and item.promise.value > logging.promise.value):
        return "no"
    return MISSED if item.promise.verdict == "trust" else CAUGHT


def closing(tables: Sequence[ResultTable]) -> str:
    """Which learners lose while their estimate looks fine, and how many of them the verdict catches.

    >>> rows = [{"learner": name, FROM_LOGGING: -3.0, MISLEADS: how} for name, how in (("A", CAUGHT), ("B", "no"))]
    >>> print(closing([ResultTable("", "Sepsis, harmful: every learner beside the clinicians", rows, "")]))
    Sepsis, harmful: of 2 learners 2 are more than 2 standard errors below the clinicians (A, B).
    The estimates of 1 say the contrary (A); the verdict catches 1 of 1.
    """
    lines = []
    for table in tables:
        if MISLEADS not in table.columns:
            continue
        learned = [row for row in table.rows if row.get("least ESS") != ""]
        worse = [str(row["learner"]) for row in learned if float(str(row[FROM_LOGGING])) < -LOST]
        fooled = {str(row["learner"]): row[MISLEADS] for row in learned if row[MISLEADS] != "no"}
        caught = sum(how == CAUGHT for how in fooled.values())
        lines.append(
            f"{table.title.partition(':')[0]}: of {len(learned)} learners {len(worse)} are more than {LOST:g} standard "
            f"errors below the clinicians{_listed(worse)}."
        )
        if fooled:
            lines.append(
                f"The estimates of {len(fooled)} say the contrary{_listed(list(fooled))}; "
                f"the verdict catches {caught} of {len(fooled)}."
            )
        else:
            lines.append("No estimate says the contrary.")
    return "\n".join(lines)


def _truth_of(source: Source, directory: str) -> list[float]:
    return [*source.truth(Study.open(source.run.out / directory).policy)]


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def default_table(run: Run, variant: str) -> ResultTable:
    """What a study with default settings hands back on one file of logs without propensities; its true worth."""
    size, name, seed = run.size, f"{variant}-default-{run.seed}", (run.seed, 3)
    logs = simulated(Sepsis(variant), SepsisBehavior(), size.default_episodes, seed=seed).with_propensities(None)
    study = run.study(logs, name, learners=size.default_learners or None, seed=run.seed)
    source = sepsis_source(run, variant, OWN)
    learned, logging = Truth(*run.kept(name, _truth_of, source, name)), source.truth(SepsisBehavior())
    # A study that keeps the logging policy hands that back; what it has learned is then only a model of it.
    truth = logging if study.choice.chosen is None else learned
    estimate = study.estimate
    beyond = standard_errors_above(truth, logging)
    row: dict[str, Cell] = {
        "variant": variant,
        "chosen": study.chosen_name,
        "true value": truth.value,
        "its error": truth.standard_error,
        "the clinicians' true value": logging.value,
        FROM_LOGGING: beyond,
        "estimate": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "ESS": estimate.ess,
        "verdict": estimate.verdict,
        "true value of what it learned": learned.value,
        "reason": study.choice.reason,
    }
    kept = (
        "; the clinicians' own policy is kept, and no other is handed back: the study's model of them would be worth "
        f"{learned.value:.2f} ± {learned.standard_error:.2f}"
    )
    notes = (
        f"learn(logs) on {size.default_episodes} episodes without propensities, default split",
        f"the policy is {'' if beyond < -LOST else 'not '}below the clinicians by more than {LOST:g} standard errors"
        f"{kept if study.choice.chosen is None else ''}",
        *([f"learners: {', '.join(size.default_learners)} only"] if size.default_learners else []),
        str(study.record.data.propensities),
    )
    return run.table(f"default-{variant}", f"Sepsis, {variant}: the policy of a default study", [row], notes)
