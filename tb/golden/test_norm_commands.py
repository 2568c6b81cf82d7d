"""Sequences of batch norm's commands through the golden machine, against torch's batch_norm in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.golden.program import GoldenMachine
from adagp.golden.validate import validate
from adagp.host.compiler.norm_state import evaluation_constants, export_states, import_states, norm_constants
from adagp.host.compiler.quantise import exponent_for, quantise
from adagp.spec.commands import CMode, Command, Opcode, Phase
from adagp.spec.config import VERSION, ConfigError
from adagp.spec.errors import ErrorCode
from adagp.spec.norm import BACKWARD_ROW, FORWARD_ROW, GRADIENT_PLANES, STATE_ROW, SUMS_ROW, planes
from adagp.spec.opcodes import NORMS
from adagp.spec.presets import preset
from adagp.spec.registers import Status

CONFIG = replace(preset("tiny"), batch_norm=True)
MEMORY, PROGRAM = 1 << 19, 1 << 18
EPSILON, MOMENTUM = 1e-5, round(0.1 * 2**16) / 2**16
TRAIN, EVAL = 1, 3
X, Y, G, W, DX, DW, SKIP = range(1, 8)
"""Numbers of tensors."""


class Layer:
    """A batch norm with a sum after it: tensors, commands, and what torch makes of them."""

    def __init__(self, seed, n, height, width, channels, pitch=0, skip=False, relu=False):
        self.rng = np.random.default_rng(seed)
        self.shape, self.channels, self.pitch = (n, height, width, channels), channels, pitch
        self.skip, self.relu = skip, relu
        self.golden = GoldenMachine(CONFIG, np.zeros(MEMORY, np.uint8))
        self.golden.regions[0] = (0, PROGRAM)
        self.at, self.places, self.values = 0, {}, {}
        sigma, mean = 2.0 ** self.rng.uniform(-3, 3, channels), self.rng.uniform(-2, 2, channels)
        self.put("x", X, sigma * (self.rng.standard_normal(self.shape) + mean), pitch)
        self.put("g", G, self.rng.standard_normal(self.shape))
        self.put("skip", SKIP, self.rng.standard_normal(self.shape))
        self.put("w", W, np.stack([self.rng.uniform(0.5, 1.5, channels), self.rng.standard_normal(channels)]))
        self.golden.set_exponents(W, self.golden.get_exponents(W)[0], 0)
        self.mean, self.variance = self.rng.standard_normal(channels), self.rng.uniform(0.5, 2, channels)
        self.place("states", (planes(STATE_ROW), channels))[:] = import_states(self.mean, self.variance)
        self.place("sums", (planes(SUMS_ROW), channels))
        self.place("rows", (planes(FORWARD_ROW), channels))
        self.place("dw", (GRADIENT_PLANES + planes(BACKWARD_ROW), channels))
        self.place("y", self.shape)
        self.place("dx", self.shape, pitch)
        self.exponents = [self.golden.get_exponents(tensor) for tensor in range(8)]

    def place(self, name, shape, pitch=0):
        """A tensor's view in memory; between its pixels memory is to stay as it is."""
        self.places[name] = self.at
        rows, row = int(np.prod(shape[:-1])), pitch or shape[-1]
        flat = self.golden.memory[self.at : self.at + 2 * rows * row].view("<i2").reshape(rows, row)
        flat[:, shape[-1] :] = 77
        self.at += 2 * rows * row
        return flat[:, : shape[-1]].reshape(shape) if row == shape[-1] else flat[:, : shape[-1]]

    def put(self, name, tensor, values, pitch=0):
        exponent = exponent_for(float(np.abs(values).max()), 16)
        mantissas = quantise(values, exponent, 16)
        self.golden.set_exponents(tensor, exponent)
        view = self.place(name, values.shape, pitch)
        view[...] = mantissas.reshape(view.shape)
        self.values[name] = np.ldexp(mantissas.astype(np.float64), exponent)

    def command(self, opcode, phases=Phase.ALL, **fields):
        n, h, w, c = self.shape
        shape = {"n": n, "h": h, "w": w, "oh": h, "ow": w, "c": c, "q": c, "r": 1, "s": 1, "stride": 1}
        shape |= {"nb": 1, "yb": 1, "cb": 1, "qb": 1, "x_pitch": self.pitch, "phase_mask": int(phases)}
        places = {name: self.places[place] for name, place in fields.items() if isinstance(place, str)}
        return Command(opcode, {**shape, **fields, **places})

    def commands(self):
        n = self.shape[0] * self.shape[1] * self.shape[2]
        batch, frozen = norm_constants(n, EPSILON, MOMENTUM), evaluation_constants(EPSILON)
        epsilon = {"const_mantissa": batch.epsilon.mantissa, "const_exponent": batch.epsilon.exponent}
        rates = {
            "momentum": batch.momentum, "unbiased_mantissa": batch.unbiased.mantissa,
            "unbiased_exponent": batch.unbiased.exponent,
        }  # fmt: skip
        still = {"const_mantissa": frozen.epsilon.mantissa, "const_exponent": frozen.epsilon.exponent}
        masks = {"c_mode": CMode.ADD_MASK, "c_addr": "skip", "c_id": SKIP, "d_addr": "x", "d_id": X}
        adds = {"c_mode": CMode.ADD, "c_addr": "skip", "c_id": SKIP}
        weights = {"b_addr": "w", "b_id": W}
        yield self.command(Opcode.NORM_SUMS, Phase.TRAIN, a_addr="x", b_addr="x", out_addr="sums", y_pitch=self.pitch)
        yield self.command(
            Opcode.NORM_CONSTANTS, Phase.TRAIN, e_addr="sums", a_id=X, **weights, c_addr="states", out_addr="rows",
            **epsilon, **rates,
        )  # fmt: skip
        yield self.command(
            Opcode.NORM_RUNNING, Phase.EVAL, a_id=X, **weights, c_addr="states", out_addr="rows", **still
        )
        yield self.command(
            Opcode.NORM_APPLY, a_addr="x", a_id=X, b_id=W, e_addr="rows", out_addr="y", out_id=Y, track=1,
            relu=int(self.relu), **(adds if self.skip else {}),
        )  # fmt: skip
        yield self.command(Opcode.NORM_SUMS, Phase.TRAIN, a_addr="x", b_addr="g", out_addr="sums")
        yield self.command(
            Opcode.NORM_BACKWARD, Phase.TRAIN, e_addr="sums", a_id=G, b_addr="rows", b_id=X, out_addr="dw", out_id=DW,
            track=1,
        )  # fmt: skip
        self.places["backward"] = self.places["dw"] + 2 * GRADIENT_PLANES * self.channels
        yield self.command(
            Opcode.NORM_APPLY_BACKWARD, Phase.TRAIN, a_addr="g", a_id=G, b_addr="x", b_id=X, e_addr="backward",
            out_addr="dx", out_id=DX, track=1, **(masks if self.skip else {}), d_pitch=self.pitch,
            c_pitch=self.channels,
        )  # fmt: skip
        for opcode in (Opcode.COMMIT, Opcode.END):
            yield Command(opcode, {"phase_mask": int(Phase.ALL)})

    def run(self, phase, calibrate=False):
        header = Command(Opcode.HEADER, {"config_hash": CONFIG.config_hash, "version": VERSION})
        words = [word for each in (header, *self.commands()) for word in each.encode()]
        self.golden.memory[PROGRAM : PROGRAM + 4 * len(words)] = np.array(words, "<u4").view(np.uint8)
        self.golden.start(PROGRAM, phase, calibrate=calibrate)
        assert self.golden.run() == Status.DONE, (self.golden.error, self.golden.error_index)

    def read(self, name, tensor, shape, pitch=0):
        """Mantissas as they were written, at the exponent before COMMIT."""
        rows, row = int(np.prod(shape[:-1])), pitch or shape[-1]
        flat = self.golden.memory[self.places[name] :][: 2 * rows * row].view("<i2").reshape(rows, row)
        assert (flat[:, shape[-1] :] == 77).all(), "memory between the pixels was written"
        return np.ldexp(flat[:, : shape[-1]].astype(np.float64).reshape(shape), self.written[tensor])

    def lsbs(self, name, tensor, expected, pitch=0):
        """The largest error in LSBs of the result."""
        found = self.read(name, tensor, expected.shape, pitch)
        return float(np.abs(found - expected).max() / 2.0 ** self.written[tensor])

    def expected(self, training):
        x, w, g, skip = (torch.tensor(self.values[name]).requires_grad_() for name in ("x", "w", "g", "skip"))
        mean, variance = torch.tensor(self.mean), torch.tensor(self.variance)
        flat = x.reshape(-1, self.channels)
        y = torch.nn.functional.batch_norm(flat, mean, variance, w[0], w[1], training, MOMENTUM, EPSILON)
        y.backward(g.reshape(-1, self.channels))
        dx, y = x.grad, y.reshape(self.shape)
        if self.skip:
            y, dx = y + skip, torch.where(x > 0, dx + skip, 0.0)
        if self.relu:
            y = y.clamp(min=0)
        return [tensor.detach().numpy() for tensor in (y, dx, w.grad, mean, variance)]

    def check(self, training):
        """Compare all results of a run."""
        y, dx, dw, mean, variance = self.expected(training)
        errors = {"y": self.lsbs("y", Y, y)}
        states = self.golden.memory[self.places["states"] :][: 2 * planes(STATE_ROW) * self.channels].view("<i2")
        found_mean, found_variance = export_states(states.reshape(planes(STATE_ROW), self.channels))
        if training:
            errors |= {"dx": self.lsbs("dx", DX, dx, self.pitch), "dw": self.lsbs("dw", DW, dw)}
        assert np.abs(found_mean - mean).max() <= 2.0**-28 * np.abs(mean).max()
        assert np.abs(found_variance / variance - 1).max() <= 2.0**-15
        print(errors)
        bounds = {"y": 0.8 + 0.5 * self.skip, "dx": 1.1 + 0.5 * self.skip, "dw": 0.6}  # C is rounded by itself
        assert not {name: error for name, error in errors.items() if not error <= bounds[name]}


def after(layer, phase, calibrate):
    """Run the layer; note the exponents that its results were written with."""
    golden, seen = layer.golden, {}

    def note(index, command):
        if command.track:
            seen[command.out_id] = golden.get_exponents(command.out_id)[0]

    golden.on_command = note
    layer.run(phase, calibrate)
    layer.written = seen


CASES = [
    {"n": 4, "height": 5, "width": 7, "channels": 6},
    {"n": 3, "height": 4, "width": 4, "channels": 11, "pitch": 13, "skip": True},
    {"n": 8, "height": 1, "width": 1, "channels": 5, "skip": True, "relu": True},
    {"n": 2, "height": 16, "width": 16, "channels": 3, "relu": True},
    {"n": 2, "height": 1, "width": 2, "channels": 2, "pitch": 2},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_calibrating_batch_then_evaluation(case):
    """A calibrating batch finds exponents for all results, whatever they were, and statistics move once."""
    layer = Layer(5, **case)
    for tensor in (Y, DX, DW):
        layer.golden.set_exponents(tensor, -100)
    after(layer, TRAIN, calibrate=True)
    assert layer.golden.counters[TRAIN]["saturations"] == 0
    for tensor, name, shape in ((Y, "y", layer.shape), (DX, "dx", layer.shape), (DW, "dw", (2, layer.channels))):
        largest = np.abs(layer.read(name, tensor, shape, layer.pitch if name == "dx" else 0)).max()
        assert 2**13 <= largest / 2.0 ** layer.written[tensor] < 2**15, name
    layer.check(training=True)
    # Statistics have moved, so evaluation begins from what the machine has.
    states = layer.golden.memory[layer.places["states"] :][: 2 * planes(STATE_ROW) * layer.channels].view("<i2")
    layer.mean, layer.variance = export_states(states.reshape(planes(STATE_ROW), layer.channels).copy())
    after(layer, EVAL, calibrate=True)
    layer.check(training=False)


def test_saturations_and_maxima_are_counted():
    layer = Layer(6, 4, 5, 7, 6)
    layer.golden.set_exponents(Y, -14)
    layer.golden.set_exponents(DX, -3)
    layer.golden.set_exponents(DW, -15)
    after(layer, TRAIN, calibrate=False)
    y, dx, dw, *_ = layer.expected(True)
    limits = [(y, -14), (dx, -3), (dw, -15)]
    expected = [int((np.abs(values) / 2.0**exponent > 32767.5).sum()) for values, exponent in limits]
    assert layer.golden.counters[TRAIN]["saturations"] == sum(expected) and expected[0] > 0 and expected[2] > 0
    for tensor, values in ((Y, y), (DX, dx), (DW, dw)):
        cur, _ = layer.golden.get_exponents(tensor)
        assert cur == int(np.floor(np.log2(np.abs(values).max()))) + 1 + 1 - 15


def shape(**more):
    ones = dict.fromkeys(("n", "c", "h", "w", "oh", "ow", "q", "r", "s", "stride", "nb", "yb", "cb", "qb"), 1)
    return {**ones, "h": 4, "oh": 4, **more}


@pytest.mark.parametrize(("opcodes", "more", "code"), [
    (NORMS, {}, ErrorCode.NONE),
    (NORMS, {"r": 2, "oh": 3}, ErrorCode.BAD_GEOMETRY),
    (NORMS, {"oh": 3}, ErrorCode.BAD_GEOMETRY),
    (NORMS, {"stride": 2}, ErrorCode.BAD_GEOMETRY),
    (NORMS, {"stride": 2, "oh": 2}, ErrorCode.BAD_GEOMETRY),
    (NORMS, {"pad_y": 1}, ErrorCode.BAD_GEOMETRY),
    (NORMS, {"q": 2}, ErrorCode.BAD_GEOMETRY),
    (NORMS, {"cb": 0, "q": 2}, ErrorCode.BAD_TILE),
    (NORMS, {"c": 3, "q": 3, "x_pitch": 2}, ErrorCode.BAD_GEOMETRY),
    (NORMS, {"e_addr": 3}, ErrorCode.BAD_ADDRESS),
    (NORMS, {"b_id": 64}, ErrorCode.BAD_TENSOR),
    (NORMS, {"c_mode": 5}, ErrorCode.BAD_OPCODE),
    (NORMS, {"predictor": 1}, ErrorCode.BAD_OPCODE),
    (NORMS, {"n": 8, "c": 65535, "q": 65535, "h": 129, "oh": 129, "w": 8, "ow": 8}, ErrorCode.BAD_GEOMETRY),
    ((Opcode.NORM_APPLY,), {"n": 32768, "h": 128, "oh": 128, "w": 128, "ow": 128}, ErrorCode.BAD_GEOMETRY),
    ((Opcode.NORM_SUMS,), {"n": 32768, "h": 128, "oh": 128, "w": 128, "ow": 128}, ErrorCode.ACC_OVERFLOW),
    (NORMS, {"n": 8, "h": 128, "oh": 128, "w": 1, "ow": 1}, ErrorCode.NONE),
    ((Opcode.NORM_SUMS, Opcode.NORM_CONSTANTS, Opcode.NORM_BACKWARD),
     {"n": 9, "h": 128, "oh": 128, "w": 114, "ow": 114}, ErrorCode.ACC_OVERFLOW),
    ((Opcode.NORM_RUNNING, Opcode.NORM_APPLY, Opcode.NORM_APPLY_BACKWARD),
     {"n": 9, "h": 128, "oh": 128, "w": 114, "ow": 114}, ErrorCode.NONE),
    ((Opcode.NORM_SUMS,), {"c": 3, "q": 3, "d_pitch": 2}, ErrorCode.NONE),
    ((Opcode.NORM_APPLY, Opcode.NORM_APPLY_BACKWARD), {"c": 3, "q": 3, "d_pitch": 2}, ErrorCode.BAD_GEOMETRY),
])  # fmt: skip
def test_first_reason_to_refuse(opcodes, more, code):
    for opcode in opcodes:
        command = Command(opcode, shape(**more))
        assert validate(command, CONFIG) == code, opcode
        assert validate(command, replace(CONFIG, batch_norm=False)) == ErrorCode.BAD_OPCODE
    assert len(opcodes) > 0


def test_tables_outside_of_the_regions_are_not_written():
    """Running statistics too."""
    for name, code in (("states", ErrorCode.WRITE_REGION), ("rows", ErrorCode.WRITE_REGION)):
        layer = Layer(7, 2, 2, 2, 3)
        layer.golden.regions[0] = (0, layer.places[name])
        before = layer.golden.memory[: layer.at].copy()
        with pytest.raises(AssertionError):
            layer.run(TRAIN)
        assert (layer.golden.error, layer.golden.error_index) == (code, 1 if name == "states" else 2)
        start = layer.places[name]
        assert (layer.golden.memory[start : layer.at] == before[start:]).all()


@pytest.mark.parametrize("fields", [{"operand_width": 8}, {"acc_width": 47}])
def test_configurations_that_batch_norm_needs(fields):
    with pytest.raises(ConfigError, match=r"batch_norm = True.*operand_width is 16 and acc_width >= 48"):
        replace(CONFIG, **fields)
