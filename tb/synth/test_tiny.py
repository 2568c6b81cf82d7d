"""The size of two designs of preset ``tiny`` on an ECP5 is what ``results/synth_tiny.json`` says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from adagp.evaluation.benches.synth_tiny import COMMAND, NAMES, VARIANTS
from adagp.spec.presets import preset
from adagp.synth import flow
from adagp.synth.design import Design

RESULTS = Path(__file__).parents[2] / "results" / "synth_tiny.json"
TOLERANCE = {"lut": 0.03, "ff": 0.02, "ebr": 0, "multiplier": 0}
"""Share that a figure may differ by: other versions of Yosys map logic a little differently."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("variant", VARIANTS)
def test_size(variant):
    assert set(TOLERANCE) == set(NAMES)
    written = json.loads(RESULTS.read_text())["figures"]
    (found,) = flow.run("ecp5", [Design(replace(preset("tiny"), variant=variant))])
    for name, tolerance in TOLERANCE.items():
        expected, now = written[f"{name}_{variant}"], found["resources"][name]
        assert abs(now - expected) <= tolerance * expected, (
            f"{name} of {variant} is {now}, not {expected} +- {tolerance:.0%}: if that is meant to be, run {COMMAND}"
        )
    assert found["nameless"] < 0.01
    assert {"control", "core.compute.array", "core.drain", "update"} <= set(found["blocks"])
    assert ("predictor.compute" in found["blocks"]) == (variant == "max")
