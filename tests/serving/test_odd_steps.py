"""Steps that no episode has, in a graph: an answer as at the last step that was logged, or none."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tests.serving.episodes import graph_inputs, inputs_of, logs, random_episodes
from tests.serving.policies import POLICIES

from poela.serving.export import export_onnx

ODD = np.array([2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1])
BELOW = np.array([-1, -(2**31), -(2**63)])


@pytest.mark.parametrize("name", ["fittedq", "poela, same step", "history", "knn with history"])
def test_huge_steps_are_as_the_last_and_negative_ones_are_deferred(name: str, tmp_path: Path) -> None:
    train = logs()
    export_onnx(POLICIES[name](train), tmp_path / "policy.onnx")
    graph = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    every = graph_inputs(random_episodes(train, 5))
    wanted = inputs_of(graph, every)
    assert "steps" in wanted
    outputs = [one.name for one in graph.get_outputs()]
    huge = dict(zip(outputs, graph.run(None, {**wanted, "steps": ODD}), strict=True))
    last = dict(zip(outputs, graph.run(None, {**wanted, "steps": np.full(5, 2**31 - 1)}), strict=True))
    if name in ("fittedq", "poela, same step"):  # others look at the number itself
        for output in outputs:
            np.testing.assert_array_equal(huge[output], last[output])
    np.testing.assert_allclose(huge["probabilities"].sum(axis=1), 1, atol=1e-5)
    first_three = {key: value[:3] for key, value in wanted.items()}
    below = dict(zip(outputs, graph.run(None, {**first_three, "steps": BELOW}), strict=True))
    assert below["defer"].all()
    assert not below["in_range"].any()
    assert np.isfinite(below["probabilities"]).all()
