"""Layers larger than the predictor was sized for: the host says so, and the machine refuses their commands."""

from dataclasses import replace

import numpy as np
import pytest
from adagp.host.compiler.compiler import compile_network
from adagp.host.compiler.lowering import LoweringError, lower
from adagp.host.compiler.mapping import choose_mapping
from adagp.host.devices.device import DeviceError
from adagp.host.program import Line, Program, header
from adagp.spec.commands import Command, Opcode
from adagp.spec.errors import ErrorCode
from adagp.spec.registers import Status
from scheduled_runs import GP_VARIANTS, SEED, config_of, golden, simulated
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

MOST = config_of("max").n_filters
SOURCE, WEIGHTS, RESULT, SUMS, END = 0x2000, 0x4000, 0x8000, 0xA000, 0xC000
GP = 2


@pytest.mark.parametrize("variant", GP_VARIANTS)
@pytest.mark.parametrize(("module", "shape", "says"), [
    (nn.Linear(4, MOST + 1), (4,), "0.Linear has 129 filters, the predictor of tiny is for 128"),
    (nn.Linear(1153, 3), (1153,), "0.Linear has 1153 weights in a filter, the predictor of tiny is for 1152"),
])  # fmt: skip
def test_a_network_too_large_is_refused_by_name(variant, module, shape, says):
    config = config_of(variant)
    layers = lower(nn.Sequential(module), shape, config)
    with pytest.raises(LoweringError) as refused:
        compile_network(layers, 2, config, source="predicted")
    assert str(refused.value) == says
    assert compile_network(layers, 2, config, source="zero").program  # which takes no predictor
    assert compile_network(layers, 2, replace(config, n_filters=129, n_predicted=1153), source="predicted").program


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
