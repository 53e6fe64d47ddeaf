"""What methods of a room hand on to rooms above it, named here alone.

Rooms import only what lies below them, inside functions too. Three public names look the other way, since users ask for
them there: a page and figures of a study, and what was done in the place of recommendations in a log that is read.
"""

from importlib import import_module
from typing import Any

FORWARD = {
    "page": "poela.report.page:report_on",
    "plots": "poela.report.plots:Plots",
    "propensities_of_done": "poela.behavior.adherence:propensities_of_done",
}


def forward(name: str) -> Any:
    """What is meant by one of these names, imported when it is asked for.

    >>> forward("plots").__name__
    'Plots'
    """
    module, attribute = FORWARD[name].split(":")
    return getattr(import_module(module), attribute)
