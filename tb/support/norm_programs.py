"""Programs of batch norms with random shapes, tiles and epilogues, between commands of other kinds."""

import numpy as np
from adagp.host.compiler.norm_state import evaluation_constants, import_states, norm_constants
from adagp.spec.commands import CMode, Command, Opcode, Phase
from adagp.spec.norm import BACKWARD_ROW, FORWARD_ROW, GRADIENT_PLANES, SUMS_ROW, planes
from adagp.spec.opcodes import DEPTHWISE, WITH_FILTERS
from adagp.spec.operands import filter_channels
from layers import random_layer
from random_programs import MadeProgram

__all__ = ["NormProgram", "norm_program"]

SHAPE = (
    "n", "c", "h", "w", "q", "r", "s", "stride", "pad_y", "pad_x", "oh", "ow", "nb", "yb", "cb", "qb", "x_pitch",
    "y_pitch", "bias", "swap", "relu", "out_outer",
)  # fmt: skip


class NormProgram(MadeProgram):
    """A program of batch norms with their operands in memory."""

    def __init__(self, config, draw):
        super().__init__(config, draw)
        self.numbers = 1

    def tensor(self, values, exponent=None):
        """Address and number of a tensor, whose values may be missing."""
        address, number = self.address, self.numbers
        self.data[address] = np.asarray(values).astype("<i2").ravel()
        self.exponents[number] = self.draw.randint(-20, 5) if exponent is None else exponent
        self.address += -(-self.data[address].nbytes // 64) * 64 + 64
        self.numbers += 1
        return address, number

    def spread(self, pixels, channels, pitch, make):
        """Pixels that lie ``pitch`` apart, with something else in between."""
        values = np.random.default_rng(self.draw.getrandbits(32))
        pitch = pitch or channels
        rows = np.full((pixels, pitch), 99)
        rows[:, :channels] = make(values, (pixels, channels))
        return rows

    def add(self, opcode, wait=None, **fields):
        count = len(self.commands)
        fields["wait_main"] = count if wait is None else min(count, wait)
        self.commands.append(Command(opcode, {"phase_mask": int(Phase.ALL), **fields}))

    def other(self):
        """A command of another kind."""
        opcodes = [Opcode.FORWARD, Opcode.MAXPOOL, Opcode.BACKWARD_WEIGHT, *DEPTHWISE[:1] * self.config.depthwise]
        opcode = self.draw.choice(opcodes)
        t = random_layer(self.config, self.draw, opcode, limit=300, c_mode=0, bias=1).task
        fields = {name: getattr(t, name) for name in SHAPE}
        x, y = t.n * t.h * t.w * max(t.c, t.x_pitch), t.n * t.oh * t.ow * max(t.q, t.y_pitch)
        filters = t.q * (t.r * t.s * filter_channels(opcode, t.c) + 1)
        sizes = {"a": x, "b": filters if opcode in WITH_FILTERS else y}
        sizes["out"] = filters if opcode == Opcode.BACKWARD_WEIGHT else y
        for name, size in sizes.items():
            values = np.random.default_rng(self.draw.getrandbits(32)).integers(-3000, 3000, size)
            fields[f"{name}_addr"], fields[f"{name}_id"] = self.tensor(values)
        self.add(opcode, self.draw.randrange(9), **fields, track=1)

    def norm(self, channels=None, evaluate=False):
        """A batch norm, forward and backward, or evaluated."""
        draw = self.draw
        c = channels or draw.randint(1, 19)
        n, h, w = draw.choice([(2, 3, 4), (4, 1, 1), (1, 7, 3), (3, 2, 5), (2, 1, 1), (1, 1, 16)])
        pixels, values = n * h * w, n * h * w
        shape = {"n": n, "c": c, "h": h, "w": w, "oh": h, "ow": w, "q": c, "r": 1, "s": 1, "stride": 1}
        x_pitch, y_pitch = (draw.choice([0, 0, c, c + draw.randint(1, 3)]) for _ in range(2))

        def tile(**more):
            sizes = {"nb": n, "yb": h, "cb": c, "qb": c}
            return shape | {name: draw.randint(1, size + 1) for name, size in sizes.items()} | more

        def track():
            return {"track": int(draw.random() < 0.8)}

        def near(rng, size):
            scale = 2.0 ** rng.uniform(0, 14, c)
            mean = rng.uniform(-1, 1, c) * (2**14 - scale)
            return np.clip(rng.standard_normal(size) * scale + mean, -32767, 32767).round()

        x, x_id = self.tensor(self.spread(pixels, c, x_pitch, near))
        g, g_id = self.tensor(self.spread(pixels, c, y_pitch, near))
        weights = np.random.default_rng(draw.getrandbits(32)).integers(-32767, 32767, (2, c))
        weights[:, :: draw.randint(1, 4)] //= draw.choice([1, 300, 40000])
        b, w_id = self.tensor(weights, draw.randint(-16, -12))
        rng = np.random.default_rng(draw.getrandbits(32))
        states, _ = self.tensor(import_states(rng.standard_normal(c), rng.uniform(0, 3, c) * rng.integers(0, 2, c)))
        sums, _ = self.tensor(np.full((planes(SUMS_ROW), c), 5))
        rows, _ = self.tensor(np.full((planes(FORWARD_ROW), c), 5))
        back, dw_id = self.tensor(np.full((GRADIENT_PLANES + planes(BACKWARD_ROW), c), 5))
        y, y_id = self.tensor(self.spread(pixels, c, y_pitch, near), draw.randint(-15, -10))
        dx, dx_id = self.tensor(self.spread(pixels, c, x_pitch, near), draw.randint(-20, 5))
        constants = evaluation_constants(1e-5) if evaluate else norm_constants(values, 1e-5, draw.uniform(0.01, 0.9))
        numbers = {
            "const_mantissa": constants.epsilon.mantissa, "const_exponent": constants.epsilon.exponent,
            "momentum": constants.momentum, "unbiased_mantissa": constants.unbiased.mantissa,
            "unbiased_exponent": constants.unbiased.exponent,
        }  # fmt: skip
        pitches = {"x_pitch": x_pitch, "y_pitch": y_pitch}
        parameters = {"b_addr": b, "b_id": w_id, "c_addr": states, "out_addr": rows}
        if evaluate:
            self.add(Opcode.NORM_RUNNING, **tile(), a_id=x_id, **parameters, **numbers)
        else:
            self.add(Opcode.NORM_SUMS, **tile(), a_addr=x, b_addr=x, out_addr=sums, x_pitch=x_pitch, y_pitch=x_pitch)
            self.add(Opcode.NORM_CONSTANTS, **tile(), a_id=x_id, e_addr=sums, **parameters, **numbers)
        self.add(
            Opcode.NORM_APPLY, **tile(relu=draw.randrange(2)), **pitches, a_addr=x, a_id=x_id, b_id=w_id, e_addr=rows,
            out_addr=y, out_id=y_id, **track(), **self.added(g, g_id, y_pitch),
        )  # fmt: skip
        if draw.random() < 0.5:
            self.other()
        if evaluate:
            return
        self.add(Opcode.NORM_SUMS, **tile(), **pitches, a_addr=x, b_addr=g, out_addr=sums)
        self.add(
            Opcode.NORM_BACKWARD, **tile(), a_id=g_id, b_addr=rows, b_id=x_id, e_addr=sums, out_addr=back,
            out_id=dw_id, **track(),
        )  # fmt: skip
        self.add(
            Opcode.NORM_APPLY_BACKWARD, **tile(), **pitches, a_addr=g, a_id=g_id, b_addr=x, b_id=x_id,
            e_addr=back + 2 * GRADIENT_PLANES * c, out_addr=dx, out_id=dx_id, **track(), **self.added(x, x_id, x_pitch),
        )  # fmt: skip

    def added(self, address, number, pitch):
        """Operands C and D: the same tensor, at its own pitch."""
        mode = self.draw.choice([CMode.NONE, CMode.MASK, CMode.ADD, CMode.ADD_MASK])
        if mode == CMode.NONE:
            return {}
        return {
            "c_mode": mode, "c_addr": address, "d_addr": address, "c_id": number, "d_id": number,
            "c_pitch": pitch, "d_pitch": pitch,
        }  # fmt: skip


def norm_program(config, draw):
    """Several batch norms, between commands of the array and of pools."""
    maker = NormProgram(config, draw)
    while maker.numbers < 40:
        maker.norm(evaluate=draw.random() < 0.3)
    return maker
