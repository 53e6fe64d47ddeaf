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
from poela.report.numbers.logged import histogram, propensity_calibration
from poela.report.pictures.charts import Bar, Dot, Line, Plane, bars
from poela.report.pictures.drawing import clean, short
from poela.report.study_logs import StudyLogs
from poela.report.wording import readable
from poela.studies.findings_of_audit import context_in_words
from poela.studies.study import Study
from poela.studies.words import gaps_in_words, sentence

TITLE = "The data"
MOST_ACTIONS = 60


def data_section(study: Study, logs: StudyLogs | None) -> Section:
    """What the study was made of."""
    data = study.record.data
    achieved, cap = study.record.logging_policy, study.settings.scoring.cap
    real, features = data.layout.is_real, data.layout.context or ()
    actions: tuple[object, ...] = tuple(data.layout.action_columns) if real else tuple(data.layout.actions or ())
    facts = [
        Fact("Episodes", f"{data.train_episodes:,}", _split_in_words(study)),
        Fact("Columns of actions" if real else "Actions", f"{len(actions)}"),
        Fact("Features", f"{len(features)}"),
        Fact("Mean return", readable(achieved.value, achieved.standard_error), "" if cap is None else cap.in_words),
    ]
    if logs is not None:
        train = logs.train
        facts.insert(1, Fact("Decisions", f"{train.n_steps:,}", f"{train.lengths.mean():.1f} in an episode"))
        if train.clusters is not None:
            facts.insert(1, Fact("Clusters", f"{train.n_units:,}", "episodes of one are kept together"))
    blocks: list[Block] = [Facts(facts), Text(sentence(data.propensities)), *_audit(study)]
    if logs is None:
        what = "A picture of how episodes, actions and returns are distributed"
        if real:
            what = "A picture of what changes in which cases, of eligible actions, and of how returns are distributed"
        blocks += [_names(features, actions, None), needs_logs(what, real=real)]
        return Section("data", TITLE, blocks)
    blocks.append(Text(f"Who made the logs: {memory_of(logs.train, study.settings.seed)}."))
    blocks.append(Text(f"Missing values: {gaps_in_words(data.layout.schema)}"))
    discount = study.settings.scoring.discount
    pictures = [
        _bars_picture("Length of episodes", logs.train.lengths.astype(float), "steps"),
        _bars_picture("Returns", logs.train.returns(discount), "return of an episode"),
    ]
    fit = propensity_calibration(logs.train)
    if fit is not None:
        pictures.append(_calibration_picture(fit, estimated=logs.train.estimated))
    blocks += [Pictures(pictures), _names(features, actions, logs.train)]
    return Section("data", TITLE, blocks)


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
        f"teach, in {data.folds} folds that judge in turn"
        if data.folds > 1
        else f"teach; {data.validation_episodes:,} judge"
    )
    return words + (f"; {data.test_episodes:,} are kept for a last look" if data.test_episodes else "")


def _bars_picture(title: str, values: FloatArray, x: str) -> Picture:
    bins = histogram(values)
    items = []
    for place, count in enumerate(bins.counts.tolist()):
        low = float(bins.edges[place])
        name = short(low) if bins.single else readable(low)
        span = name if bins.single else f"{name} to {readable(float(bins.edges[place + 1]))}"
        items.append(Bar(name, count, f"{span}: {count:,} episodes"))
    svg = bars(items, f"{title}: how many episodes have each", x if bins.single else f"{x}, from", "episodes")
    return Picture(
        title,
        svg,
        f"Median {short(round(float(np.median(values)), 6)) if bins.single else readable(float(np.median(values)))}.",
    )


def _calibration_picture(fit: Calibration, *, estimated: bool) -> Picture:
    curve = fit.every_action
    points = list(zip(curve.predicted.tolist(), curve.observed.tolist(), strict=True))
    dots = [
        Dot(x, y, "sure", f"said {x:.1%}, done {y:.1%} of {count:,} times")
        for (x, y), count in zip(points, curve.counts.tolist(), strict=True)
    ]
    plane = Plane(
        "Calibration of propensities: how often actions were taken, against how probable they were said to be",
        "probability, as estimated" if estimated else "probability, as logged",
        "how often it was taken",
        dots,
        [Line([(0.0, 0.0), (1.0, 1.0)], "edge", ""), Line(points, "newline")],
        square=True,
    )
    error = f"Mean error of the likeliest action {fit.expected_calibration_error:.3f}"
    words = f"On the line, propensities are what they say. {error}."
    return Picture("Are propensities right?", plane.svg(), words)


def _names(features: tuple[str, ...], actions: tuple[object, ...], logs: Trajectories | None) -> Table:
    """The names of actions and features in full, which pictures cut short."""
    counts = (
        None
        if logs is None
        else [int((logs.actions == place).sum()) for place in range(min(len(actions), MOST_ACTIONS))]
    )
    rows = [
        (
            Entry("action", 0),
            Entry(named(action), str(action)),
            Entry("–" if counts is None else f"{counts[place]:,}", None if counts is None else counts[place]),
        )
        for place, action in enumerate(actions[:MOST_ACTIONS])
    ]
    rows += [(Entry("feature", 1), Entry(named(name), name), Entry("–", None)) for name in features]
    return Table("Actions and features", (Column("part"), Column("name"), Column("decisions", True)), rows, folded=True)
