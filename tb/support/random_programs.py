"""Programs of random compute commands, each with operands and tensors of its own, and what a device makes of them."""

from adagp.host.program import Line, Program, header
from adagp.spec.commands import Command, Opcode, Phase
from adagp.spec.operands import operands, outputs
from adagp.spec.registers import Status
from layers import random_layer

__all__ = ["MEMORY", "RandomProgram"]

PROGRAM, MEMORY = 1 << 19, 1 << 20
_FIELDS = (
    "n", "c", "h", "w", "q", "r", "s", "stride", "pad_y", "pad_x", "oh", "ow", "nb", "yb", "cb", "qb",
    "x_pitch", "y_pitch", "c_pitch", "d_pitch", "bias", "swap", "relu", "track", "out_outer", "c_mode",
    "const_mantissa", "const_exponent", "bound_mantissa", "bound_exponent", "slope",
)  # fmt: skip


class RandomProgram:
    """Random layers one after the other; each reads its operands from a place of its own."""

    def __init__(self, config, draw):
        self.config, self.draw, self.address = config, draw, 0
        self.commands, self.data, self.exponents, self.results = [], {}, {}, []

    def add(self, opcode):
        """A command with random fields, operands and exponents."""
        modes = 5 if self.config.predicts else 3
        layer = random_layer(self.config, self.draw, opcode, limit=1000, c_mode=self.draw.randrange(modes))
        t, index = layer.task, len(self.commands)
        fields = {name: getattr(t, name) for name in _FIELDS}
        for place, name in enumerate(("a", "b", "c", "out")):
            fields[f"{name}_id"] = number = 4 * index + place + 1
            self.exponents[number] = getattr(t, f"exp_{name}")
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

    def run(self, device, calibrate):
        """What a device makes of it: results, exponents, counters."""
        ends = [Command(opcode, {"phase_mask": int(Phase.ALL)}) for opcode in (Opcode.COMMIT, Opcode.END)]
        program = Program([Line(c) for c in (header(self.config), *self.commands, *ends)], PROGRAM)
        device.write(PROGRAM, program.words())
        for address, values in self.data.items():
            device.write(address, values)
        for number, exponent in self.exponents.items():
            device.set_exponents(number, exponent)
        device.set_regions([(0, PROGRAM)])
        device.start(program, 0, calibrate=calibrate)
        assert device.wait() == Status.DONE
        counters = device.counters(0)
        return (
            device.read(0, self.address), [device.exponents(number) for number in self.exponents],
            {name: counters[name] for name in ("macs", "saturations", "commands")},
        )  # fmt: skip
