"""The networks that are disturbed, each with the phase and batches to run, made ready by the golden model."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np
import torch
from adagp.host.compiler.dependencies import with_waits
from adagp.host.devices.golden import GoldenDevice
from adagp.host.program import Line, Program
from adagp.host.training.network import Network
from adagp.spec.commands import CMode, Command, Opcode
from adagp.spec.presets import preset
from torch import nn

from .campaign import PREDICTING_DESIGNS, configured
from .workload import BP, EVALUATE, GP, WARMUP, Workload, record

__all__ = ["PREDICTED", "TRUE", "Choice", "workload"]

CONFIG = preset("tiny")
PAGE = 1 << 16
"""Memory sizes are multiples of it."""
SEED = 11
CLASSES = 3
GEMMS = (Opcode.FORWARD, Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT)


def _change(network: Network, change: Callable[[Line], dict]) -> None:
    """Set the fields that ``change`` gives for each line of the program."""
    lines = [
        replace(line, command=Command(line.command.opcode, {**line.command.fields, **change(line)}))
        for line in network.program
    ]
    program = Program(with_waits(lines, network.config), network.program.address)
    network.compiled = replace(network.compiled, program=program)


def _blocks() -> tuple[Network, dict]:
    """A residual connection, and tiles smaller than they need be."""
    module = nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 5, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(20, CLASSES),
    )  # fmt: skip
    network = Network(module, (2, 4, 4), 2, CONFIG)
    added = network.tensors["0.Conv2d.output"]

    def change(line):
        fields = {}
        if line.command.opcode in GEMMS:
            fields |= {"nb": 1, "qb": min(line.command.qb, 3)}
        if line.command.opcode == Opcode.FORWARD and line.name == "2.Conv2d":
            fields |= {"c_mode": int(CMode.ADD), "c_addr": added.address, "c_id": added.number, "yb": 2}
        return fields

    _change(network, change)
    return network, module.state_dict()


def _pools() -> tuple[Network, dict]:
    """Strides, both kinds of pools, no bias, two entries of input."""
    module = nn.Sequential(
        nn.Conv2d(2, 7, (3, 2), stride=2, padding=1), nn.AvgPool2d(2, 1), nn.Conv2d(7, 4, (2, 1), bias=False),
        nn.ReLU(), nn.MaxPool2d((1, 2), 1), nn.Flatten(), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, CLASSES),
    )  # fmt: skip
    return Network(module, (2, 5, 5), 3, CONFIG, ring_entries=2), module.state_dict()


def _predicting(design: str, source: str = "predicted") -> tuple[Network, dict]:
    """A convolution without bias, one whose gradients are more than one prediction holds, a classifier."""
    module = nn.Sequential(
        nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=False), nn.ReLU(), nn.Conv2d(3, 4, (1, 2)), nn.Flatten(),
        nn.Linear(24, CLASSES),
    )  # fmt: skip
    return Network(module, (2, 5, 5), 2, configured(design), ring_entries=2, source=source), module.state_dict()


Choice = tuple[Callable[[], tuple[Network, dict]], int | None, bool, int, int]

TRUE: dict[str, Choice] = {
    "blocks": (_blocks, WARMUP, False, 1, 4),
    "pools": (_pools, WARMUP, False, 1, 4),
    "batches": (_pools, WARMUP, False, 2, 1),
    "calibration": (_blocks, WARMUP, True, 1, 1),
    "evaluation": (_pools, EVALUATE, False, 1, 1),
}
"""Network, phase, calibration, batches, and how often it is to be used."""

PREDICTED: dict[str, Choice] = {
    f"{design} {name}": (partial(_predicting, design, source), phase, calibrate, batches, share)
    for design in PREDICTING_DESIGNS
    for name, source, phase, calibrate, batches, share in (
        ("predicts", "predicted", GP, False, 1, 4),
        ("learns", "predicted", BP, False, 1, 4),
        ("alternates", "predicted", None, False, 2, 2),
        ("calibrates", "predicted", WARMUP, True, 1, 1),
        ("coasts", "zero", GP, False, 2, 1),
    )
}
"""The same of designs that predict gradients."""


@cache
def workload(name: str) -> Workload:
    """The workload called ``name``, after one batch that calibrated it; made once in each process."""
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    build, phase, calibrate, batches, _ = (TRUE | PREDICTED)[name]
    network, state = build()
    memory_bytes = (network.compiled.plan.n_bytes // PAGE + 1) * PAGE
    golden = GoldenDevice(network.config, memory_bytes)
    network.load_state(golden, state)
    load = Workload(network, WARMUP, True, 1, rng.uniform(-0.3, 0.3, (network.batch, CLASSES)))
    load.set_rates(golden)
    for entry in range(network.ring_entries):
        network.write_input(golden, rng.uniform(-1, 1, (network.batch, *network.input_shape)), entry)
    load.run(golden)
    memory = golden.machine.memory
    memory[network.compiled.plan.n_bytes :] = rng.integers(0, 256, memory_bytes - network.compiled.plan.n_bytes)
    load.phase, load.calibrate, load.batches = phase, calibrate, batches
    load.state = network.snapshot(golden)
    load.image = memory.copy()
    load.prepare(golden, memory)
    record(load, golden)
    return load
