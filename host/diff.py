"""Find where two devices part: the first command whose result differs, and the element."""

from dataclasses import dataclass

import numpy as np

from ..spec.commands import Command, Opcode, Phase
from .assembler import Line, Program
from .device import Device
from .loss import softmax_cross_entropy
from .network import Network

__all__ = ["Difference", "compare"]


@dataclass(frozen=True)
class Difference:
    """The first command, in a batch from 0, after which a tensor differs, and its first element that does."""

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


def _run_prefix(network: Network, device: Device, state, seed: int, batch: int, length: int) -> None:
    """Initial weights, then training up to the first ``length`` commands of a batch: 0, which calibrates, or 1.

    Calibration takes command by command; only in batch 1 do commands overlap.
    """
    end = Line(Command(Opcode.END, {"phase_mask": int(Phase.ALL)}))
    prefix = Program([*network.program.lines[:length], end], network.program.address)
    network.load_state(device, state)
    network.set_hyper(device, 0.05, 0.9, 5e-4)
    rng = np.random.default_rng(seed)
    if batch:
        _run_batch(network, device, network.program, rng, calibrate=True)
    for tensor in network.tensors.values():
        if tensor.name.endswith((".output", ".index", ".gradient")):
            device.write(tensor.address, np.zeros(tensor.n_bytes, np.uint8))
    _run_batch(network, device, prefix, rng, calibrate=not batch)


def _run_batch(network: Network, device: Device, program: Program, rng, calibrate: bool) -> None:
    device.write(program.address, program.words())
    network.write_input(device, rng.random((network.batch, *network.input_shape)))
    device.start(program, 0, 1, calibrate)
    device.wait()
    if any(line.command.opcode == Opcode.HOST for line in program):
        logits_NK = network.read_logits(device)
        labels_N = rng.integers(0, logits_NK.shape[1], network.batch)
        network.write_loss_gradient(device, softmax_cross_entropy(logits_NK, labels_N)[1])
        device.resume()
        device.wait()


def _first_difference(network: Network, reference: Device, other: Device) -> tuple | None:
    for tensor in network.tensors.values():
        expected, found = (network.read(device, tensor.name) for device in (reference, other))
        if not np.array_equal(expected, found):
            element = tuple(int(i) for i in np.argwhere(expected != found)[0])
            return tensor.name, element, int(expected[element]), int(found[element])
        if tensor.number >= 0:
            pair = [device.exponents(tensor.number) for device in (reference, other)]
            for kind, one, another in zip(("exponent", "next exponent"), *pair, strict=True):
                if one != another:
                    return f"{kind} of {tensor.name}", (), one, another
    return None


def compare(network: Network, reference: Device, other: Device, state, seed: int) -> Difference | None:
    """Run two training batches on both; None if every tensor and exponent agrees.

    Otherwise ever longer prefixes of the batch that differs are run, by bisection, until the command is found.
    """

    def differs(batch: int, length: int) -> tuple | None:
        for device in (reference, other):
            _run_prefix(network, device, state, seed, batch, length)
        return _first_difference(network, reference, other)

    for batch in range(2):
        low, high = 1, len(network.program) - 1  # prefixes known to agree, and to differ
        found = differs(batch, high)
        while found is not None and high - low > 1:
            middle = (low + high) // 2
            result = differs(batch, middle)
            if result is None:
                low = middle
            else:
                high, found = middle, result
        if found is not None:
            return Difference(batch, high - 1, network.program.describe(high - 1).strip(), *found)
    return None
