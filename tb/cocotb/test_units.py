"""Benches of tb/unit on the Verilog of their blocks: of those that not every design has, and of a PE apart."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import cocotb
import pytest
from adagp.rtl.bfloat16.pe import PEBfloat16
from adagp.rtl.compute.dropout import Dropout
from adagp.rtl.control.cosine import Cosine
from adagp.rtl.control.phase_control import PhaseControl
from adagp.rtl.control.quality_gate import Gate
from adagp.rtl.drain.reorganise import Reorganise
from adagp.rtl.norm.channel_constants import ChannelConstants
from adagp.rtl.norm.norm import Norm
from adagp.rtl.update.adam_rate import AdamRate
from adagp.rtl.update.filter_ends import FilterEnds
from adagp.rtl.update.quality import QualitySums
from adagp.spec.presets import preset
from amaranth.lib import wiring
from harness import parameters
from runner import run
from unit_bench import unit_module, unit_test

SEED = 1
CONFIG = replace(preset("tiny"), variant="max")
NORM, DROPOUT = replace(CONFIG, batch_norm=True), replace(CONFIG, dropout=True)


@dataclass(frozen=True)
class Unit:
    """Tests of a module of tb/unit, with their arguments, on the Verilog of ``design``."""

    design: Callable[[], wiring.Component]
    module: str
    tests: tuple[tuple, ...]


LANE, ENDS = "test_adam_lane", "test_filter_ends"
UNITS = {
    "AdamLane": Unit(lambda: unit_module(LANE).Pair(CONFIG), LANE, (("test_weights_follow_adam", "tiny"),)),
    "AdamRate": Unit(
        AdamRate, "test_adam_rate", (("test_a_training_run",), ("test_random_orders",), ("test_the_longest_start",))
    ),
    "ChannelConstants": Unit(
        ChannelConstants, "test_channel_constants",
        (
            *(("test_random_channels", seed) for seed in range(3)), ("test_factors_next_to_a_tie",),
            ("test_rows_of_large_inverses",), ("test_statistics_next_to_zero",),
        ),
    ),
    "Cosine": Unit(Cosine, "test_quality_gate", (("test_cosine",),)),
    "Dropout": Unit(partial(Dropout, DROPOUT), "test_dropout", (("test_masks", 4, 0.5),)),
    "FilterEnds": Unit(
        lambda: FilterEnds(unit_module(ENDS).CONFIGS["four lanes"]), ENDS, (("test_block", "four lanes"),)
    ),
    "Gate": Unit(Gate, "test_quality_gate", (("test_gate",),)),
    "Norm": Unit(partial(Norm, NORM), "test_norm", (("test_random_jobs", "tiny", 0.3),)),
    "PhaseControl": Unit(
        PhaseControl, "test_phase_control",
        (
            ("test_random_schedules", 31), ("test_far_positions",), ("test_long_epochs",),
            ("test_reprogrammed_while_running",),
        ),
    ),
    "QualitySums": Unit(partial(QualitySums, CONFIG), "test_quality", (("test_sums", "tiny"),)),
    "Reorganise": Unit(
        partial(Reorganise, CONFIG), "test_reorganise",
        (("test_layers", CONFIG, 1, range(1, 10)), ("test_cycles", 0), ("test_cycles", 1)),
    ),
}  # fmt: skip
"""By the block."""
APART = {"PEBfloat16": Unit(PEBfloat16, "test_pe_bfloat16", (("test_random_cycles",),))}
"""Blocks that no accelerator has."""
ALL = UNITS | APART


@pytest.mark.parametrize("block", ALL)
def test_unit(block, tmp_path):
    run("test_units", ALL[block].design(), CONFIG, tmp_path, seed=SEED, block=block)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def unit_tests(dut):
    """Every test of the block, which asserts for itself that it has seen enough."""
    unit = ALL[parameters()[1]["block"]]
    benches = 0
    for test, *arguments in unit.tests:
        benches += await unit_test(dut, unit.module, test, *arguments)
    assert benches >= len(unit.tests) > 0
