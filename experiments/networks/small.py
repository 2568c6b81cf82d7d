"""Small networks, for controlled experiments that one core can run: images from 8x8 on, any number of channels."""

from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["SmallResNet", "lenet5", "small_cnn", "small_cnn5", "small_vgg"]


def _conv(inputs, outputs, pool):
    layers: list[nn.Module] = [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
    return [*layers, nn.MaxPool2d(2)] if pool else layers


def _head(features, hidden, n_classes):
    return [nn.Flatten(), nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, n_classes)]


def small_cnn(n_classes: int, image_size: int, channels: int = 3) -> nn.Sequential:
    """Three convolutions of 16, 32 and 64 channels, the first two with pooling, and two linear layers."""
    layers = [*_conv(channels, 16, True), *_conv(16, 32, True), *_conv(32, 64, False)]
    return nn.Sequential(*layers, *_head(64 * (image_size // 4) ** 2, 128, n_classes))


def small_cnn5(n_classes: int, image_size: int, channels: int = 3) -> nn.Sequential:
    """Five convolutions of 32, 32, 64, 64 and 128 channels, every second and the last with pooling, two linear ones."""
    layers = [
        *_conv(channels, 32, False), *_conv(32, 32, True), *_conv(32, 64, False), *_conv(64, 64, True),
        *_conv(64, 128, True),
    ]  # fmt: skip
    return nn.Sequential(*layers, *_head(128 * (image_size // 8) ** 2, 128, n_classes))


def lenet5(n_classes: int, image_size: int, channels: int = 3) -> nn.Sequential:
    """LeNet-5 with ReLU and maxima in pooling: convolutions of 6 and 16 channels, linear layers of 120, 84 and all."""
    side = (image_size // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * side**2, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, n_classes),
    )  # fmt: skip


def small_vgg(n_classes: int, image_size: int, channels: int = 3) -> nn.Sequential:
    """VGG's order at a quarter of its width: six convolutions with batch norm, in pairs of 16, 32 and 64 channels, each
    pair with pooling, and two linear layers."""
    layers: list[nn.Module] = []
    for inputs, outputs, pool in ((channels, 16, 0), (16, 16, 1), (16, 32, 0), (32, 32, 1), (32, 64, 0), (64, 64, 1)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] * pool
    return nn.Sequential(*layers, *_head(64 * (image_size // 8) ** 2, 128, n_classes))


class _Mean(nn.Module):
    """The mean over an image."""

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] to [N, C]."""
        return x.mean((2, 3))


class _Block(nn.Module):
    """Two convolutions and a way around them, by a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.around: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] to [N, outputs, H / stride, W / stride]."""
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.around(x))


class SmallResNet(nn.Module):
    """CIFAR's residual network of 6·blocks + 2 layers, 16 to 64 channels: ResNet-8 by default, ResNet-20 with three.

    Unlike its model it goes around with a 1x1 convolution where channels change.
    """

    def __init__(self, n_classes: int, channels: int = 3, blocks: int = 1):
        super().__init__()
        self.conv = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        stages, inputs = [], 16
        for outputs in (16, 32, 64):
            for number in range(blocks):
                stages.append(_Block(inputs, outputs, 2 if number == 0 and outputs > 16 else 1))
                inputs = outputs
        self.stages = nn.Sequential(*stages)
        self.fc = nn.Linear(64, n_classes)

    def parts(self) -> list[nn.Module]:
        """The network as modules that run one after the other: its beginning, each block, its end."""
        return [nn.Sequential(self.conv, self.norm, nn.ReLU()), *self.stages, nn.Sequential(_Mean(), self.fc)]

    def forward(self, x: Tensor) -> Tensor:
        """[N, channels, H, W] to [N, n_classes]."""
        return self.fc(self.stages(F.relu(self.norm(self.conv(x)))).mean((2, 3)))
