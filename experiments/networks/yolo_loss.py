"""The loss of YOLO-v3, as its paper has it (section 2): squared errors of boxes, cross-entropies of the rest.

Each object belongs to the one prior, of all nine, whose shape fits best, in the cell that the object's centre is in.
Priors that merely overlap an object by more than IGNORED, where they lie, have no loss; all others learn that nothing
is there. Of x and y the error is that of the place in the cell, whose logit has no bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from .yolo_boxes import Priors, corners, iou

__all__ = ["IGNORED", "Targets", "targets", "yolo_loss"]

IGNORED = 0.5
"""Overlap from which on a prior that isn't the best has no loss."""


@dataclass(frozen=True)
class Targets:
    """The targets of one image: priors that have objects, their outputs, and the priors that learn an objectness.

    ``boxes_M4``: place in the cell (0 to 1) and logarithm of the size over the prior's.
    """

    priors_M: Tensor
    boxes_M4: Tensor
    classes_MC: Tensor
    counted_P: Tensor


def targets(boxes_K4: Tensor, classes_K: Tensor, grid: Priors, n_classes: int) -> Targets:
    """The targets of an image's objects, boxes with corners in pixels; the last of objects with the same prior counts.

    Raises ValueError for a box without an area or with its centre outside of the image.
    """
    size = boxes_K4[:, 2:] - boxes_K4[:, :2]
    centre = (boxes_K4[:, :2] + boxes_K4[:, 2:]) / 2
    side = (grid.cells_P2.max(0).values[0] + 1) * grid.strides_P1[-1, 0]  # the last scale is the finest
    if (size <= 0).any() or (centre < 0).any() or (centre >= side).any():
        raise ValueError(f"boxes must have an area, and their centres be in an image of {side:g} pixels")
    shapes_KP = iou(F.pad(size, (2, 0)), F.pad(grid.sizes_P2, (2, 0)))  # all with a corner at 0, 0
    cells_KP2 = (centre[:, None] / grid.strides_P1).floor()
    here_KP = (cells_KP2 == grid.cells_P2).all(-1)
    best = torch.where(here_KP, shapes_KP, -1.0).argmax(1)
    overlap_P = (iou(boxes_K4, corners(grid.boxes_P4)) > IGNORED).any(0)
    chosen = {int(prior): number for number, prior in enumerate(best)}
    rows = torch.tensor(list(chosen.values()), dtype=torch.long, device=best.device)
    prior = best[rows]
    counted = ~overlap_P
    counted[prior] = True
    place = centre[rows] / grid.strides_P1[prior] - grid.cells_P2[prior]
    classes = F.one_hot(classes_K[rows].long(), n_classes).to(size.dtype)
    return Targets(prior, torch.cat([place, (size[rows] / grid.sizes_P2[prior]).log()], 1), classes, counted)


def yolo_loss(outputs_NPO: Tensor, wanted: Sequence[Targets]) -> Tensor:
    """Mean over images of the sum of all losses; ``wanted``: an image's targets each."""
    total = outputs_NPO.new_zeros(())
    for outputs, target in zip(outputs_NPO, wanted, strict=True):
        mine = outputs[target.priors_M]
        total = total + F.mse_loss(mine[:, :2].sigmoid(), target.boxes_M4[:, :2], reduction="sum")
        total = total + F.mse_loss(mine[:, 2:4], target.boxes_M4[:, 2:], reduction="sum")
        total = total + F.binary_cross_entropy_with_logits(mine[:, 5:], target.classes_MC, reduction="sum")
        there = torch.zeros_like(outputs[:, 4])
        there[target.priors_M] = 1
        learned = target.counted_P
        total = total + F.binary_cross_entropy_with_logits(outputs[learned, 4], there[learned], reduction="sum")
    return total / len(wanted)
