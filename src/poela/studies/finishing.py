"""How a study ends: every policy judged, one chosen, fitted on all episodes, looked at once, and written down."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from poela.behavior.staying import as_if_all_seen
from poela.core.errors import PoelaError
from poela.core.files import atomic_file
from poela.core.interruption import safe_point
from poela.core.storage import remove_stored
from poela.data.groups import Grouping
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.policies.deciding import LikeliestActions
from poela.policies.saving import FILE_FORMAT as POLICY_FORMAT
from poela.policies.saving import live_objects, save_policy
from poela.studies.allotment import walk_end
from poela.studies.answer import findings, none_trusted
from poela.studies.by_group import GroupRequest, groups_of
from poela.studies.final_gain import FinalEstimates
from poela.studies.fold_data import ALL, FoldData, write_behavior
from poela.studies.fold_errors import Fit, LeftTwoOut
from poela.studies.groups import Groups
from poela.studies.guarded import Guarded, guarded_in
from poela.studies.held_out import Episodes, finite
from poela.studies.judging import judged_alone, judged_points
from poela.studies.keeping_apart import logging_value, recorded_evaluation
from poela.studies.logging_policy import model_of_logging_policy
from poela.studies.measured_gamma import measured_factors
from poela.studies.names import names_of
from poela.studies.outcomes import write_outcomes
from poela.studies.own_bounds import Yardstick, promising, with_own_bounds
from poela.studies.place import TABLE
from poela.studies.plainness import best_of, is_sayable, needs_no_lots
from poela.studies.records import ChoiceRecord, EvaluationRecord, LikeliestRecord, LoggingValue, Unconfounded
from poela.studies.runs import carry_out, held_out_of
from poela.studies.selection import Choice, Point, choose
from poela.studies.settings import StudySettings
from poela.studies.splits import Splits
from poela.studies.store import LOTLESS
from poela.studies.study import LOGGING_POLICY, Study

# What it is worth to hand out the likeliest action of the chosen policy, which was judged as one that draws.

BREAKS = "may break a guardrail"
CONFIDENCE = 0.95  # where policies are chosen by estimates, without any


def judged_likeliest(
    study: Study,
    point: Point | None,
    folds: Mapping[str, FoldData],
    episodes: Episodes,
    guards: Sequence[Guarded] = (),
) -> LikeliestRecord | None:
    """The likeliest actions of each fold's policy on the episodes held out from it; None for real-valued actions.

    It is judged by itself, and only where the policy that draws was shown to be better: it is tried in no other study.
    Folds teach each other, and by how much is not learned again: the worst case, twice the variance, is allowed for.
    """
    if point is None:
        return None
    found, held_out = [], []
    for number in range(study.n_folds):
        policy, fold = study.fold_policy(point, number), folds[str(number)]
        if policy.real_valued:
            return None  # an amount that is not drawn has no density to weigh logged ones by
        metrics, weights = held_out_of([LikeliestActions(policy)], fold, ())  # by weights alone
        found += metrics
        held_out.append(weights)
    confidence = max(study.settings.selection.confidence, CONFIDENCE)
    one, verdict = judged_alone(found, held_out, episodes, study.settings, confidence, guards)
    gain = one.estimate.gain
    return LikeliestRecord(
        None if gain is None else finite(gain.value),
        one.shown if one.claim is not None or (one.shown or 0.0) <= 0 else None,
        confidence,
        verdict if one.claim is not None or (one.shown or 0.0) <= 0 else BREAKS,
        one.estimate.ess,
    )


Judging = tuple[Episodes, str]  # and why no weight can be right, if that is so


def finish(
    study: Study, splits: Splits, folds: Mapping[str, FoldData], judging: Judging, fit: Fit, request: GroupRequest
) -> None:
    """Judge every policy, choose, fit what is chosen on all episodes, look at the test logs, and write it all down.

    `fit` carries out runs; `request` names groups to be reported.
    """
    settings, record = study.settings, study.record
    episodes, problem = judging
    pairs = LeftTwoOut(study, splits, fit) if study.n_folds > 1 and settings.selection.by == "gain" else None
    guards, runs = guarded_of(settings, splits, episodes, request), list(study.runs.values())
    how = settings, study.n_folds, None if pairs is None else pairs.shared, guards
    points, estimates = judged_points(study.store, runs, episodes, *how)
    gains = FinalEstimates(study, episodes, settings)
    points, closest = _with_own_bounds(points, gains, episodes, study)
    choice = choose(points, settings.selection, episodes.logs.n_units, record.logging_policy, record.data.doubted)
    hopeful = promising(points)
    if choice.chosen is not None and (failure := _unfitted(study, choice.chosen, folds)):
        raise PoelaError(failure)
    if hopeful is not None and _unfitted(study, hopeful, folds):
        hopeful = None  # what cannot be fitted cannot be tried
    (plain, lotless), allots = _in_words(study, points, choice.chosen, hopeful, folds), _allots(study, points, folds)
    study = Study(study.store)
    wanted = {"policy": choice.chosen, "promising": hopeful, LOTLESS: lotless}
    _write_beside(study, splits, choice.chosen)
    tried = hopeful or closest
    open_to = tried if choice.chosen is None else None  # whose gain more episodes might show
    policies = {folder: None if point is None else study.policy_of(point) for folder, point in wanted.items()}
    evaluation = _test_evaluation(study, policies["policy"], study.details_of(choice.chosen), splits, problem)
    result = ChoiceRecord(
        study=study.record.fingerprint,
        policy=_name(study, points, choice.chosen),
        chosen=None if choice.chosen is None else points.index(choice.chosen),
        promising=None if hopeful is None else points.index(hopeful),
        score=choice.score,
        reason=_reason(choice, points, estimates),
        points=tuple(points),
        estimate=gains.estimate(choice.chosen),
        gain=gains.gain(choice.chosen, tried),
        needed=None if open_to is None or none_trusted(points) else gains.needed(open_to, points),
        look=None if evaluation is None else evaluation.number,
        logging_policy_on_test=_logging_value(splits.test, settings),
        left_out=tuple(task.run_id for task in study.left_out),
        runs=_rests_on(study, [*wanted.values(), plain, allots], pairs),
        plain=None if plain is None else points.index(plain),
        words=_said(study, points, plain, splits),
        trial="" if open_to is None else _name(study, points, open_to),
        lotless=None if lotless is None else points.index(lotless),
        lotless_words=_said(study, points, lotless, splits),
        closest=None if tried is None or hopeful is not None else points.index(tried),
        folds_error="" if pairs is None else pairs.method(None if choice.chosen is None else choice.chosen.path_id),
        likeliest=judged_likeliest(study, choice.chosen, folds, episodes, guards),
        groups=_groups(study, points, choice.chosen or hopeful, splits, request),
        unconfounded=_unconfounded(study, points, choice.chosen, splits),
        guards=tuple(one.record for one in guards),
    )
    _write_policies(study, policies, result)
    study.store.write(result)
    study.store.withdraw_so_far()
    _write_table(Study(study.store))


def guarded_of(
    settings: StudySettings, splits: Splits, episodes: Episodes, request: GroupRequest
) -> tuple[Guarded, ...]:
    """The guardrails of the study on the episodes that judge."""

    def groups(column: str) -> Grouping:
        return request.grouping(column, splits.held_out, episodes)

    return guarded_in(settings.selection.rails, splits.held_out, episodes.logs.rewards, groups)


def _write_beside(study: Study, splits: Splits, chosen: Point | None) -> None:
    """What came of logged decisions, beside a policy; without one, a model of the logging policy."""
    if chosen is None:
        # A model of the logging policy can be worse than the thing itself, so there is no policy to act by.
        model = splits.model or model_of_logging_policy(splits.train, study.settings.seed)
        write_behavior(study.directory / "behavior", model)
    else:
        taught = as_if_all_seen(splits.train, study.settings.seed)
        write_outcomes(study.directory, taught, study.settings.scoring.discount)


def _unconfounded(study: Study, points: list[Point], chosen: Point | None, splits: Splits) -> Unconfounded | None:
    """What would hold if everything that matters was recorded: of the chosen policy, or of the best by that bound."""
    known = [point for point in points if point.metrics.get("unconfounded") is not None]
    if not known:
        return None
    point = chosen if chosen in known else max(known, key=lambda one: one.metrics["unconfounded"] or 0.0)
    assert point is not None
    gain, low, at_gamma = (point.metrics[name] for name in ("gain", "unconfounded", "shown"))
    if gain is None or low is None or at_gamma is None:
        return None
    measured = measured_factors(splits.train, study.settings.seed) if splits.whole.estimated else {}
    gamma = study.settings.selection.sensitivity
    return Unconfounded(_name(study, points, point), gain, low, at_gamma, gamma, measured)


def _write_table(study: Study) -> None:
    import pyarrow.parquet as pq

    with atomic_file(study.directory / TABLE) as temporary:
        pq.write_table(study.table(), temporary)


def _groups(
    study: Study, points: Sequence[Point], point: Point | None, splits: Splits, request: GroupRequest
) -> Groups | None:
    """Who gets what, and who gains, by the policy that is recommended or worth a trial."""
    if splits.reference is not None:
        return None  # who gains is told over the logging policy of the log alone
    return None if point is None else groups_of(study, points, point, splits.held_out, request)


def _name(study: Study, points: Sequence[Point], chosen: Point | None) -> str:
    return LOGGING_POLICY if chosen is None else names_of(study, points)[chosen.path_id, chosen.number]


def _in_words(
    study: Study, points: list[Point], chosen: Point | None, hopeful: Point | None, folds: Mapping[str, FoldData]
) -> tuple[Point | None, Point | None]:
    """The best policy that can be said and the best without lots, if that is another, fitted on all episodes."""
    told = chosen or hopeful
    if told is None or study.settings.selection.by != "gain":
        return None, None
    best = [told if kind(told) else best_of(points, chosen, kind) for kind in (is_sayable, needs_no_lots)]
    plain, lotless = (None if one is None or _unfitted(study, one, folds) else one for one in best)
    return plain, None if lotless in (plain, told) else lotless


def _allots(study: Study, points: Sequence[Point], folds: Mapping[str, FoldData]) -> Point | None:
    """The end of the walk by value for money, fitted on all episodes: by its values batches are allotted."""
    end = walk_end(study, points)
    return None if end is None or _unfitted(study, end, folds) else end


def _said(study: Study, points: Sequence[Point], point: Point | None, splits: Splits) -> str:
    """What a policy says, and where something was never done in some cases that it does not change that."""
    if point is None:
        return ""
    rule = getattr(study.policy_of(point), "rule", "")
    if not rule:
        return f"{_name(study, points, point)}, which lists the barred actions of each case"
    return rule if splits.support.along is None else f"{rule.rstrip('.')}, where similar past cases received it"


def _write_policies(study: Study, policies: Mapping[str, Any], result: ChoiceRecord) -> None:
    """Each in its folder, with what is known of it; what an earlier result had left there goes."""
    for folder, policy in policies.items():
        if policy is None:
            remove_stored(study.directory / folder, POLICY_FORMAT)
        else:
            if live_objects(policy.stored()):  # it decides in this process alone
                remove_stored(study.directory / folder, POLICY_FORMAT)
                continue
            known = findings(result, study.record, promising=folder == "promising", lotless=folder == LOTLESS)
            save_policy(policy, study.directory / folder, overwrite=True, findings=known)


def _with_own_bounds(
    points: Sequence[Point], gains: FinalEstimates, episodes: Episodes, study: Study
) -> tuple[list[Point], Point | None]:
    """Points with what they show on their own, and the one that is closest to being worth a trial."""
    if study.settings.selection.by != "gain" or episodes.problem:
        return list(points), None
    returns, confidence = episodes.logs.rewards, study.settings.selection.confidence
    now = episodes.done_now(study.settings.scoring.truncation)
    yardstick = Yardstick(now, float(returns.std()), confidence, study.n_folds)
    return with_own_bounds(points, yardstick, gains.own_bound)


def _reason(choice: Choice, points: list[Point], estimates: list[Estimate]) -> str:
    """That of the choice and, where no policy can be trusted at all, what speaks against the first one."""
    if not none_trusted(points) or not estimates:
        return choice.reason
    against = estimates[0].reasons
    return f"{choice.reason}: {against[0]}" if against else choice.reason


def _rests_on(study: Study, points: Iterable[Point | None], pairs: LeftTwoOut | None) -> dict[str, str]:
    """The runs behind a result, with their fingerprints.

    Those that were judged, without two folds too, and its policies' on all episodes: not what an earlier result asked
    to be fitted on these.
    """
    fitted = {study.fitted_run(point) for point in points if point is not None}
    runs = [*study.runs, *(() if pairs is None else pairs.runs), *sorted(fitted - set(study.runs))]
    return {run_id: study.all_runs[run_id].fingerprint for run_id in runs}


def _unfitted(study: Study, point: Point, folds: Mapping[str, FoldData]) -> str | None:
    """Fit a candidate on every episode, unless an earlier session has; what kept it from being fitted, if anything."""
    task = replace(study.all_runs[f"{point.path_id}-0"].task, fold=None)
    if study.n_folds == 1 or task.run_id in study.store.finished_runs():
        return None
    safe_point()
    result = carry_out(task, folds[ALL])
    if result.policies is None or len(result.record.checkpoints) <= point.number:
        return f"{task.candidate} could not be fitted on all episodes: {result.record.message}"
    study.store.write_run(result.record, result.policies)
    return None


def _logging_value(test: Trajectories | None, settings: StudySettings) -> LoggingValue | None:
    return None if test is None else logging_value([test], settings.scoring)


def _test_evaluation(study: Study, policy: Any, name: str, splits: Splits, problem: str) -> EvaluationRecord | None:
    """The one evaluation on the test logs, where there are any; without a policy, of the logging policy."""
    key = study.record.data.hashes["test"]
    if splits.test is None or key is None:
        return None
    scoring = study.settings.scoring
    scoring = replace(scoring, estimator="behavior") if policy is None else scoring
    return recorded_evaluation(study.store, policy, name, splits.test, key, scoring, problem)
