"""Measures of predicted gradients against true ones."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

__all__ = ["MEASURES", "Metrics", "csv_text", "measure", "scalars"]

KEYS = ("epoch", "phase", "layer", "batches")
"""Columns of a row that aren't measures."""
Scalar = tuple[str, float | None, int]

MEASURES = ("mape", "mse", "cosine", "sign_agreement", "norm_ratio", "zeros")
"""``mape``: the paper's equation 1, of those true gradients that aren't zero, a ratio (not a percentage).
``mse``: mean squared error, of gradients as they are. ``cosine``: between the layer's two gradients as vectors.
``sign_agreement``: share of equal signs, of those true gradients that aren't zero. ``norm_ratio``: predicted over true.
``zeros``: share of true gradients that are zero, which equation 1 isn't defined for."""


@torch.no_grad()
def measure(predicted: Tensor, true: Tensor) -> Tensor:
    """Vector of :data:`MEASURES`; a measure of nothing is nan."""
    p, t = predicted.float().flatten(), true.float().flatten()
    there = t != 0
    n = there.sum()
    error = p - t
    ratio = torch.where(there, error / torch.where(there, t, 1), 0)
    norms = p.norm(), t.norm()
    return torch.stack([
        ratio.abs().sum() / n, error.square().mean(), p.dot(t) / (norms[0] * norms[1]),
        ((p.sign() == t.sign()) & there).sum() / n, norms[0] / norms[1], 1 - n / t.numel(),
    ])  # fmt: skip


class Metrics:
    """Means of :data:`MEASURES` over the batches of an epoch with true gradients, by layer and phase.

    Layers whose predicted or true gradient is all zero have no cosine in that batch; such batches are left out.
    """

    def __init__(self):
        self.rows: list[dict[str, int | float | str]] = []
        """A row for each finished epoch, phase and layer: these, the number of batches, and the measures."""
        self._sums: dict[tuple[str, str], list[Tensor]] = {}

    def add(self, phase: str, layer: str, predicted: Tensor, true: Tensor) -> Tensor:
        """Add a layer's gradients in one batch; returns their measures. The device isn't waited for until the epoch's
        end."""
        values = measure(predicted, true)
        finite = values.isfinite()
        total, count = self._sums.get((phase, layer), (torch.zeros_like(values), torch.zeros_like(values)))
        total = total.to(values.device) + torch.where(finite, values, 0)
        self._sums[phase, layer] = [total, count.to(values.device) + finite]
        return values

    def end_epoch(self, epoch: int) -> None:
        """Make rows of the batches since the last epoch."""
        for (phase, layer), (total, count) in self._sums.items():
            means = (total / count).tolist()
            named = dict(zip(MEASURES, means, strict=True))
            self.rows.append({"epoch": epoch, "phase": phase, "layer": layer, "batches": int(count[-1]), **named})
        self._sums.clear()

    def state_dict(self) -> dict:
        """The whole state, with the epoch under way."""
        sums = {key: [value.clone() for value in values] for key, values in self._sums.items()}
        return {"rows": [dict(row) for row in self.rows], "sums": sums}

    def load_state_dict(self, state: dict) -> None:
        """Go on from a state that :meth:`state_dict` gave."""
        self.rows = [dict(row) for row in state["rows"]]
        self._sums = {tuple(key): [value.clone() for value in values] for key, values in state["sums"].items()}

    def write_csv(self, path: Path | str) -> None:
        """Write a line for each epoch, phase and layer."""
        Path(path).write_text(csv_text(self.rows))

    def write_json(self, path: Path | str) -> None:
        """Write the same as a list of objects; a measure of nothing is null."""
        rows = [{key: None if value != value else value for key, value in row.items()} for row in self.rows]
        Path(path).write_text(json.dumps(rows, indent=1) + "\n")

    def scalars(self) -> Iterator[Scalar]:
        """Tag, value and epoch of all measures, for TensorBoard's ``SummaryWriter.add_scalar``."""
        yield from scalars(self.rows)


def csv_text(rows: Iterable[Mapping], before: Sequence[str] = ()) -> str:
    """Rows of metrics as CSV, which may have columns ``before``; a measure of nothing is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*before, *KEYS, *MEASURES], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value != value else value for key, value in row.items()} for row in rows)
    return text.getvalue()


def scalars(rows: Iterable[Mapping]) -> Iterator[Scalar]:
    """Tag, value and epoch of all measures."""
    for row in rows:
        for name in MEASURES:
            yield f"{name}/{row['phase']}/{row['layer']}", row[name], row["epoch"]
