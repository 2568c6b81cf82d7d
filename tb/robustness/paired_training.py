"""A network trained by the golden model and by the simulated RTL, side by side: all that the host sees is compared."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
from adagp.host.compiler.lowering import LoweringError
from adagp.host.compiler.mapping import MappingError
from adagp.host.compiler.memory_plan import PlanError
from adagp.host.devices.device import Device
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.network import Network

__all__ = ["REFUSALS", "compared", "memory_and_exponents"]

REFUSALS = (LoweringError, MappingError, PlanError)
"""Errors of networks that can't be built for a configuration."""
PAGE = 4096
LIMIT = 20_000_000
"""Cycles after which a batch counts as hung."""


@contextmanager
def compared(
    network: Network, draw: Random, top: Path | None, train: Callable[[Device, int], Iterator[dict]], what: str
) -> Iterator[tuple[GoldenDevice, SimDevice]]:
    """Train on both devices, which stay open meanwhile; raises AssertionError for the first difference.

    ``train`` of a device and a seed yields arrays by name, step by step; ``what`` names the case in messages.
    """
    seed, stall = draw.getrandbits(32), draw.choice((0.0, 0.05, 0.3))
    memory = -(-network.compiled.plan.n_bytes // PAGE) * PAGE
    golden = GoldenDevice(network.config, memory)
    device = SimDevice(
        network.config, memory_bytes=memory, stall=stall, seed=1 + draw.getrandbits(30), top=top, limit=LIMIT
    )  # fmt: skip
    try:
        for step, (expected, found) in enumerate(zip(train(golden, seed), train(device, seed), strict=True)):
            for key, value in expected.items():
                assert np.array_equal(found[key], value), f"{key} differ in step {step} of {what}"
        assert network.weights_hash(device) == network.weights_hash(golden)
        yield golden, device
    finally:
        device.close()


def memory_and_exponents(network: Network, device: Device) -> dict[str, np.ndarray]:
    """A network's memory and the exponents of its tensors."""
    numbers = sorted({tensor.number for tensor in network.tensors.values() if tensor.number >= 0})
    return {
        "memory": device.read(0, network.compiled.plan.n_bytes),
        "exponents": np.array([str(device.exponents(number)) for number in numbers]),
    }
