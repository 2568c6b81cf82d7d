"""Hyper-parameters of the optimisers in a device's table."""

from ..compiler.ir import HYPER
from ..compiler.predictor_steps import ADAM_HYPER, BETAS
from ..compiler.quantise import constant
from ..devices.device import Device

__all__ = ["set_adam", "set_sgd"]


def set_sgd(device: Device, learning_rate: float, momentum: float, weight_decay: float) -> None:
    """Set the parameters of the network's SGD."""
    for index, value in enumerate((learning_rate, momentum, weight_decay)):
        device.set_hyper(HYPER + index, *constant(value))


def set_adam(device: Device, learning_rate: float) -> None:
    """Set the parameters of the predictor's Adam; betas are torch's."""
    betas = [round(beta * (1 << 16)) for beta in BETAS]
    fractions = [value for beta in betas for value in (beta, (1 << 16) - beta)]
    for place, pair in enumerate([constant(learning_rate), *((value, -16) for value in fractions), (1, 0)]):
        device.set_hyper(ADAM_HYPER + place, *pair)
