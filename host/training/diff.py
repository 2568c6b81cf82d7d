"""The first difference between two devices: the command whose result differs, and the element."""

from dataclasses import dataclass

import numpy as np

from ...spec.commands import Command, Opcode, Phase
from ...spec.phases import BP, GP, WARMUP
from ...spec.registers import Status
from ..compiler.tensors import Tensor, part_of
from ..devices.device import Device
from ..islands.runtime import Moment
from ..program import Line, Program
from .loss import softmax_cross_entropy
from .network import Network

__all__ = ["Difference", "compare"]


@dataclass(frozen=True)
class Difference:
    """A command of a batch, counted from 0, after which two devices differ, with the first element that does.

    ``element`` is empty if an exponent differs.
    """

    batch: int
    command: int
    line: str
    tensor: str
    element: tuple[int, ...]
    reference: int
    other: int

    def __str__(self) -> str:
        place = f"[{', '.join(map(str, self.element))}]" if self.element else ""
        return f"{self.line}\n{self.tensor}{place} is {self.other}, the reference has {self.reference}"


def _phases(network: Network) -> tuple[int, ...]:
    """Phases of the batches. The first one calibrates, command by command; only after it do commands overlap."""
    return (WARMUP, WARMUP, BP, GP) if network.compiled.source.has_gp else (WARMUP, WARMUP)


def _program(network: Network, batch: int) -> Program:
    """The program of a batch; the first one calibrates."""
    return network.program if batch else network.compiled.calibrating


def _run_prefix(network: Network, device: Device, state, seed: int, batch: int, length: int) -> None:
    """Load initial weights, then train up to the first ``length`` commands of a batch."""
    end = Line(Command(Opcode.END, {"phase_mask": int(Phase.ALL)}))
    whole = _program(network, batch)
    prefix = Program([*whole.lines[:length], end], whole.address)
    network.load_state(device, state, seed)
    network.set_hyper(device, 0.05, 0.9, 5e-4)
    if network.compiled.source.has_gp:
        network.set_adam(device, 1e-3)
    rng, phases = np.random.default_rng(seed), _phases(network)
    for before in range(batch):
        _run_batch(network, device, _program(network, before), rng, phases[before], Moment(seed, 0, before))
    for tensor in network.tensors.values():
        if part_of(tensor.name) in ("output", "index", "gradient"):
            device.write(tensor.address, np.zeros(tensor.n_bytes, np.uint8))
    _run_batch(network, device, prefix, rng, phases[batch], Moment(seed, 0, batch))


def _run_batch(network: Network, device: Device, program: Program, rng, phase: int, moment: Moment) -> None:
    """Run a batch, or the begin of one; the first one calibrates."""
    calibrate = not moment.batch
    device.write(program.address, program.words())
    network.write_input(device, rng.random((network.batch, *network.input_shape)))
    network.begin(device, [phase], moment, whole=False, calibrate=calibrate)
    device.start(program, phase, 1, calibrate)
    status = network.wait(device)
    while status & Status.HOST:
        logits_NK = network.read_logits(device)
        labels_N = rng.integers(0, logits_NK.shape[1], len(logits_NK))
        network.write_loss_gradient(device, softmax_cross_entropy(logits_NK, labels_N)[1])
        device.resume()
        status = network.wait(device)


def _contents(network: Network, device: Device) -> dict[str, np.ndarray]:
    """Read all tensors; the predictor's weights may be on chip and come from a snapshot."""
    kept = network.gradient_state.snapshot(device)
    return {
        name: kept[name] if name in kept else network.read(device, name)
        for name, tensor in network.tensors.items() if tensor.address
    }  # fmt: skip


def _entry(network: Network, device: Device, tensor: Tensor) -> dict[str, int | None]:
    """A tensor's entry in the table of exponents, by name."""
    if tensor.number < 0:
        return {}
    names, get = ("exponent", "next exponent"), device.exponents
    if tensor.name in network.compiled.source.scales:
        names, get = ("exponent", "fraction"), device.scale
    return dict(zip(names, get(tensor.number), strict=True))


def _first_difference(network: Network, reference: Device, other: Device) -> tuple | None:
    expected_of, found_of = (_contents(network, device) for device in (reference, other))
    for name, tensor in network.tensors.items():
        if name in expected_of:
            expected, found = expected_of[name], found_of[name]
            if not np.array_equal(expected, found):
                element = tuple(int(i) for i in np.argwhere(expected != found)[0])
                return name, element, int(expected[element]), int(found[element])
        one, another = (_entry(network, device, tensor) for device in (reference, other))
        for kind in one:
            if one[kind] != another[kind]:
                return f"{kind} of {name}", (), one[kind], another[kind]
    return None


def compare(network: Network, reference: Device, other: Device, state, seed: int) -> Difference | None:
    """Train two batches on both devices, and with a source of gradients one more of BP and one of GP.

    Returns None if every tensor and exponent agrees after each batch. Otherwise prefixes of the batch that differs
    are run, by bisection, until the command is found.
    """

    def differs(batch: int, length: int) -> tuple | None:
        for device in (reference, other):
            _run_prefix(network, device, state, seed, batch, length)
        return _first_difference(network, reference, other)

    for batch in range(len(_phases(network))):
        program = _program(network, batch)
        low, high = 1, len(program) - 1  # prefixes known to agree, and to differ
        found = differs(batch, high)
        while found is not None and high - low > 1:
            middle = (low + high) // 2
            result = differs(batch, middle)
            if result is None:
                low = middle
            else:
                high, found = middle, result
        if found is not None:
            return Difference(batch, high - 1, program.describe(high - 1).strip(), *found)
    return None
