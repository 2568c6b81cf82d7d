"""Boxes: priors of YOLO-v3, overlaps, from outputs to detections.

Boxes are in pixels of the network's image, either left, top, right, bottom (``corners``) or x and y of the centre,
width, height (``centred``). Shapes: P priors, M and K boxes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .yolo import PRIORS_PER_CELL, STRIDES

__all__ = ["ANCHORS", "Detections", "Priors", "corners", "decode", "detect", "iou", "nms", "priors"]

ANCHORS = (
    ((116, 90), (156, 198), (373, 326)), ((30, 61), (62, 45), (59, 119)), ((10, 13), (16, 30), (33, 23)),
)  # fmt: skip
"""Width and height of the priors of each of STRIDES, in images of ANCHOR_SIZE; the paper found them by clustering."""
ANCHOR_SIZE = 416


@dataclass(frozen=True)
class Priors:
    """The priors of an image size: column and row of each one's cell, pixels of a cell, width and height in pixels."""

    cells_P2: Tensor
    strides_P1: Tensor
    sizes_P2: Tensor

    @property
    def boxes_P4(self) -> Tensor:
        """Priors in the middle of their cells, centred."""
        return torch.cat([(self.cells_P2 + 0.5) * self.strides_P1, self.sizes_P2], 1)


def priors(image_size: int, device: torch.device | str = "cpu") -> Priors:
    """All of an image, in the order of the network's outputs; widths and heights grow with the image."""
    cells, strides, sizes = [], [], []
    for stride, anchors in zip(STRIDES, ANCHORS, strict=True):
        side = torch.arange(image_size // stride, dtype=torch.float32)
        rows, columns = torch.meshgrid(side, side, indexing="ij")
        places = torch.stack([columns, rows], -1).flatten(0, 1)
        cells.append(places.repeat_interleave(PRIORS_PER_CELL, 0))
        strides.append(torch.full((len(cells[-1]), 1), float(stride)))
        sizes.append(torch.tensor(anchors, dtype=torch.float32).repeat(len(places), 1) * (image_size / ANCHOR_SIZE))
    return Priors(torch.cat(cells).to(device), torch.cat(strides).to(device), torch.cat(sizes).to(device))


def corners(centred: Tensor) -> Tensor:
    """Boxes [..., 4] with centres as boxes with corners."""
    centre, half = centred[..., :2], centred[..., 2:] / 2
    return torch.cat([centre - half, centre + half], -1)


def iou(boxes_M4: Tensor, others_K4: Tensor) -> Tensor:
    """Common area over area of both, [M, K], of boxes with corners; 0 where neither has one."""
    low = torch.maximum(boxes_M4[:, None, :2], others_K4[None, :, :2])
    high = torch.minimum(boxes_M4[:, None, 2:], others_K4[None, :, 2:])
    common = (high - low).clamp_min(0).prod(-1)
    area = (boxes_M4[:, 2:] - boxes_M4[:, :2]).prod(-1)
    other = (others_K4[:, 2:] - others_K4[:, :2]).prod(-1)
    both = area[:, None] + other[None] - common
    return torch.where(both > 0, common / both.clamp_min(torch.finfo(both.dtype).tiny), 0.0)


def decode(outputs: Tensor, grid: Priors) -> Tensor:
    """The boxes [..., P, 4] of outputs [..., P, 5 + classes], centred: each centre is inside of its cell."""
    centre = (outputs[..., :2].sigmoid() + grid.cells_P2) * grid.strides_P1
    return torch.cat([centre, grid.sizes_P2 * outputs[..., 2:4].exp()], -1)


def nms(boxes_M4: Tensor, scores_M: Tensor, threshold: float) -> Tensor:
    """Indexes of boxes (with corners) that stay, best first: none overlaps a better one by more than ``threshold``."""
    order = scores_M.argsort(descending=True, stable=True)
    overlaps = iou(boxes_M4[order], boxes_M4[order]) > threshold
    alive = torch.ones(len(order), dtype=torch.bool, device=order.device)
    for place in range(len(order)):
        if alive[place]:
            alive[place + 1 :] &= ~overlaps[place, place + 1 :]
    return order[alive]


@dataclass(frozen=True)
class Detections:
    """The detections of one image, best first: boxes with corners in pixels, scores from 0 to 1, classes."""

    boxes_M4: Tensor
    scores_M: Tensor
    classes_M: Tensor


@torch.no_grad()
def detect(
    outputs_NPO: Tensor, grid: Priors, confidence: float = 0.01, overlap: float = 0.5, most: int = 300
) -> list[Detections]:
    """Detections of each image: what scores at least ``confidence``, thinned out class by class.

    The score is objectness times the class's probability; a prior may be of several classes. ``most``: candidates
    that are looked at, and so detections, per image.
    """
    found = []
    for outputs, boxes in zip(outputs_NPO, corners(decode(outputs_NPO, grid)), strict=True):
        scores_PC = outputs[:, 4:5].sigmoid() * outputs[:, 5:].sigmoid()
        prior, label = (scores_PC >= confidence).nonzero(as_tuple=True)
        scores = scores_PC[prior, label]
        best = scores.argsort(descending=True, stable=True)[:most]
        prior, label, scores = prior[best], label[best], scores[best]
        kept = [members[nms(boxes[prior[members]], scores[members], overlap)]
                for members in ((label == one).nonzero()[:, 0] for one in label.unique())]  # fmt: skip
        chosen = torch.cat(kept).sort().values if kept else best[:0]  # by score, as candidates are
        found.append(Detections(boxes[prior[chosen]], scores[chosen], label[chosen]))
    return found
