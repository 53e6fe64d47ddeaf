"""What may not be done, in a graph."""

import numpy as np

from poela.data.limits import LimitsInContexts
from poela.serving.graph import Graph, positive


def not_forbidden_in(graph: Graph, limits: LimitsInContexts, contexts: str, least: float) -> str:
    """The actions [N, A] whose feature is below this: `UNKNOWN`, or `FORBIDDEN`, of what those who log never do."""
    feature_of = {action: feature for feature, action in limits.places}
    always = graph.repeated([True], contexts, np.bool_)
    columns = [
        graph.op("Less", graph.columns(contexts, [feature_of[action]]), graph.constant(least, np.float32))
        if action in feature_of
        else always
        for action in range(limits.n_actions)
    ]
    return graph.op("Concat", *columns, axis=1)


def within_in(graph: Graph, probabilities: str, mask: str) -> str:
    """As `within`, of rows in which the mask leaves something."""
    shares = graph.op("Where", mask, probabilities, graph.constant(0.0))
    alike = graph.cast(mask, np.float64)
    shares = graph.op("Where", graph.any_of(positive(graph, shares)), shares, alike)
    return graph.op("Div", shares, graph.along("ReduceSum", shares))
