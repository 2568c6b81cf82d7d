"""Programs of random compute commands, and golden and simulated RTL compared over them."""

import contextlib
import random
from dataclasses import replace

import numpy as np
import pytest
from adagp.host.devices.device import DeviceError
from adagp.host.devices.golden import GoldenDevice
from adagp.host.devices.simulated import SimDevice
from adagp.host.program import Line, Program, header
from adagp.sim import IDEAL
from adagp.spec.commands import Command, Opcode, Phase
from adagp.spec.config import SWITCHES
from adagp.spec.opcodes import DEPTHWISE, GEMMS
from adagp.spec.operands import operands, outputs
from adagp.spec.presets import preset
from adagp.spec.registers import Status
from dropped_elements import number
from layers import LAYERS, random_layer

__all__ = [
    "DESIGNS", "DRAWS", "FEW", "MEMORY", "PROGRAM", "SEEDS", "MadeProgram", "RandomProgram", "drawn",
    "drawn_commands", "is_refused", "same_bits",
]  # fmt: skip

PROGRAM, MEMORY = 1 << 19, 1 << 20
_FIELDS = (
    "n", "c", "h", "w", "q", "r", "s", "stride", "pad_y", "pad_x", "oh", "ow", "nb", "yb", "cb", "qb",
    "x_pitch", "y_pitch", "c_pitch", "d_pitch", "bias", "swap", "relu", "track", "out_outer", "c_mode",
    "const_mantissa", "const_exponent", "bound_mantissa", "bound_exponent", "slope", "momentum", "layer",
)  # fmt: skip


class MadeProgram:
    """Commands, the operands in memory by address, and exponents by number of tensor; ``address`` is the first free."""

    def __init__(self, config, draw):
        self.config, self.draw, self.address = config, draw, 0
        self.commands, self.data, self.exponents = [], {}, {}
        self.seed = self.batch = 0  # of dropout

    def run(self, device, calibrate, batches=1):
        """Run the program on a device: memory, exponents and counters after it."""
        ends = [Command(opcode, {"phase_mask": int(Phase.ALL)}) for opcode in (Opcode.COMMIT, Opcode.END)]
        program = Program([Line(c) for c in (header(self.config), *self.commands, *ends)], PROGRAM)
        device.write(PROGRAM, program.words())
        for address, values in self.data.items():
            device.write(address, values)
        for tensor, exponent in self.exponents.items():
            device.set_exponents(tensor, exponent)
        device.set_regions([(0, PROGRAM)])
        device.set_seed(self.seed)
        device.set_batch(self.batch)
        device.start(program, 0, batches=batches, calibrate=calibrate)
        assert device.wait() == Status.DONE
        counters = device.counters(0)
        return (
            device.read(0, self.address), [device.exponents(tensor) for tensor in self.exponents],
            {name: counters[name] for name in ("macs", "saturations", "commands")},
        )  # fmt: skip

    def where(self, byte):
        """The tensor that a byte of memory lies in, with the commands that write it, as a hint."""
        start = max((address for address in self.data if address <= byte), default=0)
        return f"{start:#x}+{byte - start}: " + str([
            c.opcode.name for c in self.commands if start in (c.out_addr, c.c_addr)
        ])  # fmt: skip


class RandomProgram(MadeProgram):
    """Random layers one after the other; each reads its operands from a place of its own."""

    def __init__(self, config, draw):
        super().__init__(config, draw)
        self.seed, self.batch, self.results = draw.getrandbits(32), draw.getrandbits(32), []

    def add(self, opcode):
        """A command with random fields, operands and exponents."""
        modes = 5 if self.config.predicts else 3
        layer = random_layer(self.config, self.draw, opcode, limit=1000, c_mode=self.draw.randrange(modes))
        t, index = layer.task, len(self.commands)
        fields = {name: getattr(t, name) for name in _FIELDS}
        if t.opcode == Opcode.AVGPOOL and t.momentum and index % 2:  # about the number of its first result
            first = number(0, 0, t.layer, self.seed, self.batch)
            fields["momentum"] = min(max(1, first + index // 2 % 2), 0xFFFF)
        for place, name in enumerate(("a", "b", "c", "out")):
            fields[f"{name}_id"] = tensor = 4 * index + place + 1
            self.exponents[tensor] = getattr(t, f"exp_{name}")
        for name, operand in operands(Command(opcode, fields), self.config).items():
            fields[f"{name}_addr"] = self.address
            if name in outputs(Command(opcode, fields)):
                self.results.append((self.address, operand.n_bytes))
            else:
                values = layer.operands[getattr(t, f"{name}_addr")]
                self.data[self.address] = values.astype(f"<i{self.config.operand_bytes}")
            self.address += -(-operand.n_bytes // 64) * 64 + 64
        fields["wait_main"] = self.draw.randint(0, index)
        self.commands.append(Command(opcode, {"phase_mask": int(Phase.ALL), **fields}))


EVERYTHING = replace(preset("tiny"), **dict.fromkeys(SWITCHES, True), n_tensors=512, n_filters=512)
DESIGNS = {
    "baseline": EVERYTHING,
    "low": replace(EVERYTHING, name="wide", rows=6, cols=5, port_width=128, update_cycles=3, variant="low"),
    "efficient": replace(
        EVERYTHING,
        name="narrow",
        rows=3,
        cols=6,
        acc_width=56,
        epilogue_lanes=2,
        output_stationary=True,
        variant="efficient",
    ),
    "max": replace(EVERYTHING, epilogue_lanes=2, streamed_predictions=True, variant="max"),
}
"""A design of each variant with all that the generator's switches build. Two have other shapes: one a folded update,
the other wide sums, which stay in the array, and an epilogue with few lanes."""


FEW = {
    "matmul": replace(preset("tiny"), matmul=True, n_tensors=512),
    "dropout": replace(preset("tiny"), dropout=True, depthwise=True, n_tensors=512, variant="max"),
}
"""Designs with few of the switches, by a name of DRAWS: matrix products alone, dropout and depthwise convolutions."""
SEEDS = range(4)
DRAWS = {
    "clamps": lambda draw: draw.sample([*GEMMS, *LAYERS, *DEPTHWISE], 12),
    "depthwise": lambda draw: draw.sample([*DEPTHWISE * 3, *GEMMS, Opcode.MAXPOOL, Opcode.AVGPOOL], 12),
    "matmul": lambda draw: draw.choices(GEMMS, k=12),
    "dropout": lambda draw: draw.sample([*LAYERS, *[Opcode.AVGPOOL] * 8], 12),
}  # fmt: skip
"""Opcodes of random programs, by the operators that they are to hold most of."""


def drawn(name, design, seed):
    """The random program of a name of DRAWS for a design; ``few`` is that of FEW."""
    draw = random.Random(f"{name} {design} {seed}")
    made = RandomProgram(FEW[name] if design == "few" else DESIGNS[design], draw)
    for opcode in DRAWS[name](draw):
        made.add(opcode)
    return made


def drawn_commands(name):
    """Program and command, for all commands of the random programs of a name."""
    for variant in DESIGNS:
        for seed in SEEDS:
            made = drawn(name, variant, seed)
            yield from ((made, command) for command in made.commands)


def is_refused(config, bad, code):
    """Assert that golden and simulated RTL end with an error's code at a command, and write nothing to ``out_addr``."""
    program, place = Program([Line(header(config)), Line(bad)], 0), bad.out_addr
    for make in (GoldenDevice, SimDevice):
        with contextlib.closing(make(config, memory_bytes=MEMORY)) as device:
            device.write(0, program.words())
            device.write(place, np.full(64, 0x55, np.uint8))
            device.set_regions([(0, MEMORY)])
            device.start(program, 0)
            with pytest.raises(DeviceError) as failed:
                device.wait()
            assert (failed.value.code, failed.value.index) == (code, 1)
            assert (device.read(place, 64) == 0x55).all()


def same_bits(made, seed):
    """Compare golden and simulated RTL over a program, and return golden's counters.

    Memory is ideal with seed 0, else it stalls at random; with seed 2 there are two batches, with seed 3 the run
    calibrates.
    """
    print(f"seed {seed}")
    memory = {"part": IDEAL} if seed == 0 else {"stall": 0.3, "seed": seed}
    how = {"calibrate": seed == 3, "batches": 2 if seed == 2 else 1}
    expected = made.run(GoldenDevice(made.config, MEMORY), **how)
    with contextlib.closing(SimDevice(made.config, memory_bytes=MEMORY, limit=10_000_000, **memory)) as device:
        found = made.run(device, **how)
    wrong = np.flatnonzero(found[0] != expected[0])
    assert wrong.size == 0, f"{wrong.size} bytes differ, the first in {made.where(wrong[0])}"
    assert found[1:] == expected[1:]
    assert expected[2]["commands"] == how["batches"] * (len(made.commands) + 3) > 3  # header, COMMIT, END
    return expected[2]
