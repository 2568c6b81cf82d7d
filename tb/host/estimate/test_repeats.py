"""Repeated work is left out of an estimate: the same bytes and products as without, nearly the same cycles."""

from dataclasses import replace

import pytest
import torch
from adagp.evaluation.instruments.estimates import estimated
from adagp.host.devices.estimator import EstimatorDevice
from adagp.host.estimate.core import Task
from adagp.host.estimate.repeats import DEEP, Mark, Pace, Run, Shape, kinds, runs
from adagp.host.estimate.repeats import Known as Shapes
from adagp.host.training.network import Network
from adagp.spec.commands import FIELDS, Command, Opcode
from adagp.spec.microcode.descriptors import ENGINES
from adagp.spec.microcode.machine import task
from adagp.spec.phases import BP, GP, PHASE_NAMES, WARMUP
from adagp.spec.presets import preset
from random_programs import DESIGNS
from torch import nn

SEED = 7


def test_kinds_leave_out_places():
    drain = list(ENGINES).index("drain")
    row, summed, columns = (
        next(n for n, bits in enumerate(ENGINES["drain"]) if bits.name == name)
        for name in ("row", "reorganise", "n_in")
    )  # fmt: skip
    plain = [(0, drain, {columns: 5, row: 1}), (9, drain, {columns: 5, row: 2}), (9, drain, {columns: 6, row: 1})]
    assert kinds(plain) == [0, 0, 1]
    assert kinds([(0, drain, {**slots, summed: 1}) for _, _, slots in plain]) == [0, 1, 2]


def test_runs_by_hand():
    tile = list(range(1, DEEP + 1))
    assert runs(tile * 6) == [Run(0, DEEP, 6)]
    (run,) = runs([99, *tile * 6, 98])
    assert (run.step, run.times) == (DEEP, 6) and run.first == 1
    assert runs([1, 2] * 4 * DEEP) == [Run(0, DEEP, 8)]  # steps are long enough
    assert runs(list(range(200))) == runs(tile) == []


def test_what_is_under_way_must_be_alike():
    """From a mark one can go on at the last mark before which the same kinds of descriptors were pushed."""
    shape = Shape([(0, 0, {})] * 200, 0, ("", None), [], {30: (1, 2), 60: (3, 4), 90: (1, 2), 190: (1, 2)})
    shape.learn({at: Mark(10 * at, ()) for at in (30, 60, 90, 190)})
    assert shape.last == {(1, 2): 90, (3, 4): 60}  # 190 is too near to the end
    shape.learn({30: Mark(0, ())})
    assert len(shape.marks) == 4


def test_a_tensor_with_itself_is_another_shape():
    """Sums of squares read a tensor once, wherever those of products have their second one."""
    fields = {field.name: 0 for field in FIELDS} | {"a_addr": 1 << 20, "n": 2, "h": 4, "w": 4, "c": 4, "q": 4}
    keys = set()
    for b_addr in (1 << 20, 1 << 21, 1 << 22):
        command = Command(Opcode.NORM_SUMS, {**fields, "b_addr": b_addr})
        own = {name: getattr(command, name) for name in fields} | {"opcode": int(command.opcode)}
        keys.add(Task(command, task(own), preset("tiny"), range(0)).key(4096))
    assert len(keys) == 2


def test_steps_keep_pace():
    pace = Pace(Run(0, DEEP, 9))
    cycles = (0, 120, 220, 321)
    found = [pace.reached(3, Mark(cycle, (cycle / 2,))) for cycle in cycles]
    assert found == [None, None, None, Mark(101, (50.5,))]
    assert pace.reached(None, Mark(400, (0.0,))) is None  # another unit works, so all begins again
    assert [pace.reached(3, Mark(cycle, (0.0,))) for cycle in (500, 600)] == [None, None]
    assert pace.reached(3, Mark(700, (0.0,))) == Mark(100, (0.0,))
    assert pace.reached(4, Mark(800, (0.0,))) is None  # a command has begun elsewhere in between


@pytest.mark.parametrize("variant", ["baseline", "max"])
def test_nothing_but_time_is_lost(variant):
    torch.manual_seed(SEED)
    block = [nn.Conv2d(12, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU()]
    module = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), *block,
        nn.Conv2d(12, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(12 * 64, 10),
    )  # fmt: skip
    config = DESIGNS[variant]
    network = Network(module, (3, 16, 16), 12, config, source="predicted" if config.predicts else None)
    phases = (WARMUP, BP, GP) if config.predicts else (BP,)
    known = Shapes()
    whole, brief = estimated(network, phases), estimated(network, phases, known)
    for phase in phases:
        name = PHASE_NAMES[phase]
        ours, theirs = brief[name].counters, whole[name].counters
        print(name, ours, theirs)
        assert brief[name].moved == whole[name].moved != {}
        for exact in ("macs", "array_cycles", "predictor_macs", "predictor_cycles", "commands"):
            assert ours[exact] == theirs[exact]
        assert ours["cycles"] == pytest.approx(theirs["cycles"], rel=0.005)
        stalls = [counter for counter in ours if counter.startswith("stall_")]
        assert ours["cycles"] == ours["array_cycles"] + sum(ours[stall] for stall in stalls) > 10_000
        for unit, cycles in whole[name].busy.items():
            assert brief[name].busy[unit] == pytest.approx(cycles, rel=0.02, abs=50)
    device = EstimatorDevice(config, known)
    network.install(device)
    device.start(network.program, BP)
    device.wait()
    assert device.left_out > 0.3 * device.counters(BP)["cycles"]


def test_a_program_whose_predictor_memory_lies_elsewhere():
    """Bytes on chip stay on chip, though commands of the same shape are known of another program."""
    torch.manual_seed(SEED)
    module = nn.Sequential(
        nn.Conv2d(4, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.Flatten(), nn.Linear(1024, 10)
    )
    config, known = replace(preset("paper"), variant="max"), Shapes()
    networks = [Network(module, (4, 8, 8), 4, config, source="predicted", predictor_every=n) for n in (1, 2)]
    assert len({network.compiled.window.start for network in networks}) == 2
    for network in networks:
        ours, theirs = estimated(network, (GP,), known)["gp"].moved, estimated(network, (GP,))["gp"].moved
        assert ours == theirs and any(way == "chip" for _, _, way in ours)
