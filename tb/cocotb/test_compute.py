"""The compute engine alone, against numpy; scratchpads, tokens and the reader of the accumulator are the bench's."""

from collections import Counter

import cocotb
import numpy as np
import pytest
from adagp.rtl.compute.compute import Compute
from adagp.rtl.memory.scratchpad import Scratchpad
from adagp.spec.presets import preset
from cocotb.triggers import Combine
from compute_jobs import Expectation, random_jobs
from harness import Bench, Token, parameters
from pads import Pad
from runner import SIMULATORS, run

SEED = 29
TINY = preset("tiny")
COUNT = 12
STALL = 0.3
LONG = 0.95
REASONS = ("active", "stall_a", "stall_b", "stall_load", "stall_drain", "stall_idle")
GIVEN = ("a_free", "b_free", "acc_full")


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_compute(simulator, tmp_path):
    run("test_compute", Compute(TINY), TINY, tmp_path, simulator=simulator, seed=SEED)


async def fill(bench, config, name, tiles, seen):
    """Put tiles into the halves of A or B in turn; a half that is given back holds rubbish until it is filled."""
    pad = Pad(bench, config, [[0] * getattr(config, f"{name}_elements") for _ in range(2)])
    pad.serve_reads(name, Scratchpad.READ_LATENCY, zeros=True)
    full = Token(bench, f"{name}_full")
    for number, tile in enumerate(tiles):
        while number - seen[f"{name}_free"] >= len(pad.halves):
            await bench.edge
        pad.spoil(number % 2)
        await bench.pause(LONG)
        pad.halves[number % 2][: len(tile)] = tile.tolist()
        full.given += 1


async def drain(bench, expected, seen):
    """Read every finished half of the accumulator, a word now and then; returns how many were right."""
    free, right = Token(bench, "acc_free", given=2), 0
    for number, words in enumerate(expected):
        while seen["acc_full"] <= number:
            await bench.edge
        await bench.pause(LONG)
        bench.set("acc_half", number % 2)
        for address, word in enumerate(words):
            await bench.pause(STALL)
            bench.set("acc_addr", address)
            bench.set("acc_next_en", 1)
            await bench.edge
            for left in (2, 1, 0):
                stalls = left > 0 and bench.rng.random() < STALL
                bench.set("acc_valid", left == 2)
                bench.set("acc_en", 1)
                bench.set("acc_next_en", left > 0 and not stalls)
                await bench.edge
                bench.set("acc_en", 0)
                if stalls:
                    await bench.pause(STALL)
                    bench.set("acc_next_en", 1)
                    await bench.edge
            await bench.edge
            assert list(bench.get("acc_data")[number % 2])[: len(word)] == word, (number, address)
            right += 1
        free.given += 1
    return right


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def random_descriptors(dut):
    """Sums and pooled vectors are right; every cycle has one reason and every product is counted."""
    config, _ = parameters()
    bench = Bench(dut, Compute(config))
    await bench.start()
    jobs = random_jobs(config, bench.rng, COUNT)
    expected = Expectation(config, jobs, np.random.default_rng(cocotb.RANDOM_SEED))
    seen = Counter()

    def see():
        now = {name: bench.get(name) for name in REASONS}
        assert sum(now.values()) == 1, now
        seen.update(now)
        for name in (*GIVEN, "macs"):
            seen[name] += bench.get(name)

    bench.watch(see)
    fills = [cocotb.start_soon(fill(bench, config, name, expected.tiles[name], seen)) for name in "ab"]
    drained = cocotb.start_soon(drain(bench, expected.words, seen))
    vectors = cocotb.start_soon(bench.take("vector", len(expected.vectors), STALL))
    await bench.send("i", jobs, STALL)
    await Combine(drained, vectors, *fills)
    assert [list(vector) for vector in vectors.result()] == expected.vectors != []
    assert drained.result() == sum(map(len, expected.words)) > 0
    assert seen["macs"] == expected.macs > 0
    assert seen["acc_full"] == len(expected.words)
    assert all(seen[reason] for reason in REASONS), seen
