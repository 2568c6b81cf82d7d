"""The update unit behind arbiters, on cocotbext-axi's memory, against the formulas in plain integers."""

import cocotb
import pytest
from adagp.rtl.update.chunks import chunk_weights
from adagp.rtl.update.update import Update
from axi import OnAxi, axi_ram
from harness import Bench, parameters
from runner import SIMULATORS, run
from update_bench import CONFIGS, UpdateBench

SEED = 27
MEMORY_BYTES = 1 << 16
STALL = 0.3


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("name", ["tiny", pytest.param("two lanes", marks=pytest.mark.slow)])  # tb/unit/update has it
def test_update(name, simulator, tmp_path):
    run("test_update", design(CONFIGS[name]), CONFIGS[name], tmp_path, simulator=simulator, seed=SEED)


def design(config):
    return OnAxi(config, Update(config), read="read", write="write")


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def random_commands(dut):
    """Commands of all lengths: weights, momentum, maxima and saturations; nothing else is written."""
    config, _ = parameters()
    bench = Bench(dut, design(config))
    await bench.start()
    commands, chunk = UpdateBench(config, bench.rng), chunk_weights(config)
    tasks = [commands.task(count) for count in (1, 2 * chunk + 3, chunk, 7, 0, chunk + 1)]
    before = bytearray(b"\xaa" * MEMORY_BYTES)
    for address, byte in commands.memory.data.items():
        before[address] = byte
    reads = axi_ram(bench, "r_axi", MEMORY_BYTES, STALL, write=False)
    writes = axi_ram(bench, "w_axi", MEMORY_BYTES, STALL, read=False)
    reads.write(0, before)  # no command reads what another writes: two memories will do
    writes.write(0, before)
    results = [result for t in tasks for result in commands.expect(t)]
    expected = bytearray(before)
    for address, size, value in commands.expected:
        expected[address : address + size] = value.to_bytes(size, "little", signed=True)
    bench.set("regions", [{"start": start, "end": end} for start, end in commands.regions])
    seen = {"done": 0, "saturations": 0}
    tops = []

    def see():
        assert not bench.get("fault")
        for name in seen:
            seen[name] += bench.get(name)
        if bench.get("result_valid"):
            result = bench.get("result")
            tops.append((result.id, result.nonzero, result.top))

    bench.watch(see)
    await bench.send("i", tasks, STALL)
    while seen["done"] < len(tasks):
        await bench.edge
    await bench.edge
    assert writes.read(0, MEMORY_BYTES) == expected != before
    assert tops == results
    assert seen["saturations"] == commands.expected_saturations > 0
