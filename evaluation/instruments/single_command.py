"""Programs of one command on the simulated RTL, measured: counters, what the DRAM model saw, bounds.

A finished measurement is kept in a folder: a bench that was stopped goes on after the last one.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import nn

from ...gen.files import write_atomically
from ...gen.generated import generated
from ...host.compiler.occupancy import Shape
from ...host.compiler.tensors import part_of
from ...host.compiler.useful_macs import useful_macs
from ...host.devices.simulated import SimDevice
from ...host.program import Line, Program
from ...host.training.network import Network
from ...sim.build import library
from ...spec.commands import Command, Opcode, Phase
from ...spec.config import Config
from ...spec.operands import WAITS, macs
from ...spec.phases import WARMUP
from ...spec.registers import COUNTERS

__all__ = [
    "CLASSES",
    "DIRECTIONS",
    "IMAGE",
    "MODEL",
    "SEED",
    "Bench",
    "agreement",
    "alone",
    "bars",
    "bound",
    "measured",
    "reconciles",
]

MODEL, IMAGE, CLASSES = "vgg13", (3, 32, 32), 10
"""The network whose layers are measured."""
SEED = 1
"""Seed of weights and tensors."""
DIRECTIONS = {
    Opcode.FORWARD: "forward", Opcode.BACKWARD_DATA: "backward_data", Opcode.BACKWARD_WEIGHT: "backward_weight",
}  # fmt: skip
STALLS = tuple(name for name, _ in COUNTERS if name.startswith("stall_"))


def bars() -> Progress:
    """The bars of a bench."""
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


def bound(command: Command, config: Config) -> int:
    """Fewest array cycles of a GEMM command, whatever the tiles: one streamed vector a cycle, no pauses."""
    shape = Shape.of(command)

    def cycles(part, swap):
        reduction, streamed, stationary = part.gemm(part.n, part.out_h, part.ic, part.oc, swap)
        return -(-reduction // config.rows) * -(-stationary // config.cols) * streamed

    parts = shape.parts or ((shape, 1),)
    return min(sum(times * cycles(part, swap) for part, times in parts) for swap in (0, 1))


def alone(line: Line, network: Network) -> Program:
    """A program of one command, which waits for nothing."""
    free = Command(line.command.opcode, {**line.command.fields, **dict.fromkeys(WAITS, 0)})
    end = Line(Command(Opcode.END, {"phase_mask": int(Phase.ALL)}))
    return Program([network.program.lines[0], Line(free, line.name), end], network.program.address)


def measured(line: Line, counters: dict, config: Config) -> dict:
    """Counters of a command alone on the accelerator, and their agreement with shapes and memory."""
    command = line.command
    expected = macs(command)
    return {
        "layer": line.name, "direction": DIRECTIONS[command.opcode], "useful_macs": useful_macs(command),
        "useful_utilisation": round(useful_macs(command) / counters["cycles"] / config.n_pes, 5), "macs": expected,
        "utilisation": round(expected / counters["cycles"] / config.n_pes, 5), **agreement(counters, expected),
        **counters,
    }  # fmt: skip


def agreement(counters: dict, expected: int) -> dict[str, bool]:
    """True if the accelerator's counters are the MACs of the shapes and the bytes that the memory saw."""
    return {
        "macs_equal": counters["macs"] == expected,
        "bytes_equal": all(counters[name] == counters[f"dram_{name}"] for name in ("read_bytes", "write_bytes")),
    }


def reconciles(counters: dict) -> bool:
    """True if in each cycle of a run the array worked, or waited for one cause."""
    return counters["cycles"] == sum(counters[name] for name in ("array_cycles", *STALLS))


class Bench:
    """Measurements by name, done once for each state of the hardware.

    Raises RuntimeError for a run whose cycles aren't those in which the array worked and waited.

    ``built`` is the configuration whose Verilog is simulated; others of the same config_hash may be measured.
    """

    def __init__(self, folder: Path, built: Config, progress: Progress):
        self.folder, self.progress = folder, progress
        self.top = generated(built)
        self.simulator = library(built).name  # names all that it's made of, the DRAM model too

    def __call__(self, name: str, network: Network, module: nn.Module, config: Config, program: Program) -> dict:
        """Counters of a network's program, with the network's weights and random activations in memory."""
        return self.kept(name, config, program, lambda: self._open(network, module, config))

    def kept(self, name: str, config: Config, program: Program, opened: Callable[[], SimDevice]) -> dict:
        """Counters of a program, kept or measured on the accelerator that ``opened`` gives."""
        path = self.folder / f"{name}.json"
        known = {
            "simulator": self.simulator, "program": program.digest, "clock_hz": config.clock_hz,
            "part": asdict(config.dram),
        }  # fmt: skip
        if path.exists() and (record := json.loads(path.read_text()))["of"] == known:
            return self._reconciled(name, record["counters"])
        device = opened()
        try:
            counters = self._reconciled(name, self._measure(device, program))
        finally:
            device.close()
        write_atomically(path, (json.dumps({"of": known, "counters": counters}, indent=1) + "\n").encode())
        return counters

    def _reconciled(self, name, counters):
        """The counters; raises RuntimeError if they don't account for all cycles."""
        if not reconciles(counters):
            causes = {cause: counters[cause] for cause in ("array_cycles", *STALLS)}
            raise RuntimeError(f"{name}: {causes} are {sum(causes.values())} in all, not {counters['cycles']} cycles")
        return counters

    def _open(self, network, module, config):
        """A simulated accelerator with random weights, activations and gradients in its memory."""
        device = SimDevice(config, top=self.top)
        network.load_state(device, module.state_dict())
        rng = np.random.default_rng(SEED)
        network.write_input(device, rng.random((network.batch, *network.input_shape)))
        for tensor in network.tensors.values():
            if part_of(tensor.name) in ("output", "gradient", "weight_gradient"):
                device.write(tensor.address, rng.integers(-999, 1000, tensor.shape).astype(tensor.dtype))
        return device

    def _measure(self, device, program):
        """Run a program once: its counters, and what the DRAM model saw meanwhile."""
        task = self.progress.add_task("cycles", total=None)
        base = device.simulation.cycles
        device.progress = lambda _: self.progress.update(task, completed=(device.simulation.cycles - base) // 1000)
        device.write(program.address, program.words())
        device.reset_counters()
        before = device.simulation.dram_totals
        device.start(program, WARMUP)
        device.wait()
        if any(line.command.opcode == Opcode.HOST for line in program):
            device.resume()
            device.wait()
        after, counters = device.simulation.dram_totals, device.counters(WARMUP)
        self.progress.remove_task(task)
        names = ("read_bytes", "write_bytes", "read_beats", "write_beats")
        dram = {f"dram_{name}": getattr(after, name) - getattr(before, name) for name in names}
        return {**counters, **dram}
