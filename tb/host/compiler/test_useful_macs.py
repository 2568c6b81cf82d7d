"""Useful products, counted by PyTorch as convolutions of ones and one by one; those of batches and of runs."""

import random
from dataclasses import replace
from itertools import product

import pytest
import torch
from adagp.host.compiler.useful_macs import useful_batch, useful_convolution, useful_lines, useful_macs
from adagp.host.training.network import Network
from adagp.spec.commands import Command, Opcode
from adagp.spec.config import VARIANTS
from adagp.spec.opcodes import DEPTHWISE, GEMMS
from adagp.spec.operands import macs
from adagp.spec.phases import BP, EVALUATION, GP, WARMUP
from adagp.spec.presets import preset
from scheduled_runs import NETWORKS, Run, golden, settings
from small_networks import N_CLASSES
from torch import nn
from torch.nn.functional import conv2d, conv_transpose2d

SEED, SHAPES = 6, 60


def shapes():
    """Fields of random layers: strides, paddings of either side, rows that no window reaches."""
    draw = random.Random(SEED)
    while True:
        h, w, r, s = (draw.randint(1, size) for size in (9, 9, 5, 5))
        stride, pad_y, pad_x = draw.randint(1, 3), draw.randrange(r), draw.randrange(s)
        oh, ow = (h + 2 * pad_y - r) // stride + 1, (w + 2 * pad_x - s) // stride + 1
        if h + 2 * pad_y >= r and w + 2 * pad_x >= s:
            yield {
                "n": draw.randint(1, 3), "c": draw.randint(1, 4), "h": h, "w": w, "q": draw.randint(1, 4), "oh": oh,
                "ow": ow, "r": r, "s": s, "stride": stride, "pad_y": pad_y, "pad_x": pad_x, "bias": draw.randint(0, 1),
            }  # fmt: skip


def products(fields, opcode):
    """Products of ones that PyTorch adds up in a direction: in the result, or in a gradient for a gradient of ones."""
    f, depthwise = fields, opcode in DEPTHWISE
    x = torch.ones(f["n"], f["c"], f["h"], f["w"], dtype=torch.float64, requires_grad=True)
    filters = f["c"] if depthwise else f["q"]
    weight = torch.ones(filters, 1 if depthwise else f["c"], f["r"], f["s"], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(filters, dtype=torch.float64, requires_grad=True)
    y = torch.nn.functional.conv2d(
        x, weight, bias, stride=f["stride"], padding=(f["pad_y"], f["pad_x"]), groups=f["c"] if depthwise else 1
    )
    y.backward(torch.ones_like(y))
    if opcode in (Opcode.FORWARD, Opcode.DEPTHWISE):
        return y.sum()
    if opcode in (Opcode.BACKWARD_DATA, Opcode.DEPTHWISE_BACKWARD_DATA):
        return x.grad.sum()
    return weight.grad.sum() + (bias.grad.sum() if f["bias"] and opcode == Opcode.BACKWARD_WEIGHT else 0)


@pytest.mark.parametrize("transposed", [False, True])
def test_the_host_s_convolutions_as_pytorch_adds_them_up(transposed):
    """With groups and dilation; two operations a product."""
    print(f"seed {SEED}")
    draw, seen = random.Random(SEED), set()
    for _ in range(SHAPES):
        groups, stride, padding, dilation, tap = (draw.randint(1, 3) for _ in range(5))
        x = torch.ones(2, 6, draw.randint(7, 11), draw.randint(7, 11), dtype=torch.float64)
        given = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        ins, outs = 6 // groups, groups * 2
        filters = torch.ones((6, 2) if transposed else (outs, ins), dtype=torch.float64)[:, :, None, None]
        filters = filters.expand(-1, -1, tap, tap).clone()
        y = (conv_transpose2d if transposed else conv2d)(x, filters, **given)
        axes = ([stride] * 2, [padding] * 2, [dilation] * 2)
        found = useful_convolution(x.shape, filters.shape, None, *axes, transposed, [0, 0], groups, out_shape=y.shape)
        assert found == 2 * int(y.sum()) > 0
        seen |= {("stride", stride), ("dilation", dilation), ("groups", groups)}
    assert len(seen) == 9


@pytest.mark.parametrize("opcode", [*GEMMS, *DEPTHWISE], ids=lambda opcode: opcode.name)
def test_as_pytorch_adds_them_up(opcode):
    print(f"seed {SEED}")
    padded = strided = 0
    for _, fields in zip(range(SHAPES), shapes(), strict=False):
        given = {**fields, "q": fields["c"]} if opcode in DEPTHWISE else fields
        command = Command(opcode, given)
        assert useful_macs(command) == int(products(given, opcode)) > 0
        if opcode in GEMMS:
            assert useful_macs(command) <= macs(command)
            padded += useful_macs(command) < macs(command)
            strided += fields["stride"] > 1
    assert opcode not in GEMMS or min(padded, strided) > 10


def test_one_by_one():
    """Of 2x2 images and a kernel of 3x3 with a padding of 1, four products in nine are useful."""
    fields = {"n": 3, "c": 5, "h": 2, "w": 2, "q": 7, "oh": 2, "ow": 2, "r": 3, "s": 3, "stride": 1, "pad_y": 1,
              "pad_x": 1}  # fmt: skip
    met = sum(
        0 <= y + r - 1 < 2 and 0 <= x + s - 1 < 2 for y, x, r, s in product(range(2), range(2), range(3), range(3))
    )
    for opcode in GEMMS:
        command = Command(opcode, fields)
        assert useful_macs(command) == 3 * 5 * 7 * met and 9 * useful_macs(command) == 4 * macs(command) > 0
    assert useful_macs(Command(Opcode.FORWARD, {**fields, "predictor": 1})) == 3 * 5 * 7 * met  # a shape's, whosever
    assert useful_macs(Command(Opcode.MAXPOOL, fields)) == useful_macs(Command(Opcode.UPDATE, {"count": 9})) == 0


def network(variant):
    """Convolutions, one depthwise and one strided, whose batch has no other GEMMs, and a linear layer."""
    torch.manual_seed(SEED)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU(),
        nn.Conv2d(8, 6, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(54, 5),
    )  # fmt: skip
    config = replace(preset("tiny"), variant=variant, depthwise=True, n_tensors=512)
    return Network(module, (3, 6, 6), 4, config, source="predicted" if config.predicts else None)


@pytest.mark.parametrize("variant", VARIANTS)
def test_batches(variant):
    """The network's own work alone, in every design; a GP batch's is that of a forward pass."""
    compiled = network(variant).compiled
    images, inside, strided = 4, 3 * 6 - 2, 3 * 3 - 1  # pairs along an axis: three a result, one less at an end
    first, last, linear = 3 * 8 * inside**2, 8 * 6 * strided**2, 54 * 5
    forward = images * (first + last + linear)
    biases = images * (8 * 36 + 6 * 9 + 5)
    assert useful_batch(compiled, EVALUATION) == forward
    for phase in (WARMUP, BP):
        assert useful_batch(compiled, phase) == 3 * forward - images * first + biases
    if compiled.config.predicts:
        assert useful_batch(compiled, GP) == forward
        assert any(line.command.predictor for line in compiled.program)
    counted = zip(compiled.program, useful_lines(compiled), strict=True)
    depthwise = [n for line, n in counted if line.command.opcode in DEPTHWISE]
    assert set(depthwise) == {images * 8 * inside**2}


def test_a_run_counts_each_batch_once():
    """By phase; the batch that calibrates, which repeats commands, is one of warm-up."""
    run = Run("linear", golden(), settings("linear"))
    run.go()
    row, images = run.trainer.progress.log[-1], NETWORKS["linear"][0]
    layers = (28 * 17, 17 * 11, 11 * N_CLASSES)
    forward, biases = images * sum(layers), images * (17 + N_CLASSES)
    trained = 3 * forward - images * layers[0] + biases
    counts = [row[f"batches_{name}"] for name in ("warmup", "bp", "gp")]
    assert min(counts) > 0
    assert row["useful_macs"] == (counts[0] + counts[1]) * trained + counts[2] * forward < row["macs"]
