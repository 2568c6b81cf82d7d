"""Matrices within tensors, and products of them."""

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Matrices", "Multiplication", "Places"]


@dataclass(frozen=True)
class Places:
    """Matrices of one shape in a tensor, each as rows that are equally far apart.

    ``firsts``: the element of the tensor that each begins with. ``pitch``: elements from a row in memory to the next.
    ``across``: those are the matrices' columns.
    """

    firsts: tuple[int, ...]
    pitch: int
    across: bool = False

    @classmethod
    def of(cls, positions: np.ndarray) -> "Places | None":
        """The places of matrices whose elements have these positions, ``[matrix, row, column]``.

        None if they don't lie so, have an element in common, or have none.
        """
        if not positions.size or len(np.unique(positions)) < positions.size:
            return None
        for across in (False, True):
            rows = positions.swapaxes(1, 2) if across else positions
            inside, between = np.diff(rows, axis=2), np.diff(rows, axis=1)
            pitch = int(between.flat[0]) if between.size else rows.shape[2]
            if (inside == 1).all() and (between == pitch).all() and pitch >= rows.shape[2]:
                return cls(tuple(rows[:, 0, 0].tolist()), pitch, across)
        return None

    def turned(self) -> "Places":
        """Those of the transposed matrices."""
        return replace(self, across=not self.across)

    def elements(self, rows: int, columns: int) -> np.ndarray:
        """Positions of the elements of matrices with so many rows and columns."""
        steps = (1, self.pitch) if self.across else (self.pitch, 1)
        within = np.add.outer(np.arange(rows) * steps[0], np.arange(columns) * steps[1])
        return np.add.outer(np.array(self.firsts), within)


@dataclass(frozen=True)
class Matrices:
    """Matrices in the tensor of that name."""

    tensor: str
    places: Places

    def turned(self) -> "Matrices":
        """The transposed matrices."""
        return replace(self, places=self.places.turned())


@dataclass(frozen=True)
class Multiplication:
    """Products of matrices, pair by pair: ``a`` of ``rows`` by ``inner``, ``b`` of ``inner`` by ``columns``."""

    name: str
    a: Matrices
    b: Matrices
    out: Matrices
    rows: int
    inner: int
    columns: int

    def along(self) -> "Multiplication":
        """The same, with a result whose rows are rows in memory."""
        if not self.out.places.across:
            return self
        a, b, out = self.b.turned(), self.a.turned(), self.out.turned()
        return Multiplication(self.name, a, b, out, self.columns, self.inner, self.rows)
