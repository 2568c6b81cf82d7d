"""A small network trained by a hand-built program on the golden machine, beside torch in float64."""

import numpy as np
import torch
import torch.nn.functional as F
from adagp.golden.program import GoldenMachine
from adagp.spec.commands import CMode, Command, Opcode, Phase
from adagp.spec.config import VERSION
from adagp.spec.numerics import EXP_MIN
from adagp.spec.presets import PRESETS
from adagp.spec.registers import Status
from sklearn.datasets import load_digits

torch.set_num_threads(1)
CONFIG = PRESETS["paper"]
N = 32
RATE, MOMENTUM, DECAY = (3277, -16), (58982, -16), (53687, -29)  # 0.05, 0.9, 1e-4
LOGITS_EXP = -19
"""Exponent of the loss gradient, whose elements are at most 1 / N."""
IMAGE_EXP = -14
STRIDE = N * 64 * 2


class Plan:
    """Hands out memory and tensor numbers by name, and collects commands."""

    def __init__(self):
        self.end = 0
        self.places = {}
        self.ids = {}
        self.commands = []

    def place(self, name, n_bytes):
        self.places[name] = self.end
        self.ids[name] = len(self.ids)
        self.end += -(-n_bytes // 64) * 64

    def add(self, opcode, mask=Phase.ALL, **fields):
        """A command; operands ``a``, ``b``, ``out`` and ``mask_by`` or ``low`` (c) are given by name."""
        for keyword, operand in {"a": "a", "b": "b", "mask_by": "c", "low": "c", "out": "out"}.items():
            if keyword in fields:
                name = fields.pop(keyword)
                fields |= {f"{operand}_addr": self.places[name], f"{operand}_id": self.ids[name]}
                fields |= {"c_mode": CMode.MASK} if keyword == "mask_by" else {}
        whole = {"nb": 1, "yb": 1, "cb": 1, "qb": 1, "track": 1}
        self.commands.append(Command(opcode, {**whole, "phase_mask": mask, **fields}))


def convolution(c, q, size, kernel, pad):
    out = size + 2 * pad - kernel + 1
    return {
        "n": N, "c": c, "q": q, "h": size, "w": size, "oh": out, "ow": out, "r": kernel, "s": kernel, "stride": 1,
        "pad_y": pad, "pad_x": pad,
    }  # fmt: skip


LAYERS = [convolution(1, 8, 8, 3, 1), convolution(8, 16, 4, 3, 1), convolution(16, 10, 4, 4, 0)]
POOL = {"n": N, "c": 8, "q": 8, "h": 8, "w": 8, "oh": 4, "ow": 4, "r": 2, "s": 2, "stride": 2}


def filter_shape(g):
    return g["q"], g["r"] * g["s"] * g["c"] + 1


def training_program():
    """conv, relu, maxpool, conv, relu, linear; backward, updates, commit."""
    plan = Plan()
    for name, elements in {
        "x": N * 64, "y0": N * 64 * 8, "p": N * 16 * 8, "index": N * 16 * 8, "y1": N * 16 * 16, "y2": N * 10,
        "dy2": N * 10, "dy1": N * 16 * 16, "dp": N * 16 * 8, "dy0": N * 64 * 8,
    }.items():  # fmt: skip
        plan.place(name, 2 * elements)
    for i, g in enumerate(LAYERS):
        size = filter_shape(g)[0] * filter_shape(g)[1]
        for name, width in (("w", 2), ("lo", 2), ("v", 4), ("dw", 2)):
            plan.place(f"{name}{i}", width * size)
    plan.add(Opcode.HEADER, config_hash=CONFIG.config_hash, version=VERSION)
    plan.add(Opcode.FORWARD, **LAYERS[0], a="x", b="w0", out="y0", bias=1, relu=1)
    plan.add(Opcode.MAXPOOL, **POOL, a="y0", b="index", out="p")
    plan.add(Opcode.FORWARD, **LAYERS[1], a="p", b="w1", out="y1", bias=1, relu=1)
    plan.add(Opcode.FORWARD, **LAYERS[2], a="y1", b="w2", out="y2", bias=1)
    plan.add(Opcode.HOST)
    train = Phase.WARMUP | Phase.BP
    plan.add(Opcode.BACKWARD_WEIGHT, train, **LAYERS[2], a="y1", b="dy2", out="dw2", bias=1)
    plan.add(Opcode.BACKWARD_DATA, train, **LAYERS[2], a="dy2", b="w2", out="dy1", mask_by="y1")
    plan.add(Opcode.BACKWARD_WEIGHT, train, **LAYERS[1], a="p", b="dy1", out="dw1", bias=1)
    plan.add(Opcode.BACKWARD_DATA, train, **LAYERS[1], a="dy1", b="w1", out="dp")
    plan.add(Opcode.MAXPOOL_BACKWARD, train, **POOL, a="dp", b="index", out="dy0", mask_by="y0")
    plan.add(Opcode.BACKWARD_WEIGHT, train, **LAYERS[0], a="x", b="dy0", out="dw0", bias=1)
    for i, g in enumerate(LAYERS):
        count = filter_shape(g)[0] * filter_shape(g)[1]
        plan.add(Opcode.UPDATE, train, a=f"dw{i}", b=f"w{i}", low=f"lo{i}", out=f"v{i}", count=count)
    plan.add(Opcode.COMMIT, train)
    plan.add(Opcode.END)
    return plan


def view(machine, plan, name, shape, dtype="<i2"):
    array = np.ndarray(shape, dtype, machine.memory.data, plan.places[name])
    assert array.base is not None
    return array


def loaded_machine(plan, weights):
    """A machine holding program and weights, float arrays ``[q, r*s*c + 1]``."""
    machine = GoldenMachine(CONFIG, np.zeros(1 << 20, np.uint8))
    machine.regions[0] = (0, plan.end)
    plan.place("program", 0)
    image = np.array([word for command in plan.commands for word in command.encode()], "<u4").view(np.uint8)
    machine.memory[plan.end : plan.end + image.size] = image
    for i, pair in enumerate((RATE, MOMENTUM, DECAY)):
        machine.set_hyper(i, *pair)
    machine.set_exponents(plan.ids["x"], IMAGE_EXP)
    machine.set_exponents(plan.ids["dy2"], LOGITS_EXP)
    for i, w in enumerate(weights):
        exponent = int(np.ceil(np.log2(np.abs(w).max()))) - 14
        master = np.rint(w * 2.0 ** (16 - exponent)).astype(np.int64)
        hi = (master + 0x8000) >> 16
        view(machine, plan, f"w{i}", w.shape)[...] = hi
        view(machine, plan, f"lo{i}", w.shape)[...] = master - (hi << 16)
        machine.set_exponents(plan.ids[f"w{i}"], exponent, exponent)
        machine.set_exponents(plan.ids[f"v{i}"], EXP_MIN, EXP_MIN)
    return machine


def golden_step(machine, plan, images, labels, calibrate):
    """Train on a batch; its loss."""
    view(machine, plan, "x", (N, 64))[...] = np.rint(images * 2.0**-IMAGE_EXP)
    machine.start(plan.places["program"], phase=1, calibrate=calibrate)
    assert machine.run() == Status.BUSY | Status.HOST
    exponent, _ = machine.get_exponents(plan.ids["y2"])
    logits = torch.tensor(view(machine, plan, "y2", (N, 10)) * 2.0**exponent, requires_grad=True)
    loss = F.cross_entropy(logits, torch.tensor(labels))
    loss.backward()
    view(machine, plan, "dy2", (N, 10))[...] = np.rint(logits.grad.numpy() * 2.0**-LOGITS_EXP)
    machine.resume()
    assert machine.run() == Status.DONE
    return loss.item()


class Float(torch.nn.Module):
    """The same network in float64, weights as ``[q, r*s*c + 1]``."""

    def __init__(self, weights):
        super().__init__()
        self.w = torch.nn.ParameterList(torch.tensor(w) for w in weights)

    def forward(self, images):
        x = torch.tensor(images).reshape(N, 1, 8, 8)
        for i, g in enumerate(LAYERS):
            w = self.w[i][:, :-1].reshape(g["q"], g["r"], g["s"], g["c"]).permute(0, 3, 1, 2)
            x = F.conv2d(x, w, self.w[i][:, -1], padding=g["pad_y"])
            x = x if i == 2 else torch.relu(x)
            x = F.max_pool2d(x, 2) if i == 0 else x
        return x.flatten(1)


def test_training_follows_float64():
    rng = np.random.default_rng(4)
    print("seed 4")
    data = load_digits()
    weights = [rng.normal(0, np.sqrt(2 / filter_shape(g)[1]), filter_shape(g)) for g in LAYERS]
    plan = training_program()
    machine, network = loaded_machine(plan, weights), Float(weights)
    rate, momentum, decay = (m * 2.0**e for m, e in (RATE, MOMENTUM, DECAY))
    sgd = torch.optim.SGD(network.parameters(), lr=rate, momentum=momentum, weight_decay=decay)
    golden, reference = [], []
    for batch in range(60):
        choice = rng.integers(0, 1500, N)
        images, labels = data.images[choice].reshape(N, 64) / 16, data.target[choice]
        golden.append(golden_step(machine, plan, images, labels, calibrate=batch == 0))
        loss = F.cross_entropy(network(images), torch.tensor(labels))
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        reference.append(loss.item())
    assert golden[0] > 2 and np.mean(golden[-10:]) < 0.4
    # The two diverge slowly, as any two roundings of one training run do.
    assert np.allclose(golden[:10], reference[:10], rtol=2e-2)
    assert abs(np.mean(golden[-10:]) - np.mean(reference[-10:])) < 0.05
    assert machine.counters[1]["saturations"] < 1e-3 * 60 * sum(N * 64 * g["q"] for g in LAYERS)
    first, second, last = (N * g["oh"] ** 2 * g["q"] * g["r"] ** 2 * g["c"] for g in LAYERS)
    bias = sum(N * g["oh"] ** 2 * g["q"] for g in LAYERS)
    backward_data = N * 16 * 16 * 9 * 8 + N * 16 * 16 * 16 * 10
    assert machine.counters[1]["macs"] == 61 * (2 * (first + second + last) + bias + backward_data)
