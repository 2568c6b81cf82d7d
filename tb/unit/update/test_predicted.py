"""Update unit where gradients are predicted: whole commands on a model of memory, against the golden model."""

from dataclasses import replace

import pytest
from adagp.rtl.update.adam_lane import FOLD
from adagp.rtl.update.chunks import chunk_weights
from adagp.spec.errors import ErrorCode
from bench import seeded
from predicted_bench import KINDS, PREDICTED, PredictedBench

LOW = PREDICTED["tiny"]
WRITTEN = {"b_addr": 2, "c_addr": 2, "out_addr": 4, "d_addr": 8}


def without_tops(results):
    """Results without the top of tensors that are zero, where it says nothing."""
    return [(id, nonzero, top if nonzero else None) for id, nonzero, top in results]


@pytest.mark.parametrize("name", [
    "tiny", "four lanes", "streamed", pytest.param("eight lanes", marks=pytest.mark.slow),  # more of the same
])  # fmt: skip
def test_random_commands(name):
    config = PREDICTED[name]
    rng = seeded(11)
    bench = PredictedBench(config, rng)
    chunk = chunk_weights(config)
    plan = [(kind, rng.choice((1, 7, 13, 30)), rng.random() < 0.3) for kind in (*KINDS, *KINDS, *KINDS)]
    rng.shuffle(plan)
    plan += [
        ("quality", chunk + 3, 0),
        ("adam", chunk + 5, 0),
        ("zero", 2 * chunk, 0),
        ("keep", chunk + 9, 0),
        ("quality", 0, 0),
        ("adam", 0, 0),
    ]
    if name == "tiny":
        plan += [("adam", 3 * chunk, 0), ("quality", 3 * chunk, 0), ("given", 3 * chunk + 1, 0)]
    tasks = [bench.task(count, kind, dry=int(dry)) for kind, count, dry in plan]
    results = [result for t in tasks for result in bench.expect(t)]
    bench.run(lambda: bench.done == len(plan))
    assert bench.faults == []
    assert without_tops(bench.results) == results
    seen = [bench.memory.peek(*place) for *place, _ in bench.expected]
    assert seen == [value for *_, value in bench.expected]
    assert len(bench.memory.written) == sum(size for _, size, _ in bench.expected) > 0
    assert bench.saturations == bench.expected_saturations > 0
    assert [report for _, report in bench.qualities] == bench.expected_qualities
    before = [n for n, t in enumerate(tasks) if t.get("quality") and not t["dry"]]
    assert [n for n, _ in bench.qualities] == before != []
    assert bench.rates == sum(t.get("adam", 0) and not t["dry"] for t in tasks) > 0
    assert bench.frozen > 0


@pytest.mark.parametrize(("name", "kind", "per_weight", "share"), [
    ("tiny", "quality", 12, 0.6), ("tiny", "zero", 8, 0.6), ("tiny", "keep", 6, 0.6), ("tiny", "adam", 18, 0.9),
    ("folded", "adam", 18, 0.9),  # its group is a weight: Adam takes one in each of its turns
])  # fmt: skip
def test_throughput(name, kind, per_weight, share):
    """Memory that never stalls, at most a beat in and one out per cycle."""
    config = replace(LOW, update_cycles=3) if name == "folded" else PREDICTED[name]
    bench = PredictedBench(config, seeded(1), stall=0)
    count = 9 * chunk_weights(config)
    bench.task(count, kind, dry=0)
    bench.run(lambda: bench.done == 1)
    print(f"{count / bench.cycles:.2f} weights per cycle, start and end included")
    assert bench.done == 1
    assert bench.memory.reads * config.beat_bytes == count * per_weight
    assert count / bench.cycles >= share * min(1 / FOLD if kind == "adam" else 1, config.beat_bytes / per_weight)


@pytest.mark.parametrize("kind", ["given", "adam"])
def test_unaligned(kind):
    bench = PredictedBench(LOW, seeded(2))
    t = bench.task(5, kind)
    t["d_addr"] += 4
    bench.run(lambda: bench.faults and bench.cycles > 200)
    assert bench.faults == [(ErrorCode.BAD_ADDRESS, t["index"])]
    assert bench.memory.reads == len(bench.memory.written) == bench.done == 0


@pytest.mark.parametrize("array", WRITTEN)
@pytest.mark.parametrize("where", ["below", "above", "fits"])
def test_regions(array, where):
    bench = PredictedBench(LOW, seeded(3))
    t = bench.task(9, "adam", dry=0)
    cut = {"below": (8, 0), "above": (0, -1), "fits": (0, 0)}[where]
    bench.regions = [(t[name], t[name] + 9 * size) for name, size in WRITTEN.items() if name != array]
    bench.regions.append((t[array] + cut[0], t[array] + 9 * WRITTEN[array] + cut[1]))
    bench.run(lambda: (bench.faults and bench.cycles > 200) or bench.done)
    if where == "fits":
        assert bench.done == 1
        assert not bench.faults
        assert len(bench.memory.written) == 9 * 16
    else:
        assert bench.faults == [(ErrorCode.WRITE_REGION, t["index"])]
        assert bench.memory.reads == len(bench.memory.written) == 0


def test_errors_need_no_region():
    """Arrays that aren't written may lie anywhere."""
    bench = PredictedBench(LOW, seeded(4))
    t = bench.task(9, "quality", dry=0)
    bench.regions = [(t[name], t[name] + 9 * size) for name, size in WRITTEN.items() if name != "d_addr"] + [(0, 0)]
    bench.run(lambda: (bench.faults and bench.cycles > 200) or bench.done)
    assert bench.done == 1
    assert bench.faults == []
    assert len(bench.memory.written) == 9 * 8


@pytest.mark.parametrize(("kind", "size"), [("quality", 2), ("adam", 8)])
def test_read_fault(kind, size):
    """In the second chunk of the fifth array."""
    chunk = chunk_weights(LOW)
    bench = PredictedBench(LOW, seeded(5))
    t = bench.task(3 * chunk, kind, dry=0)
    bench.memory.read_faults = {t["d_addr"] + size * chunk + 8}
    bench.run(lambda: bench.faults and bench.cycles > 4000)
    assert bench.faults == [(ErrorCode.READ_FAULT, t["index"])]
    assert bench.results == bench.qualities == []
    assert bench.done == 0
    assert max(bench.memory.written, default=0) < t["out_addr"] + 4 * chunk + (kind == "adam") * (1 << 20)


def test_write_fault():
    bench = PredictedBench(LOW, seeded(6))
    t = bench.task(20, "adam", dry=0)
    bench.memory.write_faults = 4
    bench.run(lambda: bench.faults and bench.cycles > 1500)
    assert bench.faults == [(ErrorCode.WRITE_FAULT, t["index"])]
    assert bench.results == []
    assert bench.done == 0
