"""Commands drawn from networks' batches by strata, kept in a file, and run alone on the estimator or the simulated RTL.

A command's cycles don't depend on its data, but for batch norm's constants. So a sample needs no network: its operands
are random numbers, and batch norm's tables are those of random numbers.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...gen.files import write_atomically
from ...host.devices.device import Device
from ...host.devices.estimator import EstimatorDevice
from ...host.program import Line, Program, header
from ...host.training.hyper_parameters import set_adam, set_sgd
from ...host.training.network import Network
from ...spec.commands import FIELDS, CMode, Command, Opcode, Phase
from ...spec.config import Config
from ...spec.opcodes import COMPUTE, DEPTHWISE, GEMMS, NORMS, UPDATES
from ...spec.operands import WAITS, operands
from ...spec.phases import WARMUP
from .estimates import PREDICTOR_RATE, RATES
from .norm_samples import norm_exponents, norm_operands

__all__ = [
    "Sample", "estimated_alone", "filled", "needs_switches", "program_of", "read_samples", "sampled", "stratum",
    "write_samples",
]  # fmt: skip

LARGEST = 999
"""Magnitude of the operands' numbers."""
AROUND = ("0.", "2.", "3.")
"""Names of the small layers around a drawn one begin so."""


@dataclass(frozen=True)
class Sample:
    """A command of a network's layer in a design; ``fields`` are those that aren't 0.

    ``program``: address of a program that runs it; ``window``: that of the predictor memory, 0 for none.
    """

    variant: str
    network: str
    layer: str
    program: int
    window: int
    opcode: str
    fields: dict[str, int]

    @property
    def command(self) -> Command:
        """The command, which waits for nothing and runs in all phases."""
        return Command(Opcode[self.opcode], self.fields)

    @property
    def name(self) -> str:
        """A name that no other sample has."""
        return f"{self.network}-{self.layer or 'network'}-{self.opcode.lower()}-{self.fields.get('out_addr', 0):x}"


def _uses(command: Command) -> list[str]:
    """The uses that a command makes of the generator's switches beside its opcode."""
    product = command.opcode in GEMMS and command.d_pitch and command.c_mode != CMode.ADD_MASK
    drops = command.opcode == Opcode.AVGPOOL and command.momentum
    uses = {"bounded": command.bound_mantissa, "sloped": command.slope, "product": product, "dropping": drops}
    return [name for name, used in uses.items() if used]


def needs_switches(command: Command) -> bool:
    """True if only the generator's switches build what runs a command."""
    return command.opcode in (*NORMS, *DEPTHWISE) or bool(_uses(command))


def stratum(command: Command) -> str:
    """The kind of a command, by which commands are drawn."""
    words = [*["predictor"] * bool(command.predictor), *["strided"] * (command.stride > 1), *_uses(command)]
    return " ".join([*words, command.opcode.name.lower()])


def program_of(sample: Sample, config: Config) -> Program:
    """A program of a sample's command alone."""
    end = Line(Command(Opcode.END, {"phase_mask": int(Phase.ALL)}))
    return Program([Line(header(config)), Line(sample.command, sample.layer), end], sample.program)


def estimated_alone(sample: Sample, config: Config) -> dict[str, int]:
    """The estimated counters of a sample."""
    device = EstimatorDevice(config)
    device.set_predictor_window(sample.window)
    device.start(program_of(sample, config), WARMUP)
    device.wait()
    return device.counters(WARMUP)


def filled(device: Device, sample: Sample, seed: int) -> None:
    """Give a sample's operands random numbers, and the device its window and the rates of training.

    ADAM takes as long as its rate says.
    """
    draw = np.random.default_rng(seed)
    device.set_predictor_window(sample.window)
    set_sgd(device, *RATES.values())
    if device.config.predicts:
        set_adam(device, PREDICTOR_RATE)
    device.set_regions([(0, device.config.dram.capacity_bytes)])  # where it may write
    command = sample.command
    places = operands(command, device.config)
    for operand in places.values():
        device.write(operand.address, draw.integers(-LARGEST, LARGEST + 1, operand.n_bytes // 2).astype(np.int16))
    if command.opcode in NORMS:
        for name, table in norm_operands(command, draw).items():
            device.write(places[name].address, table)
        for tensor, exponent in norm_exponents(command).items():
            device.set_exponents(tensor, exponent)


def sampled(
    of: tuple[str, str], network: Network, many: int, seen: Counter[str], seed: int, fits: Callable[[Sample], bool]
) -> Iterable[Sample]:
    """Up to ``many`` commands of a program, each of another stratum, first of those least often ``seen``.

    ``of``: the network and layer that the program is of, its second layer; commands of the small ones around it aren't
    drawn. ``seen`` counts what is drawn; only samples that ``fits`` are.
    """
    draw = random.Random(f"{seed} {of} {network.config.variant}")
    window = network.compiled.window.start if network.config.predicts else 0
    strata: dict[str, list[Line]] = defaultdict(list)
    for line in network.program:
        used = line.command.opcode in COMPUTE or line.command.opcode in UPDATES
        if used and not line.name.startswith(AROUND):
            strata[stratum(line.command)].append(line)
    found = 0
    for kind in sorted(strata, key=lambda each: (seen[each], draw.random())):
        draw.shuffle(strata[kind])
        for line in strata[kind]:
            fields = {**line.command.fields, **dict.fromkeys(WAITS, 0), "phase_mask": int(Phase.ALL)}
            kept = {field.name: int(fields[field.name]) for field in FIELDS if fields.get(field.name)}
            sample = Sample(network.config.variant, *of, network.program.address, window,
                            line.command.opcode.name, kept)  # fmt: skip
            if found < many and fits(sample):
                seen[kind] += 1
                found += 1
                yield sample
                break


def write_samples(path: Path, samples: Iterable[Sample], config: Config, about: dict[str, Any]) -> None:
    """Write samples of a design to a file, one a line, with what ``about`` says of their origin."""
    lines = ",\n".join(f"  {json.dumps(asdict(sample))}" for sample in samples)
    head = json.dumps({**about, "config_hash": f"{config.config_hash:08x}"})
    write_atomically(path, f'{{\n "of": {head},\n "samples": [\n{lines}\n ]\n}}\n'.encode())


def read_samples(path: Path, config: Config) -> list[Sample]:
    """The samples of a file; raises ValueError if they are of another design or command layout."""
    kept = json.loads(path.read_text())
    if kept["of"]["config_hash"] != f"{config.config_hash:08x}":
        raise ValueError(f"the samples of {path.name} are of another design than {config.name}: draw them anew")
    return [Sample(**sample) for sample in kept["samples"]]
