"""Every learner beside the logging policy, in truth and by its estimate."""

from collections.abc import Sequence

from poela_experiments.frame.policies import Examined
from poela_experiments.frame.published import NO_PENALTY
from poela_experiments.frame.results import Cell, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.sepsis_logs import CHOOSING, LOGGING, OWN, sepsis_source, standard_errors_above

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
        source.propensities,
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


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""
