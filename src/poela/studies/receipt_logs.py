"""Folders of receipts in which several policies wrote, as one log for each of these."""

from collections.abc import Sequence
from typing import Any

from poela.core.errors import InputError
from poela.core.paths import place
from poela.data.receipts import ReceiptsOf, is_receipts, policies_in
from poela.data.words import counted
from poela.studies.round_records import PRACTICE
from poela.studies.several_logs import policy_of


def by_policy(logs: Sequence[Any], logged_by: Sequence[Any] | None) -> tuple[list[Any], list[Any] | None]:
    """The logs and who made each; where there are more names than logs, the folder of receipts is split by these.

    >>> by_policy(["first.parquet", "second.parquet"], ["practice", "study1"])
    (['first.parquet', 'second.parquet'], ['practice', 'study1'])
    """
    folders = [number for number, one in enumerate(logs) if is_receipts(one)]
    if logged_by is None:
        mixed = [logs[number] for number in folders if len(logs) > 1 and len(policies_in(logs[number])) > 1]
        if mixed:
            raise InputError(
                f"{place(mixed[0])} has receipts of several policies: say whose they are (--logged-by practice,study1/)"
            )
        return list(logs), None
    more = len(logged_by) - len(logs)
    if not folders or (more and len(folders) > 1) or more < 0:
        return list(logs), list(logged_by)
    found: list[Any] = []
    names = iter(logged_by)
    for number, one in enumerate(logs):
        own = [next(names) for _ in range(1 + more * (number in folders))]
        found += _split(one, own) if number in folders else [one]
    return found, list(logged_by)


def _split(folder: Any, names: Sequence[Any]) -> list[Any]:
    """The receipts of each of these policies."""
    there = policies_in(folder)
    hashes = [None if name == PRACTICE else getattr(policy_of(name), "short_hash", None) for name in names]
    for name, own in zip(names, hashes, strict=True):
        if len(names) > 1 and own is None:
            raise InputError(f"{place(folder)} cannot be split by {name}, which has no hash: give its log by itself")
        if own is not None and own not in there:
            known = " and ".join(f"{counted(n, 'receipt')} of {one}" for one, n in there.items())
            raise InputError(
                f"{place(folder)} has no receipts of {name} (policy {own}): it has {known}; name the study that "
                "made them"
            )
    told = frozenset(one for one in hashes if one is not None)
    return [folder if own is None else ReceiptsOf(folder, own, told - {own}) for own in hashes]
