"""What it is worth to hand out the likeliest action of the chosen policy, which was judged as one that draws."""

from collections.abc import Mapping, Sequence

from poela.policies.deciding import LikeliestActions
from poela.studies.fold_data import FoldData
from poela.studies.guarded import Guarded
from poela.studies.held_out import Episodes, finite
from poela.studies.judging import judged_alone
from poela.studies.records import LikeliestRecord
from poela.studies.runs import held_out_of
from poela.studies.selection import Point
from poela.studies.study import Study

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
