"""``adagp disasm``: listings of programs."""

import json

from adagp.spec.commands import COMMAND_BYTES


def test_disasm(adagp, tmp_path):
    options = ("--model", "mlp", "--preset", "tiny", "--binary", tmp_path / "mlp.bin", "--json", tmp_path / "mlp.json")
    code, out, err = adagp("disasm", *options)
    assert (code, err) == (0, "") and "1.Linear" in out
    summary = json.loads((tmp_path / "mlp.json").read_text())
    assert summary["listing"] == out.splitlines() and summary["listing"][-1].strip().split()[1] == "end"
    assert (tmp_path / "mlp.bin").stat().st_size == summary["commands"] * COMMAND_BYTES > 0
    code, out, _ = adagp("disasm", tmp_path / "mlp.bin")
    assert code == 0 and len(out.splitlines()) == len(summary["listing"])
    code, _, err = adagp("disasm", tmp_path / "mlp.bin", "--model", "mlp", "--micro-batches", 2)
    assert code and "is compiled already, and --model, --micro-batches describe a network" in err
