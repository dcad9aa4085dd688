"""A sum tree in NumPy: draws indices in proportion to their weights, in log time, many at once (Schaul et al., 2016).

A node holds the sum of its two children; the leaves are the weights. Sums are always computed from the children, never by
adding differences, so that rounding errors do not accumulate.
"""

import numpy as np


class SumTree:
    """Weights [capacity], all 0 at first."""

    def __init__(self, capacity: int):
        self._leaves = 1 << max(capacity - 1, 0).bit_length()
        self._sums = np.zeros(2 * self._leaves)
        """Node n has the children 2n and 2n + 1; node 1 is the root."""
        self._capacity = capacity

    @property
    def total(self) -> float:
        return float(self._sums[1])

    def __getitem__(self, indices: np.ndarray) -> np.ndarray:
        return self._sums[self._leaves + np.asarray(indices)]

    def set(self, indices: np.ndarray, weights: np.ndarray) -> None:
        """Sets the weights of indices; of an index that occurs twice, the last weight counts."""
        nodes = self._leaves + np.asarray(indices, np.int64)
        self._sums[nodes] = weights
        while len(nodes) and nodes[0] > 1:
            nodes = nodes >> 1 if len(nodes) == 1 else np.unique(nodes >> 1)  # one node needs no sorting, which is slow
            self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]

    def find(self, sums: np.ndarray) -> np.ndarray:
        """For every number in [0, total): the index at which the running sum of weights passes it."""
        nodes = np.ones(len(sums), np.int64)
        rest = np.array(sums, np.float64)
        while nodes[0] < self._leaves:
            left = self._sums[2 * nodes]
            # Rounding may lead to a child of weight 0; the other one then has some.
            right = ((rest >= left) & (self._sums[2 * nodes + 1] > 0)) | (left <= 0)
            rest = np.where(right, rest - left, rest)
            nodes = 2 * nodes + right
        return nodes - self._leaves

    def weights(self) -> np.ndarray:
        return self._sums[self._leaves : self._leaves + self._capacity].copy()
