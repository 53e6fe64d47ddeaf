"""The paper's sepsis tables: final policies, best checkpoints, least effective sample sizes, radii, the trade-off."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.experiments.chosen_policies import ANY, Choosing, unqualified
from poela.experiments.comparison import compared
from poela.experiments.figures import cloud_figure, line_figure
from poela.experiments.published.records import NO_PENALTY, Number, PublishedTable
from poela.experiments.published.sepsis import DELTA_STUDY, SEPSIS
from poela.experiments.results import Cell, ResultTable
from poela.experiments.sepsis_policies import Examined, Examiner
from poela.experiments.sepsis_studies import CHOOSING, NAMES, PENALTIES, RADII, UNLIMITED
from poela.studies.selection import Scored

NOTES = (
    "ours is a simulator on the public icu-sepsis matrices, not MIMIC-III itself: "
    "agreement can be one of order, not of level",
    "bounds: 5% and 95%, BCa; true value: by roll-outs, which the paper cannot give",
)
WEIGHTED_BY = {
    "kNN": "as in the authors' code, the kNN behind the weights of a set of episodes is fitted on that very set, and "
    "the one behind rules on the training episodes",
    "other": "the logging policy's model is fitted on training episodes, where its weights are cross-fitted",
}
CHOSEN_BY = (
    f"chosen by validation SNTIS among policies with an effective sample size of {CHOOSING.least_ess} of the "
    "validation episodes or more (the paper's 200)"
)
NONE = "none"
ABLATION = next(table for table in SEPSIS if table.label == "tab:sepsis_noess_result")
LEARNERS = (*(NAMES[name] for name in ("poela", "pomu", "pocrm", "bcq", "pql")), NO_PENALTY)


def published_tables(examiner: Examiner, command: str) -> Iterator[ResultTable]:
    """Final policies and best checkpoints under one behavior model, beside the paper's."""
    for paper in SEPSIS:
        if paper.behavior != examiner.source.task.behavior or paper is ABLATION:
            continue
        chosen = examiner.chosen(paper.protocol)
        examined = [examiner.examined(item, name, paper.protocol, least) for name, item, least in chosen]
        weighted_by = WEIGHTED_BY.get(paper.behavior, WEIGHTED_BY["other"])
        notes = (CHOSEN_BY, *NOTES, weighted_by)
        yield _beside(paper, [*examined, examiner.logging(paper.protocol)], notes, command)


def ablation_tables(examiner: Examiner, command: str) -> Iterator[ResultTable]:
    """The same choices without a least effective sample size: beside the paper's, and in both protocols."""
    found = {
        (protocol, least): _chosen(examiner, protocol, choosing)
        for least, choosing in ((NONE, UNLIMITED), (CHOOSING.least_ess, CHOOSING))
        for protocol in choosing.selections
    }
    notes = ("no least effective sample size", *NOTES, WEIGHTED_BY["kNN"])
    yield _beside(ABLATION, found[ABLATION.protocol, NONE], notes, command)
    rows: list[dict[str, Cell]] = [
        {
            "protocol": protocol,
            "least ESS": least,
            "learner": item.learner,
            **item.cells(),
            "SNTIS - truth": item.estimate.value - item.truth.value,
            "chosen": item.chosen,
        }
        for (protocol, least), examined in found.items()
        for item in examined
    ]
    none = "" if any(row["least ESS"] != NONE for row in rows) else f"no policy of any learner has {CHOOSING.least_ess}"
    title = "Sepsis, behavior by kNN: with and without a least effective sample size"
    yield ResultTable(title, rows, command, (none,) if none else ())


def _chosen(examiner: Examiner, protocol: str, choosing: Choosing) -> list[Examined]:
    found = {
        name: examiner.source.chosen(items, protocol, choosing) for name, items in examiner.source.by_learner.items()
    }
    return [
        examiner.examined(item, name, protocol)
        for name, (item, least) in found.items()
        if item is not None and least != ANY
    ]


def delta_tables(examiner: Examiner, out: Path, command: str) -> Iterator[ResultTable]:
    """POELA by its radius: on training and test logs and in truth; on validation logs."""
    chosen = {radius: examiner.source.chosen(_with_radius(examiner, radius), "best") for radius in RADII}
    train, _, _ = examiner.source.task.weighted_logs(examiner.source.size)
    numbers = [
        number
        for radius, (item, least) in chosen.items()
        if item is not None
        for number in _by_radius(examiner, item, radius, train, least)
    ]
    _delta_figures(numbers, out)
    any_size = [f"{radius:.1f}" for radius, (item, least) in chosen.items() if item is not None and least == ANY]
    about = ("best checkpoints", CHOSEN_BY, *unqualified(any_size), *NOTES, WEIGHTED_BY["kNN"])
    yield ResultTable(DELTA_STUDY.title, compared(DELTA_STUDY, numbers), command, about)
    rows = [_by_penalty(examiner, radius, penalty) for radius in RADII for penalty in PENALTIES]
    notes = (
        "the checkpoint with the highest validation SNTIS, whatever its effective sample size; "
        "the largest one that any checkpoint has on the validation logs",
        NOTES[0],
    )
    yield ResultTable(f"{DELTA_STUDY.title}, on validation logs", [row for row in rows if row], command, notes)


def _by_penalty(examiner: Examiner, radius: float, penalty: float) -> dict[str, Cell]:
    source = examiner.source
    items = [i for i in _with_radius(examiner, radius) if source.candidate(i).settings["variance_penalty"] == penalty]
    chosen, _ = source.chosen(items, "best", UNLIMITED)
    if chosen is None:
        return {}
    return {
        "δ": radius,
        "variance penalty": penalty,
        "SNTIS": chosen.metrics["sntis"],
        "± SNTIS": chosen.metrics["sntis_error"],
        "ESS": chosen.metrics["ess"],
        "largest ESS": max(item.metrics["ess"] or 0.0 for item in items),
        "chosen": source.study.name_of(chosen),
    }


def _with_radius(examiner: Examiner, radius: float) -> list[Scored]:
    source = examiner.source
    own = source.by_learner.get("POELA", [])
    return [item for item in own if source.candidate(item).settings["radius"] == radius]


def _by_radius(examiner: Examiner, item: Scored, radius: float, train: Trajectories, least: str) -> Iterator[Number]:
    name = f"{radius:.1f}"
    learned = evaluate(examiner.policy(item), train, interval=None)
    tested = examiner.examined(item, name, "best")
    for where, estimate in (("training", learned), ("test", tested.estimate)):
        yield Number(name, "", f"{where} SNTIS", estimate.value, estimate.standard_error, judged=least != ANY)
        yield Number(name, "", f"{where} ESS", estimate.ess)
    for quantity, metric in (("validation SNTIS", "sntis"), ("validation ESS", "ess")):
        if (value := item.metrics[metric]) is not None:
            yield Number(name, "", quantity, value)
    yield Number(name, "", "true value", tested.truth.value, tested.truth.standard_error)


def _delta_figures(numbers: Sequence[Number], out: Path) -> None:
    def lines(*quantities: str) -> dict[str, tuple[list[float], list[float]]]:
        ours = {name: [item for item in numbers if item.quantity == name] for name in quantities}
        return {
            f"{name}, {whose}": ([float(item.learner) for item in own], [item.value for item in own])
            for name in quantities
            for whose, own in (
                ("paper", [item for item in DELTA_STUDY.numbers if item.quantity == name]),
                ("ours", ours[name]),
            )
            if own
        }

    values = lines("training SNTIS", "test SNTIS", "validation SNTIS", "true value")
    line_figure(out / "sepsis-radius-value", values, x="δ", y="value")
    sizes = lines("training ESS", "test ESS", "validation ESS")
    line_figure(out / "sepsis-radius-ess", sizes, x="δ", y="effective sample size")


def trade_off_table(examiner: Examiner, out: Path, command: str) -> ResultTable:
    """Value against effective sample size on the validation logs: the best checkpoint of every run."""
    source, on_frontier = examiner.source, _frontier(examiner)
    runs: dict[tuple[str, str], list[Scored]] = {}
    for name, items in source.by_learner.items():
        for item in items if name != NO_PENALTY else ():
            runs.setdefault((name, item.run_id), []).append(item)
    best = [(name, source.chosen(items, "best", UNLIMITED)[0]) for (name, _), items in runs.items()]
    rows: list[dict[str, Cell]] = [
        {
            "learner": name,
            "chosen": source.study.name_of(item),
            "ESS": item.metrics["ess"],
            "SNTIS": item.metrics["sntis"],
            "on the frontier": (item.run_id, item.number) in on_frontier,
        }
        for name, item in best
        if item is not None
    ]
    mean = source.study.record.logging_policy.value
    clouds = {str(name): _column(rows, name, "ESS", "SNTIS") for name in dict.fromkeys(row["learner"] for row in rows)}
    cloud_figure(out / "sepsis-trade-off", clouds, x="effective sample size", y="validation SNTIS", line=mean)
    notes = (f"validation logs; the mean logged return there is {mean:.2f}", *NOTES[:1])
    return ResultTable("Sepsis, behavior by kNN: effective sample size and value of every run", rows, command, notes)


def _column(rows: Sequence[dict[str, Cell]], learner: Cell, *names: str) -> tuple[list[float], list[float]]:
    across, up = ([float(str(row[name])) for row in rows if row["learner"] == learner] for name in names)
    return across, up


def _frontier(examiner: Examiner) -> set[tuple[str, int]]:
    """The checkpoints that no other of the study beats in both."""
    kept = {(row["run"], row["step"]) for row in examiner.source.study.frontier().to_pylist()}
    return {
        (item.run_id, item.number)
        for item in examiner.source.study.scored
        if (item.run_id, examiner.source.study.runs[item.run_id].checkpoints[item.number].step) in kept
    }


def _beside(paper: PublishedTable, examined: Sequence[Examined], notes: tuple[str, ...], command: str) -> ResultTable:
    missing = [name for name in LEARNERS if name not in {item.learner for item in examined}]
    if missing:
        notes = (f"no policy with any weight: {', '.join(missing)}", *notes)
    notes = (*unqualified([item.learner for item in examined if item.least_ess == ANY]), *notes)
    rows = compared(paper, [number for item in examined for number in item.numbers()])
    return ResultTable(paper.title, rows, command, notes)
