"""The row-stationary model: PE sets by hand, products of each PE counted on numbers, and the estimator with it."""

import itertools

import numpy as np
import pytest
import torch
from adagp.cli.estimate import EstimateOptions
from adagp.host.devices.estimator import EstimatorDevice
from adagp.host.estimate.repeats import Known
from adagp.host.estimate.row_stationary import Sets, Work, sets_of, work_of
from adagp.spec.commands import Command, Opcode
from adagp.spec.opcodes import GEMMS
from adagp.spec.operands import macs
from adagp.spec.phases import BP
from adagp.spec.registers import Status

SEED = 11


def command(opcode, n, c, q, out, kernel, stride=1, pad=0, bias=0):
    """A square layer's command."""
    side = (out - 1) * stride + kernel - 2 * pad
    sizes = {"n": n, "c": c, "q": q, "h": side, "w": side, "oh": out, "ow": out, "r": kernel, "s": kernel}
    return Command(opcode, sizes | {"stride": stride, "pad_y": pad, "pad_x": pad, "bias": bias})


FORWARD, DATA, WEIGHT = Opcode.FORWARD, Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT
BY_HAND = {
    # four sets of 3x13 above each other; 8 of them are two passes of 13 pixels of 3 taps
    "replicated": (command(FORWARD, 1, 2, 4, 13, 3, pad=1), (12, 14), 2 * 39, 156),
    # a set of 5x27 in two pieces, 14 and 13 wide, one above the other
    "folded in width": (command(FORWARD, 1, 3, 2, 27, 5, pad=2), (12, 14), 6 * 27 * 5, 135),
    # dY's 8 rows are the filter's: sets of 8x3, five side by side; 15 of them are three passes
    "weight gradient": (command(WEIGHT, 1, 3, 5, 8, 3, pad=1), (12, 15), 3 * 8 * 3, 120),
    # dY's 16 rows in two pieces of 8
    "folded in height": (command(WEIGHT, 1, 1, 5, 16, 3, pad=1), (12, 15), 2 * 16 * 3, 120),
    # the bias gradient of 4 filters: sets of 8x1 with 8 products a PE beside 4 of 8x1 of the weights
    "bias gradient": (command(WEIGHT, 1, 1, 4, 8, 1, bias=1), (12, 15), 8 + 8, 32),
    # a linear layer: each product is a set; 2 * 7 * 100 of them on 180 PEs
    "single products": (command(FORWARD, 2, 7, 100, 1, 1), (12, 15), 8, 175),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_by_hand(case):
    layer, (rows, cols), cycles, pes = BY_HAND[case]
    found = sets_of(layer)
    sets = list(found)
    assert sum(each.cycles(rows, cols) for each in sets) == cycles
    assert sum(each.macs for each in sets) / cycles == pytest.approx(pes)


def test_all_products_are_there():
    shapes = itertools.product(GEMMS, (1, 3), (1, 2, 7), (1, 3), (1, 2), (0, 1))
    for opcode, n, out, kernel, stride, bias in shapes:
        layer = command(opcode, n, 3, 5, out, kernel, stride, kernel // 2, bias)
        assert sum(each.macs for each in sets_of(layer)) == macs(layer) > 0


def slide(x, taps, stride, counts):
    """A row of results of a filter's row over an input's row, which one PE makes; its products are counted."""
    width = (len(x) - len(taps)) // stride + 1
    counts.append(width * len(taps))
    return np.array([x[stride * i : stride * i + len(taps)] @ taps for i in range(width)])


@pytest.mark.parametrize("weight", [False, True])
def test_a_set_makes_a_convolution(weight):
    """PEs as high as the filter and as wide as the result has rows, each with as many products as the model says."""
    print(f"seed {SEED}")
    rng = np.random.default_rng(SEED)
    out, kernel, stride = 5, 3, 1 if weight else 2
    layer = command(WEIGHT if weight else FORWARD, 1, 1, 1, out, kernel, stride)
    (sets,) = sets_of(layer)
    x = rng.integers(-9, 9, (layer.h, layer.h))
    filters = rng.integers(-9, 9, (out, out) if weight else (kernel, kernel))
    counts = []
    rows = [[slide(x[stride * j + i], filters[i], stride, counts) for j in range(sets.width)]
            for i in range(sets.height)]  # fmt: skip
    x_nchw, filters_kcrs = (torch.tensor(each)[None, None] for each in (x, filters))
    expected = torch.nn.functional.conv2d(x_nchw, filters_kcrs, stride=stride)[0, 0].numpy()
    assert np.array_equal(np.sum(rows, axis=0), expected)
    assert counts == [sets.products] * (sets.height * sets.width)


def test_an_array_that_a_set_fills():
    """It has no idle PE; with one more row or column than a set needs, that one idles."""
    assert Sets(30, 12, 15, 7).cycles(12, 15) == 30 * 7 == Sets(30, 12, 15, 7).cycles(13, 16)
    assert Sets(30, 13, 15, 7).cycles(12, 15) == 2 * 30 * 7 == Sets(30, 13, 16, 7).cycles(12, 15) / 2


def batch(network, *given):
    """Counters of a BP batch on the estimator, and the cycles left out."""
    device = EstimatorDevice(network.config, *given)
    network.install(device)
    device.start(network.program, BP)
    while device.wait() & Status.HOST:
        device.resume()
    return device.counters(BP), device.left_out


def test_the_estimator_with_it():
    """Bytes and products are those of `free`, the array's cycles those of the sets, with and without repeats."""
    network, _ = EstimateOptions(preset="tiny", batch=64, dataflow="rs").build()
    (free, _), (rs, _), (known, left_out) = (batch(network), batch(network, None, True), batch(network, Known(), True))
    work = [work_of(line.command, 4, 4) for line in network.program]
    cycles = sum(each.cycles for each in work if each)
    assert cycles <= rs["array_cycles"] < 1.01 * cycles  # a tile's are whole
    assert rs["array_cycles"] == known["array_cycles"] != free["array_cycles"] and left_out > rs["array_cycles"] / 20
    for counter in ("macs", "read_bytes", "write_bytes", "commands"):
        assert rs[counter] == known[counter] == free[counter] > 0
    assert rs["cycles"] > rs["array_cycles"] and known["cycles"] == pytest.approx(rs["cycles"], rel=0.01)


def test_a_tile_takes_its_part_of_a_command():
    work = Work(macs=1000, cycles=10, longest=4)
    assert work.fields(500) == {"set_cycles": 5, "set_pass": 4} and work.fields(1)["set_cycles"] == 1
    assert work_of(Command(Opcode.MAXPOOL, {}), 4, 4) is None
