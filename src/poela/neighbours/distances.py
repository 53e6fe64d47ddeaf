"""Squared distances to the last bit, and the nearest by them."""

import numpy as np

from poela.core.arrays import FloatArray, IntArray


def squared_distances(left: FloatArray, right: FloatArray) -> FloatArray:
    """Summed in the order of the features, without fused operations: the same bits on every machine and runtime.

    >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([25.,  1.])
    """
    squares = left - right
    squares *= squares
    total = np.zeros(squares.shape[:-1])
    for feature in range(squares.shape[-1]):
        total += squares[..., feature]
    return total


def nearest_first(candidates: IntArray, squared: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
    """The k nearest candidates of each row, and their squared distances; of equally near ones the smaller numbers.

    >>> nearest_first(np.array([[7, 8, 9], [4, 3, 2]]), np.array([[2.0, 0.0, 1.0], [5.0, 5.0, 5.0]]), 2)
    (array([[8, 9],
           [2, 3]]), array([[0., 1.],
           [5., 5.]]))
    """
    order = np.argsort(squared, axis=1)  # quick, but blind to the numbers
    ordered = np.take_along_axis(squared, order[:, : k + 1], axis=1)
    tied = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    order[tied] = np.lexsort((candidates[tied], squared[tied]), axis=1)
    return np.take_along_axis(candidates, order[:, :k], axis=1), ordered[:, :k]
