"""Schedules: legal for many devices and micro-batches; steps, idle shares, memory and staleness as known."""

from fractions import Fraction

import pytest
from adagp.host.pipelines.checking import check
from adagp.host.pipelines.counts import StepCounter, idle_share, memory, staleness
from adagp.host.pipelines.schedules import SCHEDULES, build, parse_batches
from adagp.host.pipelines.steps import PipelineError, What
from adagp.host.pipelines.timing import Durations, timed
from adagp.spec.phases import BP, GP, WARMUP

SLOW = Durations(3, Fraction(1, 4), Fraction(1, 2))
SIZES = [(1, 1), (2, 2), (2, 5), (3, 3), (3, 6), (4, 2), (4, 4), (5, 3), (6, 6), (4, 8)]


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_legal(name):
    made = 0
    for devices, micro_batches in SIZES:
        if SCHEDULES[name].rule(devices, micro_batches):
            continue
        for batches, durations in (((BP,), Durations()), ((GP, GP), Durations()), ((BP, GP, BP), SLOW)):
            schedule = build(name, devices, micro_batches, batches)
            timeline = timed(schedule, durations)
            check(timeline)
            forwards = [slot for slot in timeline.slots if slot.what is What.FORWARD]
            assert len(forwards) == len(batches) * micro_batches * schedule.stages
            made += 1
    assert made >= 9


@pytest.mark.parametrize(("name", "alone", "after_one", "after_four"), [
    ("gpipe", 21, 25, 37), ("1f1b", 21, 25, 37), ("chimera", 16, 20, 32), ("zb-h1", 15, 19, 31),
    ("interleaved", 16.5, 20.5, 32.5),
])  # fmt: skip
def test_steps_of_four_devices(name, alone, after_one, after_four):
    """The first three, alone and after one GP batch: the paper's figures 10 to 12."""
    counter = StepCounter(name, 4, 4)
    assert (counter.steps(BP), counter.steps(GP, BP), counter.steps(*[GP] * 4, BP)) == (alone, after_one, after_four)
    assert (counter.lasting(BP), counter.lasting(GP), counter.lasting(GP, BP)) == (alone, 4, alone + 4)


@pytest.mark.parametrize(("d", "m"), [(2, 2), (2, 4), (4, 4), (4, 8), (6, 6), (8, 8)])
def test_closed_forms(d, m):
    shares = {name: idle_share(timed(build(name, d, m))) for name in ("gpipe", "1f1b", "zb-h1")}
    assert shares["gpipe"] == shares["1f1b"] == Fraction(d - 1, m + d - 1)
    assert shares["zb-h1"] == Fraction(d - 1, 3 * m + d - 1)
    for chunks in (2, 3):
        assert timed(build("interleaved", d, m, chunks=chunks)).end == 3 * m + Fraction(3 * (d - 1), chunks)
    chimera = timed(build("chimera", d, m)).end
    assert chimera == 3 * m + 2 * d - 4 if m == d else 3 * m <= chimera <= 3 * m + 2 * d - 4
    assert StepCounter("chimera", d, m).lasting(GP) == m


@pytest.mark.parametrize(("d", "m"), [(2, 4), (4, 2), (4, 4), (4, 8)])
def test_memory(d, m):
    assert memory(timed(build("gpipe", d, m))) == [m] * d
    assert memory(timed(build("1f1b", d, m))) == [min(d - device, m) for device in range(d)]
    assert memory(timed(build("zb-h1", d, m))) == [min(d, m)] * d
    assert memory(timed(build("stale-1f1b", d, m, (BP,) * 4))) == [d - device for device in range(d)]
    assert memory(timed(build("1f1b", d, m, (GP, GP)))) == [1] * d
    if m % d == 0:  # with two chunks a device, in halves of a micro-batch's activations
        ahead = [2 * (d - device - 1) + d + 1 for device in range(d)]
        assert memory(timed(build("interleaved", d, m))) == [Fraction(min(chunks, 2 * m), 2) for chunks in ahead]
    if m >= d:
        assert memory(timed(build("chimera", d, d)))[0] == d / 2 + 1


@pytest.mark.parametrize("d", [1, 2, 3, 5, 7])
def test_staleness(d):
    """1F1B without a flush misses as many updates as stages follow, the registers twice as many; none reads old ones
    backward."""
    assert staleness(timed(build("stale-1f1b", d, 4, (BP,) * 5))) == [(d - 1 - s, d - 1 - s) for s in range(d)]
    if d % 2:
        last = d // 2
        found = staleness(timed(build("stale-registers", d, 4, (BP,) * 5)))
        assert found == [(2 * (last - s), 2 * (last - s)) for s in range(last + 1)]
        assert found == staleness(timed(build("stale-paired", last + 1, 4, (BP,) * 5)))
    for name in ("gpipe", "zb-h1"):
        assert staleness(timed(build(name, d, 4, (BP, GP, BP)))) == [(0, 0)] * d


@pytest.mark.parametrize("name", ["stale-1f1b", "stale-paired"])
def test_stale_weights_leave_no_bubbles_in_bp(name):
    for d, m in ((2, 1), (4, 4), (5, 3)):
        counter = StepCounter(name, d, m)
        assert (counter.lasting(BP), counter.lasting(GP), counter.idle(BP)) == (3 * m, m, 0)
    # the middle device's tick is a forward and a backward step, 3/2 longer with two stages on three devices
    assert StepCounter("stale-registers", 3, 4).lasting(BP) == 4 * 3 * Fraction(3, 2)


def test_paired_registers_hide_a_latency_that_stops_1f1b():
    """A micro-batch's way through d stages and back takes 3 d steps and 2 (d - 1) latencies; so many are under way."""
    slow, d = Durations(latency=Fraction(1)), 4
    found = [StepCounter(name, d, 8, slow).lasting(BP) / 8 for name in ("stale-1f1b", "stale-paired")]
    assert found == [max(3, Fraction(3 * d + 2 * (d - 1), under_way)) for under_way in (d, 2 * d - 1)] == [4.5, 3]


def test_a_link_delays_every_boundary():
    late = timed(build("gpipe", 4, 4), Durations(latency=Fraction(1, 2)))
    check(late)
    assert late.end == 21 + 6 * Fraction(1, 2)


@pytest.mark.parametrize(("arguments", "message"), [
    (("pipedream",), "schedule = 'pipedream' must be one of gpipe, 1f1b, "),
    (("gpipe", 0), "devices = 0 must satisfy 1 <= devices <= 64"),
    (("gpipe", 4, 257), "micro_batches = 257 must satisfy"),
    (("gpipe", 4, 4, ()), "number of batches = 0 must satisfy"),
    (("gpipe", 4, 4, (WARMUP,)), "phase 0 of a batch must be BP"),
    (("interleaved", 4, 4, (BP,), 1), "chunks = 1 must satisfy 2 <= chunks"),
    (("interleaved", 4, 6), "micro_batches = 6 must be a multiple of devices = 4"),
    (("interleaved", 1, 6), "devices = 1 must be at least 2"),
    (("chimera", 3, 4), "devices = 3 must be even"),
    (("chimera", 4, 2), "micro_batches = 2 must be even and at least the number of devices, 4"),
    (("chimera", 4, 5), "micro_batches = 5 must be even"),
    (("stale-registers", 4, 4), "devices = 4 must be odd"),
    (("gpipe", 64, 256, (BP,) * 64), "must be at most 100,000"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(PipelineError) as refused:
        build(*arguments)
    assert message in str(refused.value)


def test_batches_and_durations_are_checked():
    assert parse_batches("bp,gp,bp") == (BP, GP, BP)
    for text, message in (("bp,,gp", "not ''"), ("warmup", "not 'warmup'")):
        with pytest.raises(PipelineError, match=message):
            parse_batches(text)
    for values, message in (({"backward": 0}, "backward = 0 must be"), ({"latency": -1}, "latency = -1 must be")):
        with pytest.raises(PipelineError, match=message):
            Durations(**values)
