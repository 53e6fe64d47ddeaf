"""The policy that a folder holds, be it a study's or a saved one, and what is known about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.paths import is_there, place
from poela.studies.outcome_unit import Outcome
from poela.studies.records import LikeliestRecord


@dataclass(frozen=True, eq=False)
class PolicySource:
    """A policy to act by."""

    policy: Any
    name: str
    outcomes: FloatArray | None = None  # what came of each logged case, where the study knows it
    findings: Mapping[str, str] = field(default_factory=dict)  # what its study has found, by name
    leave: bool = False  # whether choices among what is not barred are left to people
    likeliest: LikeliestRecord | None = None  # what its study has found about handing out likeliest actions
    unshown: str = ""  # of a policy that is worth a trial alone
    outcome: Outcome | None = None  # the name and unit of its study's returns


def open_policy(directory: Path, *, leave: bool = False) -> PolicySource:
    """The recommended policy of a study, or a saved policy; one sentence where there is none to act by.

    `leave`: choices are left to people where the policy only says what is barred; refused where it never does.
    """
    from poela.policies.saving import FILE_FORMAT
    from poela.policies.storage import load_policy
    from poela.studies.answer import findings
    from poela.studies.outcomes import read_outcomes
    from poela.studies.study import Study

    if not is_there(directory) or not directory.is_dir():
        raise InputError(f"{place(directory)} is no directory of a study or a policy: make one with poela learn")
    if not is_there(directory / "study.json"):
        if not is_there(directory / f"{FILE_FORMAT}.json"):
            raise InputError(
                f"{place(directory)} holds neither a study nor a policy: name the folder that poela learn --out, or "
                "save, has written"
            )
        return _checked(PolicySource(load_policy(directory), str(directory), leave=leave, unshown=_unshown(directory)))
    study = Study.open(directory)
    policy = study.acting_policy
    known = {} if study.result is None else findings(study.result, study.record)
    likeliest = None if study.result is None else study.result.likeliest
    outcomes, unit = read_outcomes(directory), study.record.outcome
    return _checked(PolicySource(policy, study.chosen_name, outcomes, known, leave, likeliest, outcome=unit))


def _checked(source: PolicySource) -> PolicySource:
    from poela.policies.deciding import refuse_without_choice

    if source.leave:
        refuse_without_choice(source.policy)
    return source


def _unshown(directory: Path) -> str:
    """What is to be said of a policy that its study calls worth a trial, and no more; else empty."""
    from poela.studies.answer import findings
    from poela.studies.study import Study

    study = directory.resolve().parent
    if directory.resolve().name != "promising" or not is_there(study / "study.json"):
        return ""
    opened = Study.open(study)
    if opened.result is None or opened.result.promising in (None, opened.result.chosen):
        return ""
    said = findings(opened.result, opened.record, promising=True)["answer"]
    return f"Nothing is shown for this policy among all that were tried. {said}"
