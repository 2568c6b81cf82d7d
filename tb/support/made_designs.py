"""Figures of synthesised designs, made by hand: numbers small enough to be worked out."""

from collections import Counter

from adagp.evaluation.instruments.results import write_results
from adagp.synth.breakdown import tree
from adagp.synth.ecp5 import ECP5
from adagp.synth.netlist import Cells, Scopes
from adagp.synth.xilinx import XILINX

TYPES = {
    "xilinx": {"lut": "LUT6", "ff": "FDRE", "ram": "RAMB36E1", "multiplier": "DSP48E1"},
    "ecp5": {"lut": "LUT4", "ff": "TRELLIS_FF", "ram": "DP16KD", "multiplier": "MULT18X18D"},
}
ORIGIN = {
    "commit": "c" * 40, "hardware": "aa", "command": "make it", "config": "tiny", "clock_hz": 50_000_000,
    "memory_part": "y", "seed": [1, 2], "tools": {"yosys": "1.0"},
}  # fmt: skip
BASELINE = {
    "": {"lut": 100, "ff": 1500}, "control.batches$226": {"lut": 60}, "control": {"lut": 140},
    "core.compute.array": {"lut": 200, "multiplier": 16}, "core.compute.accumulator": {"lut": 40},
    "core.drain.epilogue": {"lut": 240}, "core.pad_a": {"ram": 8, "lut": 20}, "update.lane0": {"lut": 1200},
}  # fmt: skip
"""LUTs of the blocks themselves: 2,000 in all."""
LOW = {
    **{block: row for block, row in BASELINE.items() if "$" not in block}, "control.batches$301": {"lut": 60},
    "control.gate$309": {"lut": 70, "ff": 30}, "control.gate$309.cosine": {"lut": 80},
    "core.drain.epilogue": {"lut": 252}, "update.fourth": {"lut": 34},
}  # fmt: skip
"""196 LUTs more; the batches' number has changed."""
MAX = {
    **LOW, "predictor.pad_a": {"lut": 1000, "ram": 4}, "predictor.fill.walk": {"lut": 36},
    "predictor.compute.array": {"multiplier": 8, "lut": 2},
}  # fmt: skip
"""1,234 LUTs more than the baseline, eight multipliers."""


def design(target, variant, blocks, **more):
    """As :func:`adagp.synth.flow.run` has it; the resources that the blocks have on ``target``."""
    types = TYPES[target.name]
    counts = {block: Counter({types[name]: n for name, n in row.items()}) for block, row in blocks.items()}
    found = tree(Cells(Scopes("accelerator", frozenset()), counts), target)
    return {
        "design": f"tiny-{variant}", "variant": variant, "block": "top", "resources": found[""], "blocks": found,
        "available": {"lut": 4000, "ff": 10_000, "ebr": 16, "multiplier": 32}, "nameless": 0.0, "uncounted": [],
        "part": "P1", **more,
    }  # fmt: skip


def write(folder, name, found, details=None, **origin):
    write_results(folder / f"{name}.json", found, details or {}, {**ORIGIN, **origin})


def rows(text):
    return [line for line in text.splitlines() if line.startswith("|") and "---" not in line]


def assert_once(found, wanted):
    for row in wanted:
        assert found.count(row) == 1, row


def write_measured(folder):
    """Write results of three designs on both FPGAs, of other hardware on ECP5."""
    designs = (("baseline", BASELINE), ("low", LOW), ("max", MAX))
    found = [design(XILINX, variant, blocks, luts_estimated=1000 + n) for n, (variant, blocks) in enumerate(designs)]
    write(folder, "xilinx", {}, {"designs": found})
    path = [
        {"block": "core.fill", "cells": 3, "logic_ns": 1.5, "routing_ns": 2.25},
        {"block": "control.gate$309", "cells": 1, "logic_ns": 0.5, "routing_ns": 0.0},
        {"block": "", "cells": 0, "logic_ns": 0.0, "routing_ns": 1.0},
    ]  # fmt: skip
    timing = {
        "fmax_mhz": {"1": 50.14, "2": 1055.25}, "fmax_median_mhz": 552.7, "fmax_best_mhz": 1055.25, "best_seed": 2,
        "utilisation": {"TRELLIS_COMB": [2100, 4200], "TRELLIS_RAMW": [50, 400]},
        "critical_paths": {"1": [], "2": path}, "part": "LFE5U-85F", "speed": "6", "freq_mhz": 55.0,
        "late": {f"b{n}$7": {"endpoints": 1000 + n, "late": 900 - n, "worst_ns": 10.04 + n} for n in range(8)},
    }  # fmt: skip
    placed = [design(ECP5, variant, blocks, **timing) for variant, blocks in reversed(designs)]
    write(folder, "ecp5", {}, {"designs": placed}, hardware="bb")
    write(folder, "variants_vgg13", {"speedup_max": 1.4601})
    return folder
