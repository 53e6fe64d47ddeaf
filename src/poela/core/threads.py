"""Independent pieces of work by as many threads as libraries are allowed, each of which then uses one."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from poela.core.interruption import safe_point


def for_each(work: Callable[[int], None], starts: Sequence[int]) -> None:
    """All the work, by as many threads as the linear algebra library is allowed.

    Each thread does its own products: on a busy machine a product that is split among threads waits for the slowest of
    them, every time.
    """
    if len(starts) <= 2:
        _spread(work, starts, 1)
        return
    libraries = _linear_algebra()
    threads = max((library["num_threads"] for library in libraries.info()), default=1)
    with libraries.limit(limits=1):
        _spread(work, starts, threads)


def for_each_by_torch(work: Callable[[int], None], starts: Sequence[int], device: str) -> None:
    """The same by the threads that torch is allowed; a GPU needs but one."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _spread(work, starts, threads if device == "cpu" else 1)
    finally:
        torch.set_num_threads(threads)


def _spread(work: Callable[[int], None], starts: Sequence[int], threads: int) -> None:
    if min(threads, len(starts)) <= 1:  # another thread would have to ask for memory anew
        for start in starts:
            safe_point()
            work(start)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, starts):
            safe_point()


@cache
def _linear_algebra() -> Any:
    """The libraries that are loaded; to look for them takes a while."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="blas")
