"""Update unit: whole commands on a model of memory, against the formulas of docs/machine.md in plain integers."""

from dataclasses import replace

import pytest
from adagp.rtl.update.chunks import chunk_weights
from adagp.spec.errors import ErrorCode
from bench import seeded
from update_bench import CONFIGS, UpdateBench

TINY = CONFIGS["tiny"]


@pytest.mark.parametrize("name", CONFIGS)
def test_random_commands(name):
    config = CONFIGS[name]
    bench = UpdateBench(config, seeded(7))
    chunk = chunk_weights(config)
    counts = (1, 2 * chunk + 3, chunk, 7, 3, chunk + 1, 0, 30)
    tasks = [bench.task(count) for count in counts]
    tasks[1]["dry"] = 0
    results = [result for t in tasks for result in bench.expect(t)]
    bench.run(lambda: bench.done == len(counts))
    assert bench.faults == []
    assert bench.results == results
    seen = [bench.memory.peek(*place) for *place, _ in bench.expected]
    assert seen == [value for *_, value in bench.expected]
    assert len(bench.memory.written) == sum(size for _, size, _ in bench.expected) > 0
    assert bench.saturations == bench.expected_saturations > 0


@pytest.mark.parametrize(("port_width", "lanes", "chunks"), [(64, 1, 9), (128, 1, 4), (256, 2, 4)])
def test_throughput(port_width, lanes, chunks):
    """Memory that never stalls: 10 bytes in and 8 out per weight, at most a beat of each per cycle."""
    bench = UpdateBench(replace(TINY, port_width=port_width, update_lanes=lanes), seeded(1), stall=0)
    count = chunks * chunk_weights(bench.config)
    bench.task(count, dry=0)
    bench.run(lambda: bench.done == 1)
    print(f"{count / bench.cycles:.2f} weights per cycle, start and end included")
    assert bench.done == 1
    assert count / bench.cycles >= 0.6 * lanes


@pytest.mark.parametrize("array", ["a_addr", "b_addr", "c_addr", "out_addr"])
def test_unaligned(array):
    bench = UpdateBench(TINY, seeded(2))
    t = bench.task(5)
    t[array] += 4
    bench.run(lambda: bench.faults and bench.cycles > 200)
    assert bench.faults == [(ErrorCode.BAD_ADDRESS, t["index"])]
    assert bench.memory.reads == len(bench.memory.written) == bench.done == 0


@pytest.mark.parametrize(("array", "size"), [("b_addr", 2), ("c_addr", 2), ("out_addr", 4)])
@pytest.mark.parametrize("where", ["below", "above", "fits"])
def test_regions(array, size, where):
    bench = UpdateBench(TINY, seeded(3))
    t = bench.task(9, dry=0)
    others = [t[name] for name in ("b_addr", "c_addr", "out_addr") if name != array]
    cut = {"below": (8, 0), "above": (0, -1), "fits": (0, 0)}[where]
    bench.regions = [(start, start + 36) for start in others]
    bench.regions += [(t[array] + cut[0], t[array] + 9 * size + cut[1]), (0, 0)]
    bench.run(lambda: (bench.faults and bench.cycles > 200) or bench.done)
    if where == "fits":
        assert bench.done == 1
        assert not bench.faults
        assert len(bench.memory.written) == 9 * 8
    else:
        assert bench.faults == [(ErrorCode.WRITE_REGION, t["index"])]
        assert bench.memory.reads == len(bench.memory.written) == 0


def test_read_fault():
    bench = UpdateBench(TINY, seeded(4))
    t = bench.task(3 * chunk_weights(TINY), dry=0)
    first = t["out_addr"] + 4 * chunk_weights(TINY) + 8
    bench.memory.read_faults = {first, first + TINY.beat_bytes}  # the second isn't told again
    bench.run(lambda: bench.faults and bench.cycles > 3000)
    assert bench.faults == [(ErrorCode.READ_FAULT, t["index"])]
    assert bench.results == []
    assert bench.done == 0
    assert max(bench.memory.written) < t["out_addr"] + 4 * chunk_weights(TINY)


def test_write_fault():
    bench = UpdateBench(TINY, seeded(5))
    t = bench.task(20, dry=0)
    bench.memory.write_faults = 3
    bench.run(lambda: bench.faults and bench.cycles > 1000)
    assert bench.faults == [(ErrorCode.WRITE_FAULT, t["index"])]
    assert bench.results == []
    assert bench.done == 0


def test_slow_memory():
    """Requests and beats wait long at the port, short bursts at the end of a block too."""
    bench = UpdateBench(replace(TINY, max_burst_beats=4), seeded(8), stall=0.9)
    tasks = [bench.task(count, dry=0) for count in (chunk_weights(TINY) + 3, 9, 20)]
    results = [result for t in tasks for result in bench.expect(t)]
    bench.run(lambda: bench.done == len(tasks))
    assert bench.results == results
    assert [bench.memory.peek(*place) for *place, _ in bench.expected] == [value for *_, value in bench.expected]
    assert len(bench.memory.written) == sum(size for _, size, _ in bench.expected)
