"""``adagp generate``: the files that it writes."""

import json
from dataclasses import replace

from adagp.spec.presets import preset


def test_generate(adagp, tmp_path):
    code, out, err = adagp("generate", "--preset", "tiny", "-o", tmp_path / "made", "--json", tmp_path / "files.json")
    files = [str(tmp_path / "made" / name) for name in ("top.v", "top.json", "adagp.h")]
    assert code == 0 and out.split() == files
    first, *steps = err.splitlines()
    assert first == "generating tiny baseline (4x4 PEs)"
    assert [step.split(" s  ")[1] for step in steps] == [
        "elaborating the hardware",
        "writing Verilog with Yosys",
        "done",
    ]
    assert (tmp_path / "made" / "top.v").read_text().count("\nmodule adagp(") == 1
    summary = json.loads((tmp_path / "files.json").read_text())
    hashed = preset("tiny").config_hash
    named = {"preset": "tiny", "variant": "baseline", "switches": ""}
    assert summary == {**named, "config_hash": hashed, "files": files}


def test_generate_a_design_that_predicts_and_has_switches(adagp, tmp_path):
    options = ("generate", "--preset", "tiny", "--random-signs", "-o", tmp_path, "--json", tmp_path / "files.json")
    more = ("--variant", "max", "--switches", "batch_norm,clamps", "--output-stationary")
    assert adagp(*options, *more)[0] == 0
    text = (tmp_path / "top.v").read_text()
    for part in (
        "core.compute.feeder.rows",
        "predictor.compute.feeder.cols",
        "predictor.drain",
        "signs",
        "core.compute.norm.scale",
        "core.drain.bound",
    ):
        assert part in text, part
    design = replace(preset("tiny"), variant="max", random_signs=True, batch_norm=True, clamps=True)
    assert json.loads((tmp_path / "files.json").read_text())["config_hash"] == design.config_hash
