"""Detection in batches of images [N, 3, S, S] with their objects: YOLO-v3's loss, and what it is judged by."""

from functools import lru_cache

import torch
from torch import Tensor, nn

from .average_precision import Objects
from .networks.yolo_boxes import Detections, Priors, detect, priors
from .networks.yolo_loss import Targets, targets, yolo_loss

__all__ = ["Batch", "detection_loss", "detection_parts", "right_classes"]

Batch = tuple[Tensor, list[Objects]]


@lru_cache(maxsize=4)
def _grid(image_size: int, device: torch.device) -> Priors:
    return priors(image_size, device)


def _targets(network, batch: Batch) -> list[Targets]:
    """Without difficult objects: in training there are none, and to be judged by they aren't."""
    images, objects = batch
    grid = _grid(images.shape[-1], images.device)
    return [
        targets(one.boxes_K4[~one.difficult_K], one.classes_K[~one.difficult_K], grid, network.n_classes)
        for one in objects
    ]


def detection_loss(network: nn.Module, batch: Batch) -> Tensor:
    """The loss of a :class:`.yolo.YoloV3`, see :func:`.yolo_loss.yolo_loss`."""
    return yolo_loss(network(batch[0]).float(), _targets(network, batch))


def detection_parts(network: nn.Module, batch: Batch) -> tuple[list[Detections], list[Objects]]:
    """The detections and the objects of each image, on the CPU."""
    images, objects = batch
    found = detect(network(images).float(), _grid(images.shape[-1], images.device))
    return (
        [Detections(one.boxes_M4.cpu(), one.scores_M.cpu(), one.classes_M.cpu()) for one in found],
        [Objects(one.boxes_K4.cpu(), one.classes_K.cpu(), one.difficult_K.cpu()) for one in objects],
    )


def right_classes(network: nn.Module, batch: Batch) -> Tensor:
    """1 for each object that counts if its class has the largest logit at its prior, else 0."""
    outputs = network(batch[0])
    return torch.cat([
        (one[target.priors_M, 5:].argmax(1) == target.classes_MC.argmax(1)).float()
        for one, target in zip(outputs, _targets(network, batch), strict=True)
    ])  # fmt: skip
