"""Small siblings of published networks, for small images: residual, dense, and inverted residual ones.

Each class builds the published network too, with its first convolution fitted to small images (3x3, stride 1, and no
pooling after it), so its parameters can be counted against the publication. Input is [N, channels, H, W], with H and W
of 8 or more.
"""

from torch import Tensor, cat, nn

__all__ = ["DenseNet", "MobileNet", "ResNet", "densenet_small", "mobilenet_small", "resnet18_small", "resnet20"]


def _conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size, but for its stride."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)


def _initialised(network: nn.Module) -> None:
    """Give convolutions He's initial weights."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class _Residual(nn.Module):
    """Two convolutions and a way around them, by a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1, self.norm1 = _conv(inputs, outputs, stride=stride), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = _conv(outputs, outputs), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.around: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.around = nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] to [N, outputs, H / stride, W / stride]."""
        y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        return self.relu(y + self.around(x))


class ResNet(nn.Module):
    """Residual network with basic blocks (He et al. 2016, "Deep Residual Learning for Image Recognition").

    ``widths``: channels of each stage, all but the first of which begin with stride 2; ``blocks``: in each stage.
    """

    def __init__(self, channels: int, n_classes: int, widths: tuple[int, ...], blocks: int):
        super().__init__()
        self.conv, self.norm, self.relu = _conv(channels, widths[0]), nn.BatchNorm2d(widths[0]), nn.ReLU()
        stages, inputs = [], widths[0]
        for number, outputs in enumerate(widths):
            for block in range(blocks):
                stages.append(_Residual(inputs, outputs, 2 if number and not block else 1))
                inputs = outputs
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, n_classes)
        _initialised(self)

    def forward(self, x: Tensor) -> Tensor:
        """[N, channels, H, W] to [N, n_classes]."""
        return self.fc(self.pool(self.stages(self.relu(self.norm(self.conv(x))))).flatten(1))


class _Dense(nn.Module):
    """A 1x1 and a 3x3 convolution, each after batch norm and ReLU, whose results join their input's channels."""

    def __init__(self, inputs: int, growth: int):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inputs), _conv(inputs, 4 * growth, 1)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), _conv(4 * growth, growth)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] to [N, inputs + growth, H, W]."""
        y = self.conv1(self.relu(self.norm1(x)))
        return cat([x, self.conv2(self.relu(self.norm2(y)))], 1)


class DenseNet(nn.Module):
    """Densely connected network (Huang et al. 2017, "Densely Connected Convolutional Networks"), DenseNet-BC.

    ``blocks``: dense layers in each block; between two blocks channels and sides are halved. ``growth``: channels that
    each layer adds to the 2 * growth of the first convolution.
    """

    def __init__(self, channels: int, n_classes: int, growth: int, blocks: tuple[int, ...]):
        super().__init__()
        width = 2 * growth
        layers: list[nn.Module] = [_conv(channels, width)]
        for number, length in enumerate(blocks):
            if number:
                layers += [nn.BatchNorm2d(width), nn.ReLU(), _conv(width, width // 2, 1), nn.AvgPool2d(2)]
                width //= 2
            for _ in range(length):
                layers.append(_Dense(width, growth))
                width += growth
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(width, n_classes)
        _initialised(self)

    def forward(self, x: Tensor) -> Tensor:
        """[N, channels, H, W] to [N, n_classes]."""
        return self.fc(self.features(x).flatten(1))


class _InvertedResidual(nn.Module):
    """A 1x1 convolution to ``expansion`` times the channels, a depthwise 3x3 one, and a 1x1 one without ReLU."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int):
        super().__init__()
        width = expansion * inputs
        layers: list[nn.Module] = []
        if expansion > 1:
            layers += [_conv(inputs, width, 1), nn.BatchNorm2d(width), nn.ReLU6()]
        layers += [_conv(width, width, stride=stride, groups=width), nn.BatchNorm2d(width), nn.ReLU6()]
        self.layers = nn.Sequential(*layers, _conv(width, outputs, 1), nn.BatchNorm2d(outputs))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] to [N, outputs, H / stride, W / stride]."""
        return x + self.layers(x) if self.adds else self.layers(x)


class MobileNet(nn.Module):
    """Network of inverted residuals (Sandler et al. 2018, "MobileNetV2"), without dropout.

    ``rows``: expansion, channels, blocks, stride of the first, as in the paper's table 2; ``first``, ``last``: channels
    of the convolutions before and after them.
    """

    def __init__(
        self, channels: int, n_classes: int, rows: tuple[tuple[int, int, int, int], ...], first: int, last: int
    ):
        super().__init__()
        layers: list[nn.Module] = [_conv(channels, first), nn.BatchNorm2d(first), nn.ReLU6()]
        inputs = first
        for expansion, outputs, blocks, stride in rows:
            for block in range(blocks):
                layers.append(_InvertedResidual(inputs, outputs, expansion, 1 if block else stride))
                inputs = outputs
        layers += [_conv(inputs, last, 1), nn.BatchNorm2d(last), nn.ReLU6(), nn.AdaptiveAvgPool2d(1)]
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(last, n_classes)
        _initialised(self)

    def forward(self, x: Tensor) -> Tensor:
        """[N, channels, H, W] to [N, n_classes]."""
        return self.fc(self.features(x).flatten(1))


def resnet20(shape: tuple[int, int, int], n_classes: int) -> ResNet:
    """He et al.'s ResNet-20 for CIFAR (their section 4.2), with 1x1 convolutions around blocks (their option B).

    Option B has 2,752 parameters more than option A, which fills new channels with zeros.
    """
    return ResNet(shape[0], n_classes, (16, 32, 64), 3)


def resnet18_small(shape: tuple[int, int, int], n_classes: int) -> ResNet:
    """ResNet-18 with a quarter of its channels."""
    return ResNet(shape[0], n_classes, (16, 32, 64, 128), 2)


def densenet_small(shape: tuple[int, int, int], n_classes: int) -> DenseNet:
    """Four blocks of two to four dense layers with a growth of 12."""
    return DenseNet(shape[0], n_classes, 12, (2, 3, 4, 3))


def mobilenet_small(shape: tuple[int, int, int], n_classes: int) -> MobileNet:
    """Six of MobileNet-V2's blocks, up to 64 channels, and a last convolution of 256."""
    return MobileNet(shape[0], n_classes, ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 2, 2), (6, 64, 1, 2)), 32, 256)
