"""The paper's sepsis tables: final policies, best checkpoints, least effective sample sizes, radii, the trade-off."""

from collections.abc import Iterator, Sequence

from poela.evaluation.evaluate import evaluate
from poela.studies.selection import Point
from poela_experiments.frame.candidates import tried
from poela_experiments.frame.figures import cloud_figure, line_figure
from poela_experiments.frame.policies import ANY, UNLIMITED, Choosing, Examined, Source, unqualified, weak_notes
from poela_experiments.frame.published import LEARNERS, NO_PENALTY, Number, PublishedTable, published
from poela_experiments.frame.results import Cell, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.sepsis_studies import CHOOSING, EARLY, LOGGING, cells, sepsis_source

SEPSIS = published("sepsis")
RADIUS, ABLATION = SEPSIS["radius"], SEPSIS["no-least-ess"]
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


def published_tables(source: Source, behavior: str) -> Iterator[ResultTable]:
    """Final policies and best checkpoints under one behavior model, beside the paper's."""
    for paper in SEPSIS.values():
        if paper.behavior != behavior or paper in (ABLATION, RADIUS):
            continue
        chosen = source.choices(paper.protocol)
        examined = [source.examined(item, name, paper.protocol, least) for name, item, least in chosen]
        notes = (CHOSEN_BY, *NOTES, WEIGHTED_BY.get(paper.behavior, WEIGHTED_BY["other"]))
        yield _beside(source, paper, [*examined, source.logging(LOGGING, paper.protocol)], notes)


def ablation_tables(source: Source) -> Iterator[ResultTable]:
    """The same choices without a least effective sample size: beside the paper's, and in both protocols."""
    found = {
        (protocol, least): _chosen(source, protocol, choosing)
        for least, choosing in ((NONE, UNLIMITED), (CHOOSING.least_ess, CHOOSING))
        for protocol in choosing.selections
    }
    notes = ("no least effective sample size", *NOTES, WEIGHTED_BY["kNN"])
    yield _beside(source, ABLATION, found[ABLATION.protocol, NONE], notes)
    rows: list[dict[str, Cell]] = [
        {
            "protocol": protocol,
            "least ESS": least,
            "learner": item.learner,
            **cells(item),
            "SNTIS - truth": item.promise.value - item.worth.value,
            "chosen": item.chosen,
        }
        for (protocol, least), examined in found.items()
        for item in examined
    ]
    none = "" if any(row["least ESS"] != NONE for row in rows) else f"no policy of any learner has {CHOOSING.least_ess}"
    title = "Sepsis, behavior by kNN: with and without a least effective sample size"
    yield source.run.table("least-ess", title, rows, (none,) if none else ())


def _chosen(source: Source, protocol: str, choosing: Choosing) -> list[Examined]:
    found = {name: source.choice(items, protocol, choosing) for name, items in source.by_learner.items()}
    return [
        source.examined(item, name, protocol)
        for name, (item, least) in found.items()
        if item is not None and least != ANY
    ]


def radius_tables(source: Source) -> Iterator[ResultTable]:
    """POELA by its radius: on training and test logs and in truth; on validation logs."""
    radii, penalties = (tried("sepsis", "poela", setting) for setting in ("radius", "variance_penalty"))
    chosen = {radius: source.choice(_with(source, radius=radius), "best") for radius in radii}
    best = {radius: (item, least) for radius, (item, least) in chosen.items() if item is not None}
    numbers = [number for radius, own in best.items() for number in _by_radius(source, radius, *own)]
    _radius_figures(source, numbers)
    any_size = [f"{radius:.1f}" for radius, (_, least) in best.items() if least == ANY]
    about = ("best checkpoints", CHOSEN_BY, *unqualified(any_size), *NOTES, WEIGHTED_BY["kNN"])
    yield source.run.beside(RADIUS, numbers, about)
    rows = [_by_penalty(source, radius, penalty) for radius in radii for penalty in penalties]
    notes = (
        "the checkpoint with the highest validation SNTIS, whatever its effective sample size; "
        "the largest one that any checkpoint has on the validation logs",
        NOTES[0],
    )
    title = f"{RADIUS.title}, on validation logs"
    yield source.run.table("radius-validation", title, [row for row in rows if row], notes)


def _by_penalty(source: Source, radius: float, penalty: float) -> dict[str, Cell]:
    items = _with(source, radius=radius, variance_penalty=penalty)
    chosen, _ = source.choice(items, "best", UNLIMITED)
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


def _with(source: Source, **settings: float) -> list[Point]:
    """The policies of POELA with these settings."""
    own = source.by_learner.get("POELA", [])
    return [item for item in own if settings.items() <= source.candidate(item).settings.items()]


def _by_radius(source: Source, radius: float, item: Point, least: str) -> Iterator[Number]:
    name = f"{radius:.1f}"
    learned = evaluate(source.policy(item), source.logs[0], interval=None)
    tested = source.examined(item, name, "best")
    for where, estimate in (("training", learned), ("test", tested.promise)):
        yield Number(name, "", f"{where} SNTIS", estimate.value, estimate.standard_error, judged=least != ANY)
        yield Number(name, "", f"{where} ESS", estimate.ess)
    for quantity, metric in (("validation SNTIS", "sntis"), ("validation ESS", "ess")):
        if (value := item.metrics[metric]) is not None:
            yield Number(name, "", quantity, value)
    yield Number(name, "", "true value", *tested.worth)


def _radius_figures(source: Source, numbers: Sequence[Number]) -> None:
    for name, y, what, more in (
        ("value", "value", "SNTIS", ["true value"]),
        ("ess", "effective sample size", "ESS", []),
    ):
        found = {
            f"{quantity}, {whose}": [(float(item.learner), item.value) for item in given if item.quantity == quantity]
            for quantity in (*(f"{where} {what}" for where in ("training", "test", "validation")), *more)
            for whose, given in (("paper", RADIUS.numbers), ("ours", numbers))
        }
        lines = {line: ([x for x, _ in own], [value for _, value in own]) for line, own in found.items() if own}
        line_figure(source.run.place(f"radius-{name}"), lines, x="δ", y=y)


def trade_off_table(source: Source) -> ResultTable:
    """Value against effective sample size on the validation logs: the best checkpoint of every run."""
    on_frontier = _frontier(source)
    runs: dict[tuple[str, str], list[Point]] = {}
    for name, items in source.by_learner.items():
        for item in items if name != NO_PENALTY else ():
            runs.setdefault((name, item.run_id), []).append(item)
    best = [(name, source.choice(items, "best", UNLIMITED)[0]) for (name, _), items in runs.items()]
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
    path = source.run.place("trade-off")
    cloud_figure(path, clouds, x="effective sample size", y="validation SNTIS", line=mean)
    notes = (f"validation logs; the mean logged return there is {mean:.2f}", *NOTES[:1])
    title = "Sepsis, behavior by kNN: effective sample size and value of every run"
    return source.run.table("trade-off", title, rows, notes)


def _column(rows: Sequence[dict[str, Cell]], learner: Cell, *names: str) -> tuple[list[float], list[float]]:
    across, up = ([float(str(row[name])) for row in rows if row["learner"] == learner] for name in names)
    return across, up


def _frontier(source: Source) -> set[tuple[str, int]]:
    """The checkpoints that no other of the study beats in both."""
    study = source.study
    kept = {(row["path"], row["step"]) for row in study.frontier().to_pylist()}
    steps = [study.runs[item.run_id].checkpoints[item.number].step for item in study.points]
    pairs = zip(study.points, steps, strict=True)
    return {(item.run_id, item.number) for item, step in pairs if (item.path_id, step) in kept}


def first_steps_tables(run: Run) -> Iterator[ResultTable]:
    """The first gradient steps looked at as closely as in the paper: best checkpoints, and effective sample sizes.

    Cloning the logging policy comes first, so this is where effective sample sizes are largest. The study of all steps
    has its checkpoints wider apart.
    """
    source = sepsis_source(run, early=True)
    chosen = [source.examined(item, name, "best", least) for name, item, least in source.choices("best")]
    steps, checkpoints = (run.size.kinds[EARLY][name] for name in ("steps", "checkpoints"))
    notes = (
        f"checkpoints after every {steps // checkpoints} of the first {steps} steps; "
        "policy-gradient learners with the paper's settings",
        f"{CHOSEN_BY}; where no policy of a learner has that, with any",
        *NOTES,
        WEIGHTED_BY["kNN"],
    )
    title = "Sepsis, behavior by kNN: best checkpoint of the first steps"
    yield run.table(
        "first-steps", title, [_first_row(item) for item in [*chosen, source.logging(LOGGING, "best")]], notes
    )
    title = "Sepsis, behavior by kNN: largest effective sample size by step"
    yield run.table("ess-by-step", title, list(_sizes(source)))


def _first_row(item: Examined) -> dict[str, Cell]:
    paper = {quantity: SEPSIS["checkpoint"].find(item.learner, quantity) for quantity in ("SNTIS", "ESS")}
    return {
        "learner": item.learner,
        **{f"paper's {quantity}": None if number is None else number.value for quantity, number in paper.items()},
        **cells(item),
        "least ESS": item.least_ess,
        "chosen": item.chosen,
    }


def _sizes(source: Source) -> Iterator[dict[str, Cell]]:
    """Over all settings of a learner, on the validation logs."""
    for name, items in source.by_learner.items():
        largest: dict[int, float] = {}
        for item in items:
            step = source.study.runs[item.run_id].checkpoints[item.number].step
            largest[step] = max(largest.get(step, 0.0), item.metrics["ess"] or 0.0)
        yield {"learner": name, **{f"step {step}": largest[step] for step in sorted(largest)}}


def _beside(source: Source, paper: PublishedTable, examined: Sequence[Examined], notes: tuple[str, ...]) -> ResultTable:
    weak, missing = weak_notes(examined, (*LEARNERS, NO_PENALTY))
    return source.run.beside(
        paper, [number for item in examined for number in item.numbers()], (*weak, *missing, *notes)
    )
