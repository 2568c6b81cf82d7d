"""The drain engine alone, against plain integers; accumulator, scratchpad and tokens are the bench's."""

from collections import Counter

import cocotb
import pytest
from adagp.rtl.drain.drain import Drain
from adagp.rtl.lib.interfaces import AccRead
from adagp.rtl.memory.scratchpad import PingPong
from adagp.spec.presets import preset
from drain_jobs import DrainModel
from harness import Bench, parameters
from pads import Pad
from runner import SIMULATORS, run

SEED = 28
TINY = preset("tiny")
COUNT = 60
STALL = 0.3
PULSES = ("acc_free", "drained", "saturations", "acc_full_take", "c_ready_take")


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_drain(simulator, tmp_path):
    run("test_drain", Drain(TINY), TINY, tmp_path, simulator=simulator, seed=SEED)


async def send_biases(bench, halves):
    for half, values in enumerate(halves):
        for n, value in enumerate(values):
            await bench.pause(STALL)
            for name, given in {"valid": 1, "half": half, "start": n == 0, "data": value}.items():
                bench.set(f"bias_{name}", given)
            await bench.edge
            bench.set("bias_valid", 0)


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def random_descriptors(dut):
    """C holds what the descriptors mean; maxima, saturations and tokens are as many as they should be."""
    config, _ = parameters()
    bench = Bench(dut, Drain(config))
    await bench.start()
    model = DrainModel(config, bench.rng)
    pad = Pad(bench, config, [list(half) for half in model.c])
    descriptors = [model.descriptor() for _ in range(COUNT)]
    for d in descriptors:
        model.run(d)
    n_gemm = sum(not (d["vector"] or d["zeros"]) for d in descriptors)
    seen, results, asked = Counter(), [], [0] * (AccRead.LATENCY - 1)

    def see():
        if bench.get("acc_en"):
            asked.append(bench.get("acc_addr") if bench.get("acc_valid") else 0)
            address = asked.pop(0)
            bench.set("acc_data", [words[address] for words in model.acc])
        for name in PULSES:
            seen[name] += bench.get(name)
        if bench.get("result_valid"):
            result = bench.get("result")
            results.append((result.id, result.nonzero, result.top if result.nonzero else None))

    await send_biases(bench, model.bias)
    bench.watch(see)
    pad.serve_reads("c_read", PingPong.READ_LATENCY)
    pad.serve_writes("c_write")
    bench.tokens("acc_full", n_gemm)
    bench.tokens("c_ready", COUNT)
    vectors = cocotb.start_soon(bench.send("vector", model.vectors, STALL))
    await bench.send("i", descriptors, STALL)
    await vectors
    while seen["drained"] < COUNT:
        await bench.edge
    assert pad.halves == model.c
    assert pad.written == model.written > 0
    assert results == model.results != []
    assert seen["saturations"] == model.saturations > 0
    assert seen["acc_free"] == seen["acc_full_take"] == n_gemm > 0
    assert seen["drained"] == seen["c_ready_take"] == COUNT
