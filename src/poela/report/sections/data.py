"""The data: how long episodes are, what was done, what came of it, and who decided."""

import numpy as np

from poela.behavior.calibration import Calibration
from poela.behavior.memory import memory_of
from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.report.blocks import (
    Block,
    Column,
    Entry,
    Fact,
    Facts,
    Picture,
    Pictures,
    Section,
    Table,
    Text,
    named,
    needs_logs,
)
from poela.report.numbers.enough import enough_cases, told
from poela.report.numbers.logged import HistogramBar, histogram, propensity_calibration
from poela.report.pictures.charts import Bar, Dot, Line, Plane, bars
from poela.report.pictures.drawing import clean, short
from poela.report.subject import Subject
from poela.report.wording import typeset
from poela.studies.findings_of_audit import context_in_words
from poela.studies.study import Study
from poela.studies.words import gaps_in_words, sentence

TITLE, ABOUT = "The data", "cases, actions, outcomes, propensities, and what the audit found"
MOST_ACTIONS = 60


def data_section(subject: Subject) -> Section:
    """What the study was made of."""
    study, train = subject.study, subject.train
    data, cap = study.record.data, study.settings.scoring.cap
    features = data.layout.context or ()
    actions: tuple[object, ...] = data.layout.action_space.names
    mean = subject.number(study.record.logging_policy.value)
    facts = [
        Fact("Cases (episodes)", f"{data.train_episodes:,}", _split_in_words(study)),
        Fact(subject.said.counted, f"{len(actions)}"),
        Fact("Features", f"{len(features)}"),
        Fact("Mean return", mean, "" if cap is None else cap.in_words),
    ]
    if train is not None:
        single = train.n_steps == train.n_episodes
        each = "one in each case" if single else f"{train.lengths.mean():.1f} in a case"
        facts.insert(1, Fact("Decisions", f"{train.n_steps:,}", each))
        if train.clusters is not None:
            facts.insert(1, Fact("Clusters", f"{train.n_units:,}", "cases of one are kept together"))
    blocks: list[Block] = [Facts(facts), Text(sentence(data.propensities)), *_audit(study)]
    if train is None:
        what = "A picture of the lengths of cases and of their outcomes"
        blocks += [_names(features, actions, None, subject.smallest), needs_logs(what)]
        return Section("data", TITLE, blocks, ABOUT)
    if subject.logs is not None and train.n_steps > train.n_episodes:  # single decisions have nothing to remember
        blocks.append(Text(f"Who made the logs: {memory_of(subject.logs.train, study.settings.seed)}."))
    blocks.append(Text(f"Missing values: {gaps_in_words(data.layout.schema)}"))
    blocks += [
        Pictures(_pictures(subject, train)),
        _names(features, actions, None if subject.logs is None else subject.logs.train, subject.smallest),
    ]
    return Section("data", TITLE, blocks, ABOUT)


def _pictures(subject: Subject, train: Trajectories) -> list[Picture]:
    returns, few = train.returns(subject.study.settings.scoring.discount), subject.smallest
    pictures = [_bars_picture("Returns", returns, "return of a case", train, few)]
    if train.n_steps > train.n_episodes:
        pictures.insert(0, _bars_picture("Length of cases", train.lengths.astype(float), "steps", train, few))
    fit = None if subject.logs is None else propensity_calibration(subject.logs.train, few)
    return pictures if fit is None else [*pictures, _calibration_picture(fit, estimated=train.estimated)]


def _audit(study: Study) -> list[Text]:
    """What the context is, and what was found against the logs before anything was learned."""
    found = study.record.audit
    words = [context_in_words(study.record.data.layout.context or ()) + "."]
    if found is not None:
        words += [f"Audit: {note}." for note in found.notes or ("nothing was found against these columns",)]
    return [Text(clean(one)) for one in words]


def _split_in_words(study: Study) -> str:
    data = study.record.data
    words = (
        f"in {data.folds} cross-validation folds"
        if data.folds > 1
        else f"to learn from; {data.validation_episodes:,} to judge by"
    )
    return words + (f"; {data.test_episodes:,} kept for a test" if data.test_episodes else "")


def _bars_picture(title: str, values: FloatArray, x: str, logs: Trajectories, smallest: int) -> Picture:
    found = histogram(values, logs.units, smallest)
    names = [_ends(bar) for bar in found]
    items = [
        Bar(name, bar.cases.number, f"{span}: {bar.cases.words} cases")
        for bar, (name, span) in zip(found, names, strict=True)
    ]
    svg = bars(items, f"{title}: how many cases have each", x, "cases")
    return Picture(title, svg, f"Median {typeset(float(np.median(values)))}.")


def _ends(bar: HistogramBar) -> tuple[str, str]:
    """A bar's name on the axis, and which values it stands for.

    >>> from poela.report.numbers.enough import Told
    >>> many = Told("20", 20)
    >>> [_ends(HistogramBar(low, high, many))[1] for low, high in ((2.0, 2.0), (None, 5.0), (1.0, 5.0), (5.0, None))]
    ['2', 'below 5', '1 to 5', '5 or more']
    """
    low, high = (None if end is None else short(end) for end in (bar.low, bar.high))
    if low is None:
        return ("all", "all") if high is None else (f"< {high}", f"below {high}")
    return (f"≥ {low}", f"{low} or more") if high is None else (low, low if low == high else f"{low} to {high}")


def _calibration_picture(fit: Calibration, *, estimated: bool) -> Picture:
    curve = fit.every_action
    points = list(zip(curve.predicted.tolist(), curve.observed.tolist(), strict=True))
    dots = [
        Dot(x, y, "sure", f"propensity {x:.1%}, taken {y:.1%} of {count:,} times")
        for (x, y), count in zip(points, curve.counts.tolist(), strict=True)
    ]
    plane = Plane(
        "Calibration of propensities: how often actions were taken, against their propensities",
        "probability, as estimated" if estimated else "probability, as logged",
        "how often it was taken",
        dots,
        [Line([(0.0, 0.0), (1.0, 1.0)], "edge", ""), Line(points, "newline")],
        square=True,
    )
    error = f"Calibration error of the likeliest action: {fit.expected_calibration_error:.3f}"
    words = f"On the dotted line, propensities are right. {error}."
    return Picture("Are propensities right?", plane.svg(), words)


def _names(features: tuple[str, ...], actions: tuple[object, ...], logs: Trajectories | None, smallest: int) -> Table:
    """The names of actions and features in full, which pictures cut short."""
    counts = [Entry("–", None)] * len(actions)
    if logs is not None:
        taken = [np.asarray(logs.actions == place) for place in range(len(actions))]
        few = [bool(one.any()) and not enough_cases(logs, one, smallest) for one in taken]
        counts = [Entry(one.words, one.number) for one in told([int(one.sum()) for one in taken], smallest, few)]
    rows = [
        (Entry("action", 0), Entry(named(action), str(action)), count)
        for action, count in zip(actions[:MOST_ACTIONS], counts[:MOST_ACTIONS], strict=True)
    ]
    rows += [(Entry("feature", 1), Entry(named(name), name), Entry("–", None)) for name in features]
    return Table("Actions and features", (Column("part"), Column("name"), Column("decisions", True)), rows, folded=True)
