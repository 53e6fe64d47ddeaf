"""Independent pieces of work by as many threads as libraries are allowed, each of which then uses one."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from threading import Lock
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
    with _one_each(_LINEAR_ALGEBRA) as threads:
        _spread(work, starts, threads)


def for_each_by_torch(work: Callable[[int], None], starts: Sequence[int], device: str) -> None:
    """The same by the threads that torch is allowed; a GPU needs but one."""
    with _one_each(_TORCH) as threads:
        _spread(work, starts, threads if device == "cpu" else 1)


def _spread(work: Callable[[int], None], starts: Sequence[int], threads: int) -> None:
    if min(threads, len(starts)) <= 1:  # another thread would have to ask for memory anew
        for start in starts:
            safe_point()
            work(start)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, starts):
            safe_point()


class _LinearAlgebra:
    """The threads of NumPy's products."""

    def limited(self) -> tuple[int, Callable[[], None]]:
        """Let each use one; how many there were, and what sets them again."""
        libraries = _linear_algebra()
        threads = max((library["num_threads"] for library in libraries.info()), default=1)
        return threads, libraries.limit(limits=1).restore_original_limits


class _Torch:
    """Those of torch."""

    def limited(self) -> tuple[int, Callable[[], None]]:
        """The same."""
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        return threads, partial(torch.set_num_threads, threads)


_LINEAR_ALGEBRA, _TORCH = _LinearAlgebra(), _Torch()
_lock = Lock()
_inside: dict[object, list[Any]] = {}  # how many are inside, how many threads there were before, what sets them again


@contextmanager
def _one_each(library: _LinearAlgebra | _Torch) -> Iterator[int]:
    """One thread for each product, until the last who wanted it so is done: limits are those of the whole process."""
    with _lock:
        if library not in _inside:
            _inside[library] = [0, *library.limited()]
        _inside[library][0] += 1
        threads: int = _inside[library][1]
    try:
        yield threads
    finally:
        with _lock:
            _inside[library][0] -= 1
            if not _inside[library][0]:
                _inside.pop(library)[2]()


@cache
def _linear_algebra() -> Any:
    """The libraries that are loaded; to look for them takes a while."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="blas")
