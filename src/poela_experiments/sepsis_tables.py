"""The paper's sepsis tables: final policies, best checkpoints, least effective sample sizes, radii, the trade-off."""

from collections.abc import Iterator, Sequence

from poela.evaluation.evaluate import evaluate
from poela_experiments.frame.candidates import tried
from poela_experiments.frame.policies import Examined, Source, unqualified, weak_notes
from poela_experiments.frame.published import LEARNERS, NO_PENALTY, Number, PublishedTable, published
from poela_experiments.frame.results import Cell, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.frame.trials import ANY, UNLIMITED, Tried
from poela_experiments.sepsis_logs import CHOOSING, LOGGING
from poela_experiments.tumor_logs import normalised_weights

SEPSIS = published("sepsis")
RADIUS, ABLATION = SEPSIS["radius"], SEPSIS["no-least-ess"]
APART = ("radius", "no-least-ess", "weights")  # made in another way than the others
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


def published_tables(run: Run, source: Source, behavior: str) -> Iterator[ResultTable]:
    """Final policies and best checkpoints under one behavior model, beside the paper's."""
    for paper in SEPSIS.values():
        if paper.behavior != behavior or paper.key in APART:
            continue
        chosen = source.choices(paper.protocol)
        examined = [source.examined(item, name, paper.protocol, least) for name, item, least in chosen]
        notes = (CHOSEN_BY, *NOTES, WEIGHTED_BY.get(paper.behavior, WEIGHTED_BY["other"]))
        yield _beside(run, paper, [*examined, source.logging(LOGGING, paper.protocol)], notes)


def ablation_table(run: Run, source: Source) -> ResultTable:
    """The same choices without a least effective sample size."""
    chosen = {name: source.choice(items, ABLATION.protocol, UNLIMITED)[0] for name, items in source.by_learner.items()}
    examined = [source.examined(item, name, ABLATION.protocol) for name, item in chosen.items() if item is not None]
    return _beside(run, ABLATION, examined, ("no least effective sample size", *NOTES, WEIGHTED_BY["kNN"]))


def radius_table(run: Run, source: Source) -> ResultTable:
    """POELA by its radius: on training, validation and test logs, and in truth."""
    own = source.by_learner.get("POELA", [])
    by_radius = {
        radius: source.choice([item for item in own if item.candidate.settings["radius"] == radius], "best")
        for radius in tried("sepsis", "poela", "radius")
    }
    best = {radius: (item, least) for radius, (item, least) in by_radius.items() if item is not None}
    numbers = [number for radius, chosen in best.items() for number in _by_radius(source, radius, *chosen)]
    any_size = [f"{radius:.1f}" for radius, (_, least) in best.items() if least == ANY]
    about = ("best checkpoints", CHOSEN_BY, *unqualified(any_size), *NOTES, WEIGHTED_BY["kNN"])
    return run.beside(RADIUS, numbers, about)


def _by_radius(source: Source, radius: float, item: Tried, least: str) -> Iterator[Number]:
    name = f"{radius:.1f}"
    learned = evaluate(item.policy, source.logs[0], interval=None)
    tested = source.examined(item, name, "best")
    for where, estimate in (("training", learned), ("test", tested.promise)):
        yield Number(name, "", f"{where} SNTIS", estimate.value, estimate.standard_error, judged=least != ANY)
        yield Number(name, "", f"{where} ESS", estimate.ess)
    for quantity, metric in (("validation SNTIS", "sntis"), ("validation ESS", "ess")):
        if (value := item.metrics[metric]) is not None:
            yield Number(name, "", quantity, value)
    yield Number(name, "", "true value", *tested.worth)


def trade_off_table(run: Run, source: Source) -> ResultTable:
    """Value against effective sample size on the validation logs: the best checkpoint of every run."""
    runs: dict[tuple[str, str, int], list[Tried]] = {}
    for name, items in source.by_learner.items():
        for item in items if name != NO_PENALTY else ():
            runs.setdefault((name, str(item.candidate), item.restart), []).append(item)
    best = [(name, source.choice(items, "best", UNLIMITED)[0]) for (name, *_), items in runs.items()]
    rows: list[dict[str, Cell]] = [
        {"learner": name, "chosen": str(item), "ESS": item.metrics["ess"], "SNTIS": item.metrics["sntis"]}
        for name, item in best
        if item is not None
    ]
    mean = float(source.logs[1].returns().mean())
    notes = (f"validation logs; the mean logged return there is {mean:.2f}", *NOTES[:1])
    title = "Sepsis, behavior by kNN: effective sample size and value of every run"
    return run.table("trade-off", title, rows, notes)


def sizes_table(run: Run, source: Source) -> ResultTable:
    """The largest effective sample size of each learner after the first steps, where it is largest of all."""
    rows: list[dict[str, Cell]] = []
    for name, items in source.by_learner.items():
        largest: dict[int, float] = {}
        for item in items:
            step = item.checkpoint.step
            largest[step] = max(largest.get(step, 0.0), item.metric("ess"))
        first = sorted(largest)[:5]
        rows += [{"learner": name, "step": step, "largest ESS": largest[step]} for step in first]
    title = "Sepsis, behavior by kNN: largest effective sample size by step"
    return run.table("ess-by-step", title, rows, ("over all settings of a learner, on the validation logs",))


def weights_table(run: Run, source: Source) -> ResultTable:
    """The share of the weights of training episodes that end in death, under each chosen final policy."""
    train = source.logs[0]
    died = train.returns() == 0
    own = [chosen for chosen in source.choices("final") if chosen[0] != NO_PENALTY]
    shares = {
        name: float(normalised_weights(item.policy, train, item.metric("smoothing"))[died].sum())
        for name, item, _ in own
    }
    any_size = [name for name, _, least in own if least == ANY]
    notes = (
        "sum of the SNTIS weights of training episodes that end in death under the chosen final policy",
        "behavior by kNN, fitted on the training episodes",
        f"such episodes (of those cut off after 20 steps, a drawn share) are {died.mean():.0%} of the logs (the paper "
        "says over 60%, and that clinicians score 81.1, which cannot both hold)",
        *([f"chosen with any effective sample size: {', '.join(any_size)}"] if any_size else []),
    )
    numbers = [Number(name, "sepsis", "weight on low returns", share) for name, share in shares.items()]
    return run.beside(SEPSIS["weights"], numbers, notes)


def _beside(run: Run, paper: PublishedTable, examined: Sequence[Examined], notes: tuple[str, ...]) -> ResultTable:
    weak = weak_notes(examined, (*LEARNERS, NO_PENALTY))
    return run.beside(paper, [number for item in examined for number in item.numbers()], (*weak, *notes))
