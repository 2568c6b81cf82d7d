"""Layers larger than the predictor was sized for: the host says so, and the machine refuses their commands."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from adagp.host.compiler.compiler import compile_network
from adagp.host.compiler.ir import BACKPROPAGATION
from adagp.host.compiler.lowering import LoweringError, lower
from adagp.host.compiler.mapping import choose_mapping
from adagp.host.compiler.tensors import predictor_tensor
from adagp.host.devices.device import DeviceError
from adagp.host.program import Line, Program, header
from adagp.spec.commands import Command, Opcode, Phase
from adagp.spec.errors import ErrorCode
from adagp.spec.phases import BP
from adagp.spec.registers import Status
from scheduled_runs import GP_VARIANTS, NETWORKS, SEED, Run, config_of, differences, golden, settings, simulated
from small_networks import N_CLASSES
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

MOST = config_of("max").n_filters
SOURCE, WEIGHTS, RESULT, SUMS, END = 0x2000, 0x4000, 0x8000, 0xA000, 0xC000
GP = 2


CASES = pytest.mark.parametrize(("module", "shape", "says"), [
    (nn.Linear(4, MOST + 1), (4,), "0.Linear (129 filters, the predictor of tiny is for 128)"),
    (nn.Linear(1153, 3), (1153,), "0.Linear (1153 weights in a filter, the predictor of tiny is for 1152)"),
])  # fmt: skip


@pytest.mark.parametrize("variant", GP_VARIANTS)
@CASES
def test_a_network_of_too_large_layers_is_refused_by_name(variant, module, shape, says):
    config = config_of(variant)
    layers = lower(nn.Sequential(module), shape, config)
    with pytest.raises(LoweringError) as refused:
        compile_network(layers, 2, config, source="predicted")
    assert str(refused.value) == f"no layer can be predicted: {says}"
    assert compile_network(layers, 2, config, source="zero").program  # which takes no predictor
    fits = compile_network(layers, 2, replace(config, n_filters=129, n_predicted=1153), source="predicted")
    assert fits.program and not fits.source.unpredicted


@CASES
def test_a_layer_too_large_is_left_out_and_named(module, shape, says):
    config, (q, c) = config_of("max"), (module.out_features, module.in_features)
    layers = lower(nn.Sequential(module, nn.ReLU(), nn.Linear(q, 5)), shape, config)
    compiled = compile_network(layers, 2, config, source="predicted")
    assert compiled.source.told == says
    lines = [line.command for line in compiled.program if line.name == layers[0].name]
    updates = [command for command in lines if command.opcode == Opcode.UPDATE]
    assert [command.phase_mask for command in updates] == [int(BACKPROPAGATION)]
    assert not any(command.predictor or command.reorganise or command.quality for command in lines)
    others = [line.command for line in compiled.program if line.name == layers[-1].name]
    assert any(command.phase_mask & Phase.GP and command.opcode == Opcode.UPDATE for command in others)
    rows = compiled.tensors[predictor_tensor("weight", "fc")].shape[0]
    assert rows == q != c  # as many as the other layer needs


def test_a_window_too_large_is_left_out():
    """Sums over more results than an accumulator is sure to hold are refused by the machine."""
    config = replace(config_of("max"), acc_width=41)
    layers = lower(nn.Sequential(nn.Conv2d(1, 2, 1), nn.MaxPool2d(8), nn.Conv2d(2, 2, 1)), (1, 8, 8), config)
    compiled, most = compile_network(layers, 40, config, source="predicted"), config.max_average_taps
    assert 640 > most >= 40
    limit = f"640 results of a filter in a window, the predictor of tiny is for {most}"
    assert compiled.source.told == f"0.Conv2d ({limit})"


@pytest.mark.parametrize("variant", ["low", "max"])
def test_a_layer_left_out_stays_in_gp_and_trains_in_bp(variant, monkeypatch):
    """Simulation and golden model agree on every bit; the first layer is too large for the predictor."""
    monkeypatch.setitem(NETWORKS, "large", (batch := 9, shape := (1, 4, 7), lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(28, MOST + 1), nn.ReLU(), nn.Linear(MOST + 1, N_CLASSES),
    )))  # fmt: skip
    chosen = replace(settings("linear"), variant=variant)
    runs = [Run("large", device, chosen) for device in (simulated(variant), golden(variant))]
    assert all(list(run.network.compiled.source.unpredicted) == ["1.Linear"] for run in runs)
    assert not differences(*(run.go() for run in runs))
    weights = ("1.Linear.weight", "3.Linear.weight")
    for run in runs:
        states = [{name: run.network.read(run.device, name) for name in weights}]
        for phase in (GP, BP):
            run.network.write_input(run.device, np.random.default_rng(SEED).random((batch, *shape)))
            run.network.start(run.device, phase)
            run.network.wait(run.device)
            if phase == BP:
                run.network.write_loss_gradient(run.device, np.full((batch, N_CLASSES), 0.1))
                run.device.resume()
                run.network.wait(run.device)
            states.append({name: run.network.read(run.device, name) for name in weights})
        moves = [[bool((before[name] != after[name]).any()) for name in weights] for before, after in pairwise(states)]
        assert moves == [[False, True], [True, True]]
        run.device.close()


def commands(filters, values):
    """A layer of 1x1 with so many ``filters``, whose sums are taken; ``values`` taken out of them."""
    ones = dict.fromkeys(("n", "h", "w", "oh", "ow", "r", "s", "stride"), 1)
    places = {"a_addr": SOURCE, "b_addr": WEIGHTS, "out_addr": RESULT}
    yield Opcode.FORWARD, {**ones, "c": 4, "q": filters, "reorganise": 1, **places}
    yield Opcode.REORGANISE, {**ones, "c": values, "q": values, "const_mantissa": 1, "wait_main": 1, "out_addr": SUMS}


def run(device, filters, values):
    """Status or error of the program, and memory behind it."""
    config = device.config
    device.set_regions([(RESULT, END)])
    device.write(0, np.zeros(END, np.uint8))
    device.write(SOURCE, np.arange(1, 5, dtype="<i2"))
    device.write(WEIGHTS, np.random.default_rng(SEED).integers(-99, 99, 5 * (MOST + 1)).astype("<i2"))
    lines = [Line(header(config))]
    for opcode, fields in commands(filters, values):
        fields["phase_mask"] = 15
        fields |= choose_mapping(Command(opcode, fields), config, opcode.name).fields()
        lines.append(Line(Command(opcode, fields)))
    program = Program([*lines, Line(Command(Opcode.END, {"phase_mask": 15}))])
    device.write(0, program.words())
    device.start(program, GP)
    try:
        found = device.wait()
    except DeviceError as error:
        found = (error.code, error.index)
    return found, device.read(RESULT, END - RESULT)


@pytest.mark.parametrize("variant", GP_VARIANTS)
def test_the_machine_refuses_more_filters_than_it_has_sums_for(variant):
    device = simulated(variant)
    for filters, values, expected in (
        (MOST, 4 * MOST, Status.DONE), (MOST + 1, 4 * MOST, (ErrorCode.BAD_GEOMETRY, 1)),
        (MOST, 4 * MOST + 4, (ErrorCode.BAD_GEOMETRY, 2)), (2, 8, Status.DONE),
    ):  # fmt: skip
        (found, memory), (other, same) = (run(one, filters, values) for one in (device, golden(variant)))
        assert found == other == expected
        np.testing.assert_array_equal(memory, same)
        assert memory.any() == (expected != (ErrorCode.BAD_GEOMETRY, 1))  # nothing is written of what is refused
        assert memory[SUMS - RESULT :].any() == (expected == Status.DONE)
    device.close()
