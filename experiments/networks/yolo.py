"""YOLO-v3: Darknet-53, and detectors at three scales (Redmon and Farhadi, 2018).

Of an image's side S, a multiple of 32, the scales have cells of 32, 16 and 8 pixels; in each cell there are three
priors. Outputs of all are in one row, coarse scale first, then by cell, then by prior: ``P`` in shapes, see
:func:`.yolo_boxes.priors`. A prior's outputs are x, y, width, height, objectness and one logit per class.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["PRIORS_PER_CELL", "STRIDES", "Darknet53", "YoloV3"]

STRIDES = (32, 16, 8)
"""Pixels a cell, of the three scales."""
PRIORS_PER_CELL = 3


class _Conv(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1):
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs),
            nn.LeakyReLU(0.1),
        )  # fmt: skip


class _Residual(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.narrow = _Conv(channels, channels // 2, 1)
        self.wide = _Conv(channels // 2, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.wide(self.narrow(x))


class Darknet53(nn.Module):
    """The 52 convolutions that find features: five halvings, with 1, 2, 8, 8 and 4 residual blocks behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _Conv(3, 32, 3)
        stages = []
        for number, blocks in enumerate((1, 2, 8, 8, 4)):
            channels = 64 << number
            residuals = (_Residual(channels) for _ in range(blocks))
            stages.append(nn.Sequential(_Conv(channels // 2, channels, 3, 2), *residuals))
        self.stages = nn.ModuleList(stages)

    def forward(self, x: Tensor) -> list[Tensor]:
        """The features of images [N, 3, S, S] at S/32, S/16 and S/8, of 1024, 512 and 256 channels."""
        x, features = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        return features[:1:-1]


class _Scale(nn.Module):
    """Five convolutions that go on to the next scale, and two more that detect."""

    def __init__(self, inputs: int, channels: int, outputs: int):
        super().__init__()
        wide = 2 * channels
        self.through = nn.Sequential(
            _Conv(inputs, channels, 1), _Conv(channels, wide, 3), _Conv(wide, channels, 1), _Conv(channels, wide, 3),
            _Conv(wide, channels, 1),
        )  # fmt: skip
        self.detect = nn.Sequential(_Conv(channels, wide, 3), nn.Conv2d(wide, outputs, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.through(x)
        return x, self.detect(x)


class YoloV3(nn.Module):
    """The detector; its outputs become boxes in :mod:`.yolo_boxes` and a loss in :mod:`.yolo_loss`."""

    def __init__(self, n_classes: int):
        super().__init__()
        self.n_classes = n_classes
        outputs = PRIORS_PER_CELL * (5 + n_classes)
        self.backbone = Darknet53()
        self.scales = nn.ModuleList(
            [_Scale(1024, 512, outputs), _Scale(512 + 256, 256, outputs), _Scale(256 + 128, 128, outputs)]
        )
        self.narrow = nn.ModuleList([_Conv(512, 256, 1), _Conv(256, 128, 1)])

    def forward(self, x: Tensor) -> Tensor:
        """The outputs [N, P, 5 + classes] of images [N, 3, S, S], none of them squashed yet."""
        found, carried = [], None
        for number, features in enumerate(self.backbone(x)):
            if carried is not None:
                wider = F.interpolate(self.narrow[number - 1](carried), scale_factor=2.0, mode="nearest")
                features = torch.cat([wider, features], 1)
            carried, detected = self.scales[number](features)
            # [N, prior · output, H, W] to [N, H · W · prior, output]
            detected = detected.unflatten(1, (PRIORS_PER_CELL, 5 + self.n_classes))
            found.append(detected.permute(0, 3, 4, 1, 2).flatten(1, 3))
        return torch.cat(found, 1)
