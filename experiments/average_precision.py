"""Mean average precision of detections, as Pascal VOC counts since 2010: the whole area under the curve."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..algorithm.paper_numbers import YOLO_IOU
from .networks.yolo_boxes import Detections, iou

__all__ = ["Objects", "average_precisions", "mean_average_precision"]


@dataclass(frozen=True)
class Objects:
    """The objects of an image: boxes with corners in pixels, classes, and whether each is too difficult to count."""

    boxes_K4: Tensor
    classes_K: Tensor
    difficult_K: Tensor


def average_precisions(
    detections: Sequence[Detections], objects: Sequence[Objects], threshold: float = YOLO_IOU
) -> dict[int, float]:
    """From 0 to 1 for each class that has an object that counts; ``detections`` and ``objects`` are image by image.

    A detection is right if the object of its class that it overlaps most, by ``threshold`` at least, has no better
    detection. One of a difficult object is neither right nor wrong.
    """
    counts = {int(label) for image in objects for label in image.classes_K[~image.difficult_K]}
    return {label: _of_class(label, detections, objects, threshold) for label in sorted(counts)}


def mean_average_precision(
    detections: Sequence[Detections], objects: Sequence[Objects], threshold: float = YOLO_IOU
) -> float:
    """Mean of :func:`average_precisions`, from 0 to 1; 0 if no object counts."""
    precisions = average_precisions(detections, objects, threshold)
    return sum(precisions.values()) / len(precisions) if precisions else 0.0


def _of_class(label, detections, objects, threshold):
    marked: list[tuple[float, bool]] = []
    n_objects = 0
    for found, image in zip(detections, objects, strict=True):
        here = image.classes_K == label
        n_objects += int((here & ~image.difficult_K).sum())
        marked += _marked(found, label, image.boxes_K4[here], image.difficult_K[here], threshold)
    marked.sort(key=lambda one: -one[0])
    right = torch.tensor([one[1] for one in marked], dtype=torch.float64).cumsum(0)
    precision = right / torch.arange(1, len(marked) + 1)
    recall = torch.cat([torch.zeros(1, dtype=torch.float64), right / n_objects])
    # Precision at a recall is the best at this or a higher one.
    envelope = precision.flip(0).cummax(0).values.flip(0) if len(marked) else precision
    return float((recall.diff() * envelope).sum())


def _marked(found, label, boxes, difficult, threshold):
    """Scores of a class's detections in one image, best first, and whether they are right."""
    mine = (found.classes_M == label).nonzero()[:, 0]
    mine = mine[found.scores_M[mine].argsort(descending=True, stable=True)]
    taken: set[int] = set()
    for one in mine.tolist():
        overlaps = iou(found.boxes_M4[one][None], boxes)[0]
        best = int(overlaps.argmax()) if len(boxes) else -1
        if best < 0 or overlaps[best] < threshold:
            yield float(found.scores_M[one]), False
        elif not difficult[best]:
            yield float(found.scores_M[one]), best not in taken
            taken.add(best)
