"""The cost of each operator of a compiled network in a BP batch, and the host's share of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch

from ...spec.commands import Command, Opcode, Phase
from ...spec.config import Config
from ...spec.opcodes import COMPUTE, DEPTHWISE, GEMMS, NORMS, UPDATES
from ...spec.operands import macs, operands
from ...spec.phases import BP
from .compiler import Compiled
from .cost_model import Tiling
from .islands import Island
from .norm_tiling import norm_cycles
from .occupancy import Shape
from .useful_macs import useful_batch, useful_convolution, useful_lines

__all__ = ["Cost", "Share", "costs", "cycles_of", "hosted", "share", "tiling_of", "utilisation"]

NAMED = 4
"""Islands up to which a line names each."""
BACKWARD = 2
"""Products of gradients for each product of the forward pass: by operands of either side."""


@dataclass(frozen=True)
class Cost:
    """An operator's cost in a BP batch, backward pass and update included.

    ``where``: device or host. ``operators``: opcodes, or the island's operators. ``macs``: those with the zeros of
    padding too. ``bytes``: of operands and results, each command's once. ``cycles``: as the
    cost model expects them; None on the host.
    """

    name: str
    where: str
    operators: tuple[str, ...]
    useful_macs: int
    macs: int
    bytes: int
    cycles: int | None


@dataclass(frozen=True)
class Share:
    """The device's shares of multiplications and bytes of a BP batch, and the host's operators by their island."""

    device_share_of_macs: float
    device_share_of_bytes: float
    host_operators: dict[str, list[str]]

    def __str__(self) -> str:
        return (
            f"on the host: {hosted(self.host_operators)}; {100 * (1 - self.device_share_of_macs):.1f} % of MACs,"
            f" {100 * (1 - self.device_share_of_bytes):.1f} % of bytes"
        )


def hosted(host_operators: Mapping[str, Sequence[str]]) -> str:
    """The host's operators in a line: by their island, or, of more than NAMED islands, how many there are of each."""
    if len(host_operators) <= NAMED:
        return ", ".join(f"{name} ({' '.join(each)})" for name, each in host_operators.items())
    counts = Counter(name for operators in host_operators.values() for name in operators)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def costs(compiled: Compiled, state: Mapping) -> list[Cost]:
    """The costs of all operators, those of the device in the order of their first commands, then the host's.

    ``state``: a state dict with the islands' parameters and buffers, for their shapes.
    """
    found: dict[str, list[tuple[Command, int, int, int, int]]] = {}
    for line, useful in zip(compiled.program, useful_lines(compiled), strict=True):
        command = line.command
        if command.phase_mask & Phase.BP and (command.opcode in COMPUTE or command.opcode in UPDATES):
            done, cycles = macs(command) + _depthwise_macs(command), cycles_of(command, compiled.config)
            work = (command, useful, done, _moved(command, compiled.config), cycles)
            found.setdefault(line.name, []).append(work)
    device = [
        Cost(
            name, "device", tuple(dict.fromkeys(command.opcode.name.lower() for command, *_ in work)),
            *(sum(column) for column in zip(*(numbers for _, *numbers in work), strict=True)),
        )
        for name, work in found.items()
    ]  # fmt: skip
    islands = {stop.island.name: stop.island for stop in compiled.stops if stop.island is not None}
    return device + [_island(island, compiled, state) for island in islands.values()]


def share(found: list[Cost]) -> Share:
    """The device's share of costs."""

    def of_device(column: str) -> float:
        total = sum(getattr(cost, column) for cost in found)
        return sum(getattr(cost, column) for cost in found if cost.where == "device") / total if total else 1.0

    host = {cost.name: list(cost.operators) for cost in found if cost.where == "host"}
    return Share(of_device("macs"), of_device("bytes"), host)


def utilisation(compiled: Compiled, found: list[Cost]) -> tuple[float, float]:
    """Useful utilisation of the array in a BP batch, and that with the zeros of padding, by the expected cycles."""
    config, cycles = compiled.config, sum(cost.cycles or 0 for cost in found)
    commands = [line.command for line in compiled.program if line.command.phase_mask & Phase.BP]
    done = sum(macs(command) for command in commands if config.n_cores == 1 or not command.predictor)
    return useful_batch(compiled, BP) / config.n_pes / cycles, done / config.n_pes / cycles


def _depthwise_macs(command: Command) -> int:
    """Multiply-accumulates of a depthwise convolution, whose products the pool unit makes; 0 for other commands."""
    if command.opcode not in DEPTHWISE:
        return 0
    data = command.opcode == Opcode.DEPTHWISE_BACKWARD_DATA
    height, width = (command.h, command.w) if data else (command.oh, command.ow)
    return command.n * height * width * command.c * command.r * command.s


def _moved(command: Command, config: Config) -> int:
    """Bytes of operands and results, without the gaps between rows."""
    return sum(prod(operand.shape) * operand.element_bytes for operand in operands(command, config).values())


def cycles_of(command: Command, config: Config) -> int:
    """Cycles of a command that computes, as the cost model expects them; the memory port alone decides an update's."""
    if command.opcode in UPDATES:
        return -(-_moved(command, config) // config.beat_bytes)
    if command.opcode in NORMS:
        return int(norm_cycles(command, config, command.nb, command.yb, command.cb))
    return int(np.max(tiling_of(command, config).cycles()))


def tiling_of(command: Command, config: Config) -> Tiling:
    """The tiling of a command of the array or the pool unit, on the core that executes it."""
    own = config.predictor_core if command.predictor and config.n_cores > 1 else config
    i, o = (command.qb, command.cb) if command.opcode == Opcode.BACKWARD_DATA else (command.cb, command.qb)
    if command.opcode not in GEMMS:
        o = i
    n, y, i, o = (np.array([extent]) for extent in (command.nb, command.yb, i, o))
    return Tiling(Shape.of(command), own, n, y, i, o, command.swap, command.out_outer)


def _island(island: Island, compiled: Compiled, state: Mapping) -> Cost:
    """The cost of an island: products of the kinds that torch counts, and each value's bytes read or written."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # tensors without data, as torch.export has them
    from torch.utils.flop_counter import FlopCounterMode

    stops = [stop for stop in compiled.stops if stop.island == island and stop.phases & Phase.BP]
    given = [{name: torch.as_tensor(state[name]) for name in names} for names in (island.parameters, island.buffers)]
    with (
        FakeTensorMode(allow_non_fake_inputs=True) as fake, FlopCounterMode(display=False) as counter,
        FlopCounterMode(display=False, custom_mapping={torch.ops.aten.convolution: useful_convolution}) as useful,
        torch.no_grad(),
    ):  # fmt: skip
        inputs = [torch.empty(compiled.values[name].shape, dtype=torch.float64) for name in island.inputs]
        parameters, buffers = (
            {name: _wide(fake.from_tensor(value)) for name, value in values.items()} for values in given
        )
        island.function(parameters, buffers, inputs, training=True, seed=0)
    passes = 1 + BACKWARD * any(stop.kind == "backward" for stop in stops)
    moved = sum(compiled.tensors[name].n_bytes for stop in stops for name in (*stop.reads, *stop.writes) if name)
    needed, done = (passes * each.get_total_flops() // 2 for each in (useful, counter))
    return Cost(island.name, "host", island.operators, needed, done, moved, None)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
