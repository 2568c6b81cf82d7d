"""State of host islands: parameters and buffers in float64, with SGD's momenta."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ..compiler.islands import Island

__all__ = ["Hyper", "IslandState"]


@dataclass(frozen=True)
class Hyper:
    """Parameters of SGD."""

    learning_rate: float = 0.0
    momentum: float = 0.0
    weight_decay: float = 0.0


class IslandState:
    """Parameters, momenta and buffers of all islands by their names in the state dict; floats are float64.

    ``names``: those of the state dict that no layer of the device has. They are the islands' parameters and buffers,
    and buffers that nothing computes with. All is empty until :meth:`load` or :meth:`restore`.
    """

    def __init__(self, islands: Iterable[Island], names: Iterable[str] = ()):
        islands = list(islands)
        self.parameter_names = list(dict.fromkeys(name for island in islands for name in island.parameters))
        buffers = [name for island in islands for name in island.buffers]
        self.buffer_names = list(dict.fromkeys(name for name in (*buffers, *names) if name not in self.parameter_names))
        self.parameters: dict[str, torch.Tensor] = {}
        self.momenta: dict[str, torch.Tensor] = {}
        self.buffers: dict[str, torch.Tensor] = {}

    @property
    def kinds(self) -> dict[str, dict[str, torch.Tensor]]:
        """The state by the names of its kinds."""
        return {"parameter": self.parameters, "momentum": self.momenta, "buffer": self.buffers}

    def load(self, state: Mapping) -> None:
        """Take parameters and buffers from a state dict (arrays or tensors by name); momenta are zero."""
        self.parameters = {name: _wide(state[name]) for name in self.parameter_names}
        self.momenta = {name: torch.zeros_like(value) for name, value in self.parameters.items()}
        self.buffers = {name: _wide(state[name]) for name in self.buffer_names}

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Copies of parameters and buffers."""
        return {name: value.clone() for name, value in (self.parameters | self.buffers).items()}

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything as arrays by name."""
        return {
            f"island.{kind}.{name}": value.numpy().copy()
            for kind, values in self.kinds.items() for name, value in values.items()
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the state of a :meth:`snapshot`, bit for bit; raises KeyError if a part is missing."""
        names = {"parameter": self.parameter_names, "momentum": self.parameter_names, "buffer": self.buffer_names}
        found = {
            kind: {name: torch.from_numpy(arrays[f"island.{kind}.{name}"].copy()) for name in each}
            for kind, each in names.items()
        }
        self.parameters, self.momenta, self.buffers = found["parameter"], found["momentum"], found["buffer"]

    def add_to(self, digest: "hashlib._Hash") -> None:
        """Add names and bits of everything to a digest."""
        for name, array in self.snapshot().items():
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())

    def step(self, gradients: Mapping[str, torch.Tensor], hyper: Hyper) -> None:
        """A step of SGD as torch.optim.SGD takes it, on the parameters that have a gradient."""
        for name, gradient in gradients.items():
            parameter, momentum = self.parameters[name], self.momenta[name]
            decayed = gradient + hyper.weight_decay * parameter
            self.momenta[name] = hyper.momentum * momentum + decayed
            self.parameters[name] = parameter - hyper.learning_rate * self.momenta[name]

    def count(self, names: Iterable[str], batches: int) -> None:
        """Add a number of batches to the counts that batch norms of the device have."""
        for name in names:
            self.buffers[name] = self.buffers[name] + batches

    def move(self, buffers: Mapping[str, torch.Tensor]) -> None:
        """Replace buffers; they keep their types."""
        for name, value in buffers.items():
            self.buffers[name] = value.detach().to(self.buffers[name].dtype).clone()


def _wide(value) -> torch.Tensor:
    """A copy as a tensor, float64 if it is of floats."""
    tensor = torch.as_tensor(value).detach()
    return tensor.to(torch.float64 if tensor.is_floating_point() else tensor.dtype, copy=True)
