"""The systolic array against numpy: tiles of weights exchanged while vectors stream."""

from dataclasses import replace

import cocotb
import numpy as np
import pytest
from adagp.rtl.compute.array import Array
from adagp.spec.numerics import operand_max
from adagp.spec.presets import preset
from harness import Bench, parameters
from runner import SIMULATORS, run

SEED = 23
TINY = preset("tiny")
CONFIGS = {"tiny": TINY, "5x2": replace(TINY, name="5x2", rows=5, cols=2)}
TILES = 4


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("name", CONFIGS)
def test_array(name, simulator, tmp_path):
    config = CONFIGS[name]
    run("test_array", Array(config), config, tmp_path, simulator=simulator, seed=SEED)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def products(dut):
    """A vector a cycle; each meets the weights that were loaded while the tile before it streamed."""
    config, _ = parameters()
    array = Array(config)
    bench = Bench(dut, array)
    await bench.start()
    values = np.random.default_rng(cocotb.RANDOM_SEED)
    most, n_stream = operand_max(config.operand_width), config.cols
    weights = values.integers(-most, most, (TILES, config.rows, config.cols), endpoint=True)
    weights[0, :, 0] = most  # the largest psum there is
    vectors = values.integers(-most, most, (TILES, n_stream, config.rows), endpoint=True)
    vectors[0, 0] = -most
    expected = (vectors @ weights).reshape(-1, config.cols).tolist()
    psums = []

    def load(tile, col):
        bench.set("load", 1 << col)
        bench.set("stationary", weights[tile, :, col].tolist())

    for col in range(config.cols):
        load(0, col)
        await bench.edge
    bench.watch(lambda: psums.append(list(bench.get("psum"))))
    for tile in range(TILES):
        for place in range(n_stream):
            bench.set("load", 0)
            if tile + 1 < TILES:
                load(tile + 1, place)
            bench.set("stream", vectors[tile, place].tolist())
            bench.set("swap", place == 0)
            await bench.edge
    for _ in range(array.latency + 1):
        await bench.edge
    assert psums[array.latency :][: len(expected)] == expected
    assert len(expected) == TILES * n_stream > 0
