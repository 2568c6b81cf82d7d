"""The table of the switches' areas: differences to the machine without any, by hand."""

import json

from adagp.evaluation.report.switch_areas import switch_areas
from adagp.spec.config import SWITCHES


def test_areas_are_differences(tmp_path):
    assert switch_areas(tmp_path) == ""
    resources = {"ecp5": ("lut", "ff", "ebr", "multiplier"), "xilinx": ("lut", "ff", "ramb36", "dsp48")}
    found = {f"{name}_{family}_max_{switch}": 1000 + number * place
             for family, names in resources.items() for number, name in enumerate(names)
             for place, switch in enumerate(("none", *SWITCHES, "all"))}  # fmt: skip
    written = {"figures": found, "details": {"designs": [{"variant": "max"}]}, "provenance": {"config": "tiny"}}
    (tmp_path / "switches.json").write_text(json.dumps(written))
    text = switch_areas(tmp_path)
    assert text.count("| max | none | 1,000 | 1,000 | 1,000 | 1,000 |") == 2 and "preset `tiny`, 4 x 4 PEs" in text
    assert f"| max | `{SWITCHES[1]}` | +0 | +2 | +4 | +6 |" in text and "| max | `all` | +0 | +6 | +12 | +18 |" in text
