"""Timelines of a small network on the simulated hardware: held against program, counters, waits and memory."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
import torch
from adagp.evaluation.report.plots import plot_timeline
from adagp.host.devices.device import DeviceError
from adagp.host.devices.simulated import SimDevice
from adagp.host.training.network import Network
from adagp.host.training.timeline import TRACKS, Work, batches, read_trace, slices, trace, work
from adagp.sim.native_types import EVENT
from adagp.spec.commands import Opcode
from adagp.spec.phases import PHASE_TITLES
from adagp.spec.presets import preset
from adagp.spec.registers import Status
from random_programs import DESIGNS
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

SEED = 11
WARMUP, EVALUATION = 0, 3
CONFIG = preset("tiny")
BATCH, SHAPE, N_CLASSES = 3, (3, 9, 7), 5
GEMMS = ("forward", "backward_data", "backward_weight")
CORE = ("fill", "array", "drain", "store")
MEMORY = 1 << 20


def network(norms):
    torch.manual_seed(SEED)
    module = nn.Sequential(
        *([nn.Conv2d(3, 3, 3, padding=1, groups=3, bias=False), nn.BatchNorm2d(3), nn.ReLU()] if norms else []),
        nn.Conv2d(3, 6, 3, padding=1), *([nn.BatchNorm2d(6)] if norms else []), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 7, (2, 1), stride=2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(7, N_CLASSES),
    )  # fmt: skip
    return Network(module, SHAPE, BATCH, DESIGNS["baseline"] if norms else CONFIG), module.state_dict()


def batch(net, device, rng, phase, calibrate=False, count=1):
    """Run ``count`` batches of one start, with random images and gradients; returns the counters."""
    net.write_input(device, rng.random((BATCH, *SHAPE)))
    device.reset_counters()
    net.start(device, phase, batches=count, calibrate=calibrate)
    for _ in range(count):
        assert device.wait() & Status.HOST
        if phase == WARMUP:
            net.write_loss_gradient(device, rng.normal(size=(BATCH, N_CLASSES)))
        device.resume()
    assert device.wait() & Status.DONE
    return device.counters(phase)


def run(record, norms=False, **options):
    """Three batches of training, two of evaluation: slices, counters by start, cycles, memory."""
    print(f"seed {SEED}")
    net, state = network(norms)
    rng = np.random.default_rng(SEED)
    device = SimDevice(net.config, memory_bytes=MEMORY, seed=SEED, **options)
    net.load_state(device, state)
    net.set_hyper(device, 0.1, 0.9, 0.001)
    if record:
        device.record_events()
    counters = [batch(net, device, rng, WARMUP, calibrate=n == 0) for n in range(3)]
    counters.append(batch(net, device, rng, EVALUATION, count=2))
    events, cycles, memory = device.events, device.simulation.cycles, device.simulation.memory.copy()
    device.close()
    return net, events, counters, cycles, memory


KINDS = {"smooth": {}, "stalls": {"stall": 0.3, "write_latency": 40}, "norms": {"norms": True, "stall": 0.1}}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def recorded(request):
    net, events, counters, cycles, memory = run(True, **request.param)
    return net, slices(events, net.program), counters, cycles, memory, request.param


def executed(net, phase):
    """The commands of a phase that are work: (index, line)."""
    return [
        (index, line) for index, line in enumerate(net.program)
        if line.command.phase_mask >> phase & 1 and Opcode.FORWARD <= line.command.opcode <= Opcode.ADAM
    ]  # fmt: skip


def by_unit(found):
    return {unit: [s for s in found if s.unit == unit] for unit in TRACKS if any(s.unit == unit for s in found)}


# --- what is recorded ---------------------------------------------------------------------------


def test_recording_changes_nothing(recorded):
    *_, counters, cycles, memory, options = recorded
    _, events, same_counters, same_cycles, same_memory = run(False, **options)
    assert (counters, cycles) == (same_counters, same_cycles) and (memory == same_memory).all()
    assert events.size == 0 and events.dtype == EVENT


def test_a_unit_does_one_thing_at_a_time(recorded):
    _, found, *_ = recorded
    units = by_unit(found)
    assert list(units) == ["batch", *CORE, "update"]
    for track in units.values():
        assert len(track) >= 5
        assert all(before.end <= after.begin for before, after in itertools.pairwise(track))
        assert all(s.begin < s.end and (0 <= s.busy <= s.cycles or s.unit == "store") for s in track)


def test_every_command_has_its_slices(recorded):
    net, found, *_ = recorded
    expected = Counter()
    for number, phase in enumerate((WARMUP, WARMUP, WARMUP, EVALUATION, EVALUATION)):
        expected[number, "batch", 0, "", "", PHASE_TITLES[phase], False] += 1
        for (index, line), dry in itertools.product(executed(net, phase), (False, True)[: 1 + (number == 0)]):
            opcode = line.command.opcode
            for unit in ("update",) if opcode == Opcode.UPDATE else CORE:
                expected[number, unit, index, line.name, opcode.name.lower(), PHASE_TITLES[phase], dry] += 1
    seen = Counter((s.batch, s.unit, s.command, s.layer, s.opcode, s.phase, s.dry) for s in found)
    assert seen == expected and len(expected) > 100
    opcodes = {s.opcode for s in found}
    assert {"maxpool", "avgpool_backward", "backward_data", "update"} <= opcodes
    if net.config.batch_norm:
        assert {"norm_sums", "norm_constants", "norm_apply", "norm_backward", "depthwise"} <= opcodes


def test_the_array_works_as_long_as_the_counters_say(recorded):
    _, found, counters, *_ = recorded
    arrays = [s for s in found if s.unit == "array" and s.opcode in GEMMS]
    for numbers, counted in zip(((0,), (1,), (2,), (3, 4)), counters, strict=True):
        mine = [s for s in arrays if s.batch in numbers]
        assert sum(s.busy for s in mine) == counted["array_cycles"] > 0
        assert sum(s.cycles for s in mine) >= counted["array_cycles"]


def test_batch_norm_gives_a_vector_a_cycle(recorded):
    net, found, *_ = recorded
    passes = [s for s in found if s.unit == "array" and s.opcode == "norm_apply"]
    assert len(passes) == (2 * 5 + 2 if net.config.batch_norm else 0)  # two norms in five batches, and a dry run
    if passes:  # those in one tile wait for nothing
        assert min(s.cycles - s.busy for s in passes) < 30 < min(s.busy for s in passes)


def test_batches_hold_their_commands(recorded):
    _, found, counters, cycles, *_ = recorded
    whole = batches(found)
    assert [s.batch for s in whole] == [0, 1, 2, 3, 4] and whole[4].begin == whole[3].end and whole[-1].end <= cycles
    for numbers, counted in zip(((0,), (1,), (2,), (3, 4)), counters, strict=True):
        assert sum(s.cycles for s in whole if s.batch in numbers) >= counted["cycles"] > 0
    for s in found:
        assert whole[s.batch].begin <= s.begin < s.end <= whole[s.batch].end


def test_commands_begin_when_what_they_wait_for_is_stored(recorded):
    net, found, *_ = recorded
    waited = 0
    for number, phase in ((0, WARMUP), (1, WARMUP), (2, WARMUP), (4, EVALUATION)):
        mine = {(s.command, s.unit): s for s in found if s.batch == number and not s.dry}
        ends, begins = {"store": [], "update": []}, {"store": "fill", "update": "update"}
        for index, line in executed(net, phase):
            last = "update" if line.command.opcode == Opcode.UPDATE else "store"
            begin = mine[index, begins[last]].begin
            for wait, kind in ((line.command.wait_main, "store"), (line.command.wait_update, "update")):
                waited += wait > 0
                assert wait == 0 or begin >= ends[kind][wait - 1]
            ends[last].append(mine[index, last].end)
        assert ends["store"] == sorted(ends["store"]) and ends["update"] == sorted(ends["update"])
    assert waited > 30


def test_results_pass_from_unit_to_unit(recorded):
    net, found, *_ = recorded
    checked = 0
    for (_, index, dry), group in itertools.groupby(
        sorted((s for s in found if s.unit in CORE), key=lambda s: (s.batch, s.command, s.dry)),
        key=lambda s: (s.batch, s.command, s.dry),
    ):
        fill, array, drain, store = sorted(group, key=lambda s: CORE.index(s.unit))
        assert fill.begin < array.begin <= drain.end and array.begin < drain.end <= store.end
        assert fill.end < drain.end and array.end <= drain.end
        c = net.program[index].command
        results = {"forward": c.n * c.oh * c.ow * c.q, "backward_data": c.n * c.h * c.w * c.c}.get(fill.opcode, 1)
        beats = -(-results * CONFIG.operand_bytes // CONFIG.beat_bytes)
        assert store.busy == 0 if dry else store.busy >= beats > 0
        checked += 1
    assert checked > 40


def test_a_program_that_fails_leaves_no_trace_on_the_next(recorded):
    *_, options = recorded
    net, state = network(options.get("norms", False))
    rng = np.random.default_rng(SEED)
    options = {name: value for name, value in options.items() if name != "norms"}
    device = SimDevice(net.config, memory_bytes=MEMORY, seed=SEED, **options)
    net.load_state(device, state)
    net.set_hyper(device, 0.1, 0.9, 0.001)
    batch(net, device, rng, WARMUP, calibrate=True)
    device.record_events()
    device.set_regions([])
    with pytest.raises(DeviceError):
        batch(net, device, rng, WARMUP)
    net.install(device)
    batch(net, device, rng, WARMUP)
    found = slices(device.events, net.program)
    assert [s.batch for s in batches(found)] == [1]
    seen = Counter((s.unit, s.command) for s in found if s.batch == 1 and s.unit != "batch")
    assert len(seen) == sum(4 - 3 * (line.command.opcode == Opcode.UPDATE) for _, line in executed(net, WARMUP))
    assert set(seen.values()) == {1} and any(s.batch == 0 for s in found)
    device.record_events(False)
    batch(net, device, rng, WARMUP)
    assert slices(device.events, net.program) == found
    device.record_events()
    assert device.events.size == 0
    device.close()


# --- what is made of it -------------------------------------------------------------------------


def test_trace(recorded, tmp_path):
    net, found, *_ = recorded
    made = trace(found, CONFIG)
    (tmp_path / "timeline.json").write_text(json.dumps(made))
    assert read_trace(tmp_path / "timeline.json") == sorted(found, key=lambda s: (s.begin, TRACKS.index(s.unit)))
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in made["traceEvents"] if e["name"] == "thread_name"}
    assert list(names.values()) == ["batch", *CORE, "update"]
    events = [event for event in made["traceEvents"] if event["ph"] == "X"]
    assert len(events) == len(found) and {e["ph"] for e in made["traceEvents"]} == {"M", "X"}
    for event in events:
        args = event["args"]
        assert names[event["pid"], event["tid"]] == args["unit"] and event["dur"] > 0 and event["cat"] in PHASE_TITLES
        assert event["ts"] * CONFIG.clock_hz == pytest.approx(args["begin"] * 1e6)
        assert event["dur"] * CONFIG.clock_hz == pytest.approx(args["cycles"] * 1e6)
        assert args["cycles"] == args["end"] - args["begin"]
    first = next(f"{line.name} {line.command.opcode.name.lower()} warm-up" for _, line in executed(net, WARMUP))
    assert {first, f"{first} dry", "batch 4 evaluation"} <= {event["name"] for event in events}


def test_work(recorded):
    _, found, *_ = recorded
    sums = work(found)
    assert {unit for *_, unit in sums} == {*CORE, "update"} and {phase for phase, *_ in sums} == {
        "warm-up",
        "evaluation",
    }
    for (phase, layer, opcode, unit), one in sums.items():
        mine = [s for s in found if (s.phase, s.layer, s.opcode, s.unit) == (phase, layer, opcode, unit) and not s.dry]
        assert one == Work(len(mine), sum(s.end - s.begin for s in mine), sum(s.busy for s in mine))
        assert one.slices % (3 if phase == "warm-up" else 2) == 0
    assert sum(one.slices for one in sums.values()) == sum(s.unit != "batch" and not s.dry for s in found) > 0


def test_plot(recorded, tmp_path):
    _, found, *_ = recorded
    plot_timeline(found, "a title", tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")
