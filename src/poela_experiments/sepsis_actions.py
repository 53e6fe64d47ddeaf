"""What sepsis policies do: actions by severity of illness, and which of the 25 are eligible for one patient."""

from collections.abc import Mapping

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.evaluation.weights import probabilities_along
from poela.simulators.sepsis import sofa_scores
from poela_experiments.frame.candidates import tried
from poela_experiments.frame.policies import Source
from poela_experiments.frame.published import NO_PENALTY
from poela_experiments.frame.results import Cell, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.sepsis_logs import CHOOSING, LOGGING

DOSES = 5  # of fluids, and of vasopressors
MID, HIGH = 5.0, 15.0  # SOFA scores
LEAST_STEPS = 6  # of the patient whose eligible actions are shown
DRAWN_STEPS = 10


def severities(logs: Trajectories) -> dict[str, BoolArray]:
    """Which steps belong to patients of high, mid and low SOFA, as the paper parts them."""
    sofa = sofa_scores(logs.contexts)
    return {
        "high SOFA": sofa > HIGH,
        "mid SOFA": np.asarray((sofa >= MID) & (sofa <= HIGH)),
        "low SOFA": sofa < MID,
    }


def action_table(run: Run, source: Source) -> ResultTable:
    """Shares of the 25 actions in test contexts: as logged, and as each chosen final policy takes them."""
    test = source.logs[2]
    taken = {LOGGING: np.eye(test.n_actions)[test.actions]}
    for name, item, _ in source.choices("final"):
        if name != NO_PENALTY:
            taken[name] = probabilities_along(item.policy, test)
    shares = {
        (severity, name): _grid(rows[steps].mean(axis=0))
        for severity, steps in severities(test).items()
        if steps.any()
        for name, rows in taken.items()
    }
    rows: list[dict[str, Cell]] = [
        {
            "contexts": severity,
            "policy": name,
            "fluid": fluid,
            **{f"vasopressor {dose}": float(own[fluid, dose]) for dose in range(DOSES)},
            "as logged": float(np.minimum(own, shares[severity, LOGGING]).sum()),
        }
        for (severity, name), own in shares.items()
        for fluid in range(DOSES)
    ]
    counts = ", ".join(f"{name} {int(steps.sum())}" for name, steps in severities(test).items())
    notes = (
        f"final policies, behavior by kNN; test contexts: {counts} (high: SOFA above {HIGH:g}, low: below {MID:g})",
        f"each with an effective sample size of {CHOOSING.least_ess} of the validation episodes or more; where no "
        "policy of a learner has that, with any",
        "as logged: the share of actions that both would take, over all 25",
    )
    return run.table("actions", "Sepsis: shares of actions by severity of illness", rows, notes)


def eligibility_table(run: Run, source: Source) -> ResultTable:
    """Which actions are eligible over the steps of one patient, by the radius rule and by the probability rule."""
    train, _, test = source.logs
    patient = test.take([int(np.flatnonzero(test.lengths >= min(LEAST_STEPS, test.lengths.max()))[0])])
    masks = eligible_by_rule(train, patient, source.model)
    rows: list[dict[str, Cell]] = [
        {
            "rule": rule,
            "step": step,
            "eligible": int(mask[step].sum()),
            "logged action": str(patient.action_names[patient.actions[step]]),
            "is eligible": bool(mask[step, patient.actions[step]]),
            **{f"fluid {fluid}": _shown(_grid(mask[step])[fluid]) for fluid in range(DOSES)},
        }
        for rule, mask in masks.items()
        for step in range(patient.n_steps)
    ]
    notes = (
        f"the first test patient with {LEAST_STEPS} steps or more; δ: logged within this distance in the training logs",
        "μ: the kNN model gives the action at least this probability; x: eligible, by vasopressor dose 0 to 4",
    )
    return run.table("eligible", "Sepsis: eligible actions of one patient", rows, notes)


def eligible_by_rule(train: Trajectories, patient: Trajectories, behavior: object) -> Mapping[str, BoolArray]:
    """[steps, actions] for each rule; none of a row's actions may be eligible, since no fallback acts."""
    distances = Eligibility(radius=0.0).fit(train).distances(patient.contexts)
    chances = probabilities_along(behavior, patient)
    return {
        **{f"δ = {radius:g}": distances <= radius for radius in tried("sepsis", "poela", "radius")},
        **{f"μ ≥ {least:g}": chances >= least for least in tried("sepsis", "pomu", "minimum_probability")},
    }


def _grid(row: FloatArray | BoolArray) -> FloatArray:
    return np.asarray(row, np.float64).reshape(DOSES, DOSES)  # an action is 5 · fluid + vasopressor


def _shown(row: FloatArray) -> str:
    return "".join("x" if cell else "." for cell in row)
