"""The checker: each of its rules is broken once, and reported."""

from dataclasses import replace

import pytest
from adagp.host.pipelines.checking import check, faults
from adagp.host.pipelines.schedules import build
from adagp.host.pipelines.steps import PipelineError, What
from adagp.host.pipelines.timing import Durations, timed
from adagp.spec.phases import BP, GP

F, B, U = What.FORWARD, What.BACKWARD, What.UPDATE


def spoilt(name, change, what, stage, micro_batch, batch=0, devices=4, batches=(BP, GP, BP), durations=None):
    """The faults of a timeline of which one slot is changed; None takes the slot away."""
    timeline = timed(build(name, devices, 4, batches), durations)
    check(timeline)
    (slot,) = (
        one for one in timeline.slots
        if (one.what, one.step.stage, one.step.micro_batch, one.step.batch) == (what, stage, micro_batch, batch)
    )  # fmt: skip
    slots = [one for one in timeline.slots if one is not slot] + [*change(slot)]
    return list(faults(replace(timeline, slots=tuple(slots))))


def moved(by):
    return lambda slot: [replace(slot, begin=slot.begin + by, end=slot.end + by)]


def test_a_missing_step():
    found = spoilt("1f1b", lambda slot: [], B, 2, 1)
    assert found[0] == "missing: B of stage 2, batch 0 (bp), micro-batch 1"


def test_a_step_twice():
    found = spoilt("1f1b", lambda slot: [slot, *moved(100)(slot)], B, 0, 3, batch=2)
    assert "2 times: B of stage 0, batch 2 (bp), micro-batch 3" in found


def test_a_backward_step_in_gp():
    def backward(slot):
        return [slot, replace(slot, begin=slot.end, end=slot.end + 2, step=replace(slot.step, what=B))]

    assert "not of this schedule: B of stage 0, batch 1 (gp), micro-batch 3" in spoilt("1f1b", backward, F, 0, 3, 1)


def test_the_wrong_device():
    found = spoilt("gpipe", lambda slot: [replace(slot, device=3)], F, 0, 0)
    assert "on device 3 instead of 0: F of stage 0, batch 0 (bp), micro-batch 0" in found


def test_the_wrong_duration():
    found = spoilt("gpipe", lambda slot: [replace(slot, end=slot.end - 1)], B, 0, 3)
    assert [fault.partition(":")[0] for fault in found] == ["from 19 to 20 instead of for 2"]


def test_two_things_at_once():
    found = spoilt("gpipe", moved(-1), B, 0, 3)
    assert any(fault.startswith("device 0 does two things at 18: B of stage 0") for fault in found)


@pytest.mark.parametrize(("what", "stage", "needed"), [
    (F, 1, "F of stage 0"), (B, 3, "F of stage 3"), (B, 0, "B of stage 1"),
])  # fmt: skip
def test_a_step_before_what_it_needs(what, stage, needed):
    found = spoilt("1f1b", moved(-1), what, stage, 0)
    assert any("before " + needed in fault and fault.startswith("begins at ") for fault in found)


def test_weights_gradients_before_those_of_the_input():
    found = spoilt("zb-h1", moved(-2), What.BACKWARD_WEIGHT, 0, 0)
    assert any("before I of stage 0" in fault for fault in found)


def test_a_link_takes_its_time():
    found = spoilt("gpipe", moved(-1), F, 1, 0, durations=Durations(latency=2))
    assert found == [
        "begins at 2, before F of stage 0, batch 0 (bp), micro-batch 0 has come at 3: "
        "F of stage 1, batch 0 (bp), micro-batch 0",
    ]  # fmt: skip


def test_weights_that_are_too_old():
    """Both the lists' rule and the count of updates see it."""
    found = spoilt("gpipe", moved(-20), F, 3, 0, batch=1)
    assert any("before U of stage 3, batch 0" in fault for fault in found)
    assert "reads weights after 0 updates instead of 1 (or 0 fewer): F of stage 3, batch 1 (gp), micro-batch 0" in found
    found = spoilt("stale-1f1b", moved(-30), F, 1, 0, batch=2)
    assert any("instead of 8 (or 2 fewer): F of stage 1" in fault for fault in found)


def test_weights_that_are_too_new():
    found = spoilt("gpipe", moved(-30), U, 0, None, batch=2)
    assert any(fault.startswith("reads weights after 3 updates instead of 2 ") for fault in found)


def test_an_update_before_the_other_replica_has_its_gradients():
    timeline = timed(build("chimera", 4, 4))
    check(timeline)
    updates = {(s.step.replica, s.step.stage): s for s in timeline.slots if s.what is U}
    early = updates[0, 3]
    slots = [*(s for s in timeline.slots if s is not early), replace(early, begin=early.begin - 6, end=early.end - 6)]
    assert any("replica 1" in fault for fault in faults(replace(timeline, slots=tuple(slots))))


def test_a_step_before_its_tick():
    def early(slot):
        return [replace(slot, step=replace(slot.step, tick=slot.step.tick + 5))]

    found = spoilt("stale-registers", early, F, 0, 3, devices=5, batches=(BP,))
    assert any(", before tick 8: F of stage 0" in fault for fault in found)


def test_check_names_the_first_faults():
    timeline = timed(build("gpipe"))
    with pytest.raises(PipelineError, match=r"gpipe isn't legal: missing: .*; missing: .*; missing: .*; \.\.\."):
        check(replace(timeline, slots=timeline.slots[:-6]))


def test_lists_that_wait_for_each_other():
    schedule = build("1f1b")
    first = schedule.lists[0]
    lists = ((*first[4:5], *first[:4], *first[5:]), *schedule.lists[1:])
    with pytest.raises(PipelineError, match=r"the devices wait for each other: device 0 at B of stage 0.*device 1 at "):
        timed(replace(schedule, lists=lists))
