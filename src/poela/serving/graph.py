"""An ONNX graph under construction: operations in, names of tensors out."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poela.core.errors import InputError

OPSET, TREES_OPSET, IR_VERSION = 18, 3, 8
LOST = 1e-12  # share of a score that float64 may lose on the way
TREES = "ai.onnx.ml"
INPUTS = {
    "contexts": ("float32", ("batch", "features")),
    "steps": ("int64", ("batch",)),
    "previous_contexts": ("float32", ("batch", "lags", "features")),
    "previous_actions": ("int64", ("batch", "lags")),
    "first_contexts": ("float32", ("batch", "features")),
    "distances": ("float64", ("batch", "actions")),
    "counts": ("float64", ("batch", "actions")),
}


@dataclass(eq=False)
class Doubts:
    """Where a graph that decides may differ from its policy by rounding; names of tensors."""

    errors: list[str] = field(default_factory=list)  # [N, 1], how far numbers may be off
    gaps: list[str] = field(default_factory=list)  # [N, k], how far what is compared is apart: 0 or more
    sure: list[str] = field(default_factory=list)  # bool [N, 1], else the policy is asked
    gain: float = 1.0  # by which errors may grow, where logarithms are multiplied
    barred: str | None = None  # bool [N, A], by a policy that says *never*


class Graph:
    """Nodes, constants and inputs of one graph; each part of a policy adds its own.

    >>> graph = Graph(n_features=2)
    >>> name = graph.op("Relu", graph.input("contexts"))
    >>> graph.model({"probabilities": ("float32", 2, name)}, {}).graph.node[0].op_type
    'Relu'
    """

    def __init__(self, n_features: int, n_actions: int = 0, *, deciding: bool = False) -> None:
        self._sizes = {"features": n_features, "actions": n_actions, "lags": 0}
        self.deciding = deciding  # whether it decides beside its policy, which measures and is asked in case of doubt
        self.doubts = Doubts()
        self._nodes: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], tuple[str, NDArray[Any]]] = {}
        self._inputs: set[str] = set()
        self._made: dict[Hashable, tuple[Any, Any]] = {}
        self.givers: dict[str, Any] = {}  # the rules by which inputs are worked out
        self.numbers: list[str] = []  # what was given, as far as it is looked at

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """One operation with one output, whose name is returned."""
        return self.ops(kind, *inputs, outputs=1, domain=domain, **attributes)[0]

    def ops(self, kind: str, *inputs: str, outputs: int, domain: str = "", **attributes: Any) -> tuple[str, ...]:
        """One operation, and the names of its outputs."""
        from onnx import helper

        names = [f"{kind}_{len(self._nodes)}" + (f"_{place}" if outputs > 1 else "") for place in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return tuple(names)

    def constant(self, value: ArrayLike, dtype: Any = np.float64) -> str:
        """A constant tensor; equal ones are kept once."""
        array = np.ascontiguousarray(value, dtype).reshape(np.shape(value))
        key = (array.dtype.str, array.shape, array.tobytes())
        name, _ = self._constants.setdefault(key, (f"constant_{len(self._constants)}", array))
        return name

    def input(self, name: str) -> str:
        """One of the inputs that there may be, which the graph has from now on."""
        self._inputs.add(name)
        return name

    def given(self, name: str, contexts: str, by: Any) -> str:
        """An input that whoever asks works out by this rule: distances, or counts, at the contexts themselves."""
        if contexts != "contexts" or self.givers.setdefault(name, by) is not by:
            raise refuse_export("this policy", "it measures in several ways")
        return self.input(name)

    def must_be_finite(self, numbers: str) -> str:
        """Numbers [N, d] that were given: cases with others among them are deferred."""
        self.numbers.append(numbers)
        return numbers

    def look_back(self, lags: int) -> None:
        """Ask for this many earlier steps, or more."""
        self._sizes["lags"] = max(self._sizes["lags"], lags)

    def once(self, part: Any, contexts: str, make: Callable[[], Any]) -> Any:
        """What `make` adds for this part at these contexts, added once however many ask for it."""
        key = (id(part), contexts)
        if key not in self._made:
            self._made[key] = (part, make())  # the part too: an id is free again when its object is gone
        return self._made[key][1]

    def cast(self, name: str, dtype: Any) -> str:
        """The tensor as another type."""
        from onnx import helper

        return self.op("Cast", name, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def along(self, kind: str, name: str, axis: int = 1) -> str:
        """A reduction of one axis, which stays with size 1."""
        return self.op(kind, name, self.constant([axis], np.int64), keepdims=1)

    def widened(self, name: str, axis: int) -> str:
        """With one more axis of size 1."""
        return self.op("Unsqueeze", name, self.constant([axis], np.int64))

    def columns(self, name: str, places: Sequence[int]) -> str:
        """Some columns of a matrix."""
        return self.op("Gather", name, self.constant(places, np.int64), axis=1)

    def repeated(self, row: Sequence[float] | NDArray[Any], contexts: str, dtype: Any = np.float64) -> str:
        """The same row for every context."""
        rows = self.op("Gather", self.op("Shape", contexts), self.constant([0], np.int64))
        shape = self.op("Concat", rows, self.constant([np.size(row)], np.int64), axis=0)
        return self.op("Expand", self.constant(np.reshape(row, (1, -1)), dtype), shape)

    def one_hot(self, places: str, width: int) -> str:
        """Whole numbers [N] as bool rows [N, width]."""
        return self.op("Equal", self.widened(places, 1), self.constant([np.arange(width)], np.int64))

    def any_of(self, mask: str) -> str:
        """Whether any is true in each row, [N, 1]."""
        return self.cast(self.along("ReduceMax", self.cast(mask, np.int32)), np.bool_)

    def all_of(self, mask: str) -> str:
        """Whether all are true in each row, [N, 1]."""
        return self.op("Not", self.any_of(self.op("Not", mask)))

    def flat(self, column: str) -> str:
        """A column [N, 1] as [N]."""
        return self.op("Squeeze", column, self.constant([1], np.int64))

    def either(self, condition: str, one: str, other: str) -> str:
        """One bool tensor where the condition holds, else the other; runtimes have no such choice for them."""
        return self.op("Or", self.op("And", condition, one), self.op("And", self.op("Not", condition), other))

    def model(
        self, outputs: Mapping[str, tuple[str, int | tuple[int, ...] | None, str]], metadata: dict[str, str]
    ) -> Any:
        """The finished model; `outputs`: type, width or shape beside the batch (None: one for each), tensor by name."""
        from onnx import helper, numpy_helper

        last = [helper.make_node("Identity", [tensor], [name]) for name, (_, _, tensor) in outputs.items()]
        used = {name for node in self._nodes for name in node.input}
        graph = helper.make_graph(
            [*self._nodes, *last],
            "policy",
            [_value(name, kind, [self._sizes.get(size, size) for size in shape]) for name, kind, shape in self._used()],
            [
                _value(name, kind, ["batch", *(() if width is None else np.atleast_1d(width).tolist())])
                for name, (kind, width, _) in outputs.items()
            ],
            [numpy_helper.from_array(array, name) for name, array in self._constants.values() if name in used],
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(TREES, TREES_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="poela")
        helper.set_model_props(model, metadata)
        return model

    @property
    def lags(self) -> int:
        """How many earlier steps are looked at."""
        return self._sizes["lags"]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs that were asked for; contexts are always among them."""
        return tuple(name for name in INPUTS if name in {*self._inputs, "contexts"})

    def _used(self) -> list[tuple[str, str, tuple[str, ...]]]:
        return [(name, *INPUTS[name]) for name in self.inputs]


def _value(name: str, kind: str, shape: Sequence[str | int]) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)


def refuse_export(what: str, why: str) -> InputError:
    """Why a policy cannot become a graph, in one sentence.

    >>> print(refuse_export("a recurrent network", "it remembers"))
    a recurrent network cannot be exported to ONNX: it remembers
    """
    return InputError(f"{what} cannot be exported to ONNX: {why}")


def softmax(graph: Graph, scores: str, mask: str | None = None) -> str:
    """The softmax of rows over what the mask allows; the rest gets exactly 0."""
    masked = scores if mask is None else graph.op("Where", mask, scores, graph.constant(-np.inf))
    largest = graph.along("ReduceMax", masked)
    if graph.deciding:  # numbers of float64 lose less than this
        graph.doubts.errors.append(graph.op("Mul", graph.op("Abs", largest), graph.constant(LOST)))
    powers = graph.op("Exp", graph.op("Sub", masked, largest))
    return graph.op("Div", powers, graph.along("ReduceSum", powers))


def greedy(graph: Graph, scores: str, mask: str, width: int) -> str:
    """All probability on the best that the mask allows, the first of equals."""
    masked = graph.op("Where", mask, scores, graph.constant(-np.inf))
    far_ahead(graph, masked, width)
    return graph.cast(graph.one_hot(graph.op("ArgMax", masked, axis=1, keepdims=0), width), np.float64)


def compared(graph: Graph, one: str, other: str) -> None:
    """Note that two numbers are compared: where they are about equal, the policy is asked."""
    if graph.deciding:
        size = graph.op("Max", graph.op("Abs", other), graph.constant(1.0))
        graph.doubts.gaps.append(graph.op("Div", graph.op("Abs", graph.op("Sub", one, other)), size))


def far_ahead(graph: Graph, scores: str, width: int) -> None:
    """Note that the best of the scores [N, width] is taken; nothing comes near it where the others are −inf."""
    if graph.deciding and width > 1:
        two, _ = graph.ops("TopK", scores, graph.constant([2], np.int64), outputs=2, axis=1, largest=1, sorted=1)
        best, second = graph.columns(two, [0]), graph.columns(two, [1])
        best = graph.op("Where", graph.op("IsInf", best), graph.constant(0.0), best)
        far = graph.op("Sub", best, graph.op("Add", graph.op("Abs", best), graph.constant(1.0)))
        compared(graph, graph.op("Where", graph.op("IsInf", second), far, second), best)


def supported(graph: Graph, taken: str, eligible: str) -> str:
    """The eligible actions that are taken too; all eligible ones where none is."""
    both = graph.op("And", taken, eligible)
    return graph.either(graph.any_of(both), both, eligible)


def positive(graph: Graph, probabilities: str) -> str:
    """Which probabilities are above 0."""
    return graph.op("Greater", probabilities, graph.constant(0.0))


def logs_or_zero(graph: Graph, probabilities: str) -> str:
    """Logarithms, with 0 in the place of log 0."""
    return graph.op("Where", positive(graph, probabilities), graph.op("Log", probabilities), graph.constant(0.0))
