"""Programs to disturb, with what memory holds after each of their commands, by the golden model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import torch
from adagp.host.assembler import Line, Program
from adagp.host.dependencies import with_waits
from adagp.host.device import Device
from adagp.host.golden_device import GoldenDevice
from adagp.host.network import Network
from adagp.spec.commands import CMode, Command, Opcode
from adagp.spec.presets import preset
from adagp.spec.registers import Status
from torch import nn

from .spans import Span, compute_spans, update_spans

__all__ = ["CONFIG", "MEMORY", "WORKLOADS", "Work", "Workload", "work_of", "workload"]

CONFIG = preset("tiny")
MEMORY = 1 << 16
SEED = 11
CLASSES = 3
WARMUP, EVALUATE = 0, 3
GEMMS = (Opcode.FORWARD, Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT)
EXACT = ("macs", "saturations", "commands")
"""Counters that don't depend on time."""


@dataclass(frozen=True)
class Work:
    """A compute or UPDATE command as it is executed once: its bursts in order, and all memory after it.

    ``place``: batch and index in the program. ``dry``: the first of the two times in calibration.
    """

    place: tuple[int, int]
    command: Command
    dry: bool
    reads: list[Span]
    writes: list[Span]
    after: np.ndarray

    @property
    def update(self) -> bool:
        return self.command.opcode == Opcode.UPDATE


@dataclass
class Workload:
    """A network's program, run in ``phase`` for ``batches`` from a known state.

    ``image``, ``exponents``: memory and exponents before; ``final``, ``final_exponents``, ``counters``: after.
    ``works``: compute and UPDATE commands in the order of the program.
    """

    network: Network
    phase: int
    calibrate: bool
    batches: int
    loss_gradient: np.ndarray
    image: np.ndarray
    exponents: dict[int, tuple[int, int | None]]
    works: list[Work] = field(default_factory=list)
    final: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    final_exponents: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        return self.network.program

    def prepare(self, device: Device, memory: np.ndarray) -> None:
        """Everything as it was before the program; ``memory`` is the device's."""
        self.network.install(device)
        memory[:] = self.image
        for number, exponents in self.exponents.items():
            device.set_exponents(number, *exponents)
        self.network.set_hyper(device, 0.07, 0.9, 0.002)
        device.reset_counters()

    def start(self, device: Device) -> None:
        self.network.start(device, self.phase, batches=self.batches, calibrate=self.calibrate)

    def at_host(self, device: Device) -> None:
        """What the host does at HOST."""
        self.network.write_loss_gradient(device, self.loss_gradient)
        device.resume()

    def run(self, device: Device) -> None:
        """From start to end; raises DeviceError."""
        self.start(device)
        while device.wait() & Status.HOST:
            self.at_host(device)

    def check_final(self, device: Device, memory: np.ndarray) -> None:
        """Assert that memory, exponents and counters are those after the program."""
        assert (place := self.difference(self.final, memory)) is None, f"final memory differs in {place}"
        found = {number: device.exponents(number) for number in self.exponents}
        assert found == self.final_exponents, f"final exponents {found}, not {self.final_exponents}"
        counters = {name: device.counters(self.phase)[name] for name in EXACT}
        assert counters == self.counters, f"counters {counters}, not {self.counters}"

    def difference(self, expected: np.ndarray, found: np.ndarray) -> str | None:
        """The first byte that differs and the tensor it belongs to."""
        if np.array_equal(expected, found):
            return None
        byte = int(np.argmax(expected != found))
        names = [name for name, t in self.network.tensors.items() if t.address <= byte < t.address + t.n_bytes]
        return f"byte 0x{byte:x} ({', '.join(names) or 'no tensor'}): {found[byte]:02x}, not {expected[byte]:02x}"


def _record(load: Workload, golden: GoldenDevice) -> None:
    """Run on the golden model, noting every command's bursts and the memory after it."""
    machine, config = golden.machine, golden.config
    batch, ring = 0, 0

    def note(index, command):
        nonlocal batch, ring
        if command.opcode == Opcode.END:
            batch, ring = batch + 1, (ring + 1) % load.network.ring_entries
        if not Opcode.FORWARD <= command.opcode <= Opcode.UPDATE:
            return
        base = load.network.tensors["input"].address + ring * load.network.compiled.entry_bytes
        a_base = command.a_addr + base * command.ring
        for dry in (True, False)[not load.calibrate :]:
            if command.opcode == Opcode.UPDATE:
                spans = update_spans(command, dry, config)
            else:
                spans = compute_spans(command, a_base, dry, config)
            load.works.append(Work((batch, index), command, dry, *spans, machine.memory.copy()))

    machine.on_command = note
    load.run(golden)
    load.final = machine.memory.copy()
    load.final_exponents = {number: golden.exponents(number) for number in load.exponents}
    load.counters = {name: golden.counters(load.phase)[name] for name in EXACT}


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


WORKLOADS: dict[str, tuple[Callable[[], tuple[Network, dict]], int, bool, int, int]] = {
    "blocks": (_blocks, WARMUP, False, 1, 4),
    "pools": (_pools, WARMUP, False, 1, 4),
    "batches": (_pools, WARMUP, False, 2, 1),
    "calibration": (_blocks, WARMUP, True, 1, 1),
    "evaluation": (_pools, EVALUATE, False, 1, 1),
}
"""Network, phase, calibration, batches, and how often it is to be used."""


@cache
def workload(name: str) -> Workload:
    """The workload called ``name``, after one batch that calibrated it; made once in each process."""
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    build, phase, calibrate, batches, _ = WORKLOADS[name]
    network, state = build()
    golden = GoldenDevice(CONFIG, MEMORY)
    network.load_state(golden, state)
    network.set_hyper(golden, 0.07, 0.9, 0.002)
    gradient = rng.uniform(-0.3, 0.3, (network.batch, CLASSES))
    load = Workload(network, WARMUP, True, 1, gradient, np.zeros(0, np.uint8), {})
    for entry in range(network.ring_entries):
        network.write_input(golden, rng.uniform(-1, 1, (network.batch, *network.input_shape)), entry)
    load.run(golden)
    numbers = sorted({tensor.number for tensor in network.tensors.values() if tensor.number >= 0})
    memory = golden.machine.memory
    memory[network.compiled.plan.n_bytes :] = rng.integers(0, 256, MEMORY - network.compiled.plan.n_bytes)
    load.phase, load.calibrate, load.batches = phase, calibrate, batches
    load.image, load.exponents = memory.copy(), {number: golden.exponents(number) for number in numbers}
    load.prepare(golden, memory)
    _record(load, golden)
    return load


def work_of(works: Sequence[Work], bursts: np.ndarray) -> np.ndarray:
    """For each burst that was seen (parts.BURST) the number of the work it belongs to, -1 for command fetch.

    Asserts that each client's bursts are the first of those expected of it, in their order.
    """
    owner = np.full(len(bursts), -1)
    for write, client, update in ((0, 1, False), (0, 2, True), (1, 0, False), (1, 1, True)):
        mine = np.flatnonzero((bursts["write"] == write) & (bursts["id"] == client))
        expected = [
            (number, span.address, span.beats)
            for number, work in enumerate(works) if work.update == update
            for span in (work.writes if write else work.reads)
        ]  # fmt: skip
        name = f"{'write' if write else 'read'} client {client}"
        assert len(mine) <= len(expected), f"{name} made {len(mine)} bursts, all commands together {len(expected)}"
        found = np.stack([bursts["addr"][mine], bursts["beats"][mine]], axis=1)
        table = np.array(expected[: len(mine)], int).reshape(-1, 3)
        same = (found == table[:, 1:]).all(axis=1)
        assert same.all(), f"{name}: burst {np.argmin(same)} is {found[np.argmin(same)]}, not {table[np.argmin(same)]}"
        owner[mine] = table[:, 0]
    return owner
