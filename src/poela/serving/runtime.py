"""ONNX Runtime, where it is installed: sessions of one thread, and products of codes of eight bits."""

from importlib.util import find_spec
from typing import Any

import numpy as np

from poela.neighbours.quantised import ZERO, Bytes, Products, Whole

PACKAGES = ("onnx", "onnxruntime")
ERRORS_ALONE = 3


def missing_packages() -> list[str]:
    """What is not installed of what running a graph needs."""
    return [name for name in PACKAGES if find_spec(name) is None]


def session_of(model: Any) -> Any:
    """What runs a model, in the thread that asks."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ALONE
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def products_by_runtime(codes: Bytes, halves: Whole) -> Products:
    """As `products_by_numpy`, ten times as fast as products in float32.

    Both sides are unsigned: with signs on one of them some processors saturate on the way.

    >>> codes = np.array([[129, 128], [128, 130]], np.uint8)
    >>> products_by_runtime(codes, np.array([0, 2], np.int32))(np.array([[131, 129]], np.uint8))
    array([[-3,  0]], dtype=int32)
    """
    from onnx import TensorProto, helper, numpy_helper

    constants = {
        "points": np.ascontiguousarray(codes.T),
        "zero": np.array(ZERO, np.uint8),
        "halves": halves,
    }
    nodes = [
        helper.make_node("MatMulInteger", ["asked", "points", "zero", "zero"], ["product"]),
        helper.make_node("Sub", ["halves", "product"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("asked", TensorProto.UINT8, ["batch", codes.shape[1]])],
        [helper.make_tensor_value_info("scores", TensorProto.INT32, ["batch", len(codes)])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    session = session_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    return lambda asked: np.asarray(session.run(None, {"asked": asked})[0])
