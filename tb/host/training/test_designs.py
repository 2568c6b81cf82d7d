"""The designs that predict gradients train to the same bits as the golden model, and so as each other."""

from collections import Counter
from functools import cache

import pytest
from adagp.host.training.timeline import batches, slices
from adagp.spec.commands import Opcode
from adagp.spec.phases import EVALUATION, PHASE_TITLES
from scheduled_runs import GP_VARIANTS, SEED, Run, differences, golden, settings, simulated

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

BATCHES = [[1, 0, 0], [2, 0, 0], [3, 0, 0], [4, 0, 0], [4, 1, 3], [4, 2, 4], [4, 3, 5]]
"""Batches of warm-up, BP and GP after each start."""


@cache
def expected(name, source="predicted"):
    """The golden model's run: the initial weights' hash and what each start left behind."""
    run = Run(name, golden(), settings(name, gradient_source=source))
    return run.initial, run.go()


def train(name, variant, source="predicted", stall=0.2):
    device = simulated(variant, stall=stall, seed=SEED)
    run = Run(name, device, settings(name, variant=variant, gradient_source=source))
    run.go()
    device.close()
    return run


@pytest.mark.parametrize("variant", GP_VARIANTS)
@pytest.mark.parametrize("name", ["strides", "pools", "linear"])
def test_each_design_equals_golden_after_every_start(name, variant):
    initial, starts = expected(name)
    run = train(name, variant)
    assert differences(starts, run.seen) == []
    assert run.initial == initial
    assert [start["batches"] for start in run.seen] == BATCHES
    hashes = [initial, *(start["hash"] for start in run.seen)]
    assert len(set(hashes)) == len(hashes)  # every start changed the weights


@pytest.mark.parametrize("size", [
    pytest.param("ecp5", marks=pytest.mark.slow),  # tiny but for deeper memories
    "paper",
])  # fmt: skip
def test_larger_designs_equal_golden(size):
    """The predictor's array is of other sizes than the main one; several lanes update weights."""
    found = []
    for device in (golden("max", size), simulated("max", size, stall=0.2, seed=SEED)):
        run = Run("narrow", device, settings("narrow", preset=size))
        found.append(run.go())
        device.close()
    assert differences(*found) == []
    assert found[1][-1]["batches"] == BATCHES[-1]


@pytest.mark.parametrize("variant", ["low", "max"])
def test_timelines_have_what_drains_and_stores_every_command(variant):
    """REORGANISE too, whose sums the drain has; the predictor's commands where they are computed."""
    device = simulated(variant, stall=0.2, seed=SEED)
    trained = Run("narrow", device, settings("narrow", variant=variant))
    device.record_events()
    trained.go()
    found = [s for s in slices(device.events, trained.network.program) if s.phase != PHASE_TITLES[EVALUATION]]
    device.close()  # without evaluations, among which are programs that copy the predictor's weights
    expected = Counter()
    for one in batches(found):
        for index, line in enumerate(trained.network.program):
            command, phase = line.command, PHASE_TITLES.index(one.phase)
            if not (command.phase_mask >> phase & 1 and Opcode.FORWARD <= command.opcode <= Opcode.ADAM):
                continue
            owner = "predictor " * (variant == "max" and bool(command.predictor))
            updates = command.opcode in (Opcode.UPDATE, Opcode.ADAM)
            for unit in ("update",) if updates else (f"{owner}drain", f"{owner}store"):
                expected[one.batch, unit, index] += 1
    seen = Counter((s.batch, s.unit, s.command) for s in found
                   if not s.dry and s.unit.endswith(("drain", "store", "update")))  # fmt: skip
    assert seen == expected and {s.opcode for s in found if s.unit == "drain"} >= {
        "forward",
        "backward_data",
        "backward_weight",
        "reorganise",
    }


def test_warm_up_alone_is_the_baseline():
    """Whose gradients are all true ones; the predictor learns beside them and touches nothing."""
    hashes = {}
    for variant in ("baseline", *GP_VARIANTS):
        device = simulated(variant)
        run = Run("pools", device, settings("pools", variant=variant, epochs=2, warmup_epochs=2))
        hashes[variant] = [start["hash"] for start in run.go()]
        device.close()
        assert run.initial not in hashes[variant] and len(set(hashes[variant])) == 8
    assert all(found == hashes["baseline"] for found in hashes.values())
    assert hashes["max"] != [start["hash"] for start in expected("pools")[1]]


@pytest.mark.parametrize(("source", "variant"), [("zero", "low"), ("last", "efficient"), ("mean", "max")])
def test_sources_without_predictor_equal_golden(source, variant):
    initial, starts = expected("strides", source)
    run = train("strides", variant, source)
    assert differences(starts, run.seen) == []
    assert [start["batches"] for start in run.seen] == BATCHES
    last = {kind: expected("strides", kind)[1][-1]["hash"] for kind in (source, "predicted")}
    assert len({initial, *last.values()}) == 3
