"""A small network with operators that the host computes, for tests of the run time."""

from torch import nn

__all__ = ["NormReLU"]


class NormReLU(nn.Module):
    """Two convolutions with batch norm, dropout and ReLU between them."""

    def __init__(self, channels, n_classes, dropout=0.0, size=4):
        super().__init__()
        self.first = nn.Conv2d(channels, 6, 3, padding=1)
        self.norm, self.dropout = nn.BatchNorm2d(6), dropout
        self.second = nn.Conv2d(6, n_classes, size)

    def forward(self, x):
        x = nn.functional.relu(self.norm(self.first(x)))
        return self.second(nn.functional.dropout(x, self.dropout, self.training)).flatten(1)
