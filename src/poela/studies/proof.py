"""Which policies importance sampling shows to be better than the logging policy, one by one."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poela.studies.selection import LoggingValue, Point


def shown_to_be_better(
    policies: "Sequence[Point]", logging: "LoggingValue", confidence: float, n_episodes: int
) -> "list[Point]":
    """Those whose SNTIS is above the logging policy's mean, with this confidence in all of them together.

    By Student's t with as many observations as there are effective episodes; Bonferroni's correction makes up for how
    many policies there are. The standard error is at least what that many logged returns would have, since the usual
    one is near zero where one episode has all the weight.

    >>> from poela.studies.selection import LoggingValue, Point
    >>> logging = LoggingValue(value=50.0, standard_error=1.0)
    >>> strong = Point("a", 0, True, {"sntis": 60.0, "sntis_error": 1.5, "ess": 60.0})
    >>> lucky = Point("b", 0, True, {"sntis": 90.0, "sntis_error": 0.1, "ess": 1.1})
    >>> [item.path_id for item in shown_to_be_better([strong, lucky], logging, 0.95, n_episodes=100)]
    ['a']
    """
    from scipy.special import stdtrit

    level = 1 - (1 - confidence) / max(len(policies), 1)
    spread = logging.standard_error * math.sqrt(n_episodes)
    shown = []
    for item in policies:
        value, error, ess = (item.metrics.get(name) for name in ("sntis", "sntis_error", "ess"))
        if value is None or error is None or ess is None or ess <= 1:
            continue
        least = math.hypot(max(error, spread / math.sqrt(ess)), logging.standard_error)
        if value - stdtrit(ess - 1, level) * least > logging.value:
            shown.append(item)
    return shown
