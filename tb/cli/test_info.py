"""``adagp info``: the presets, in a table and as JSON."""

import json

from adagp.spec.presets import PRESETS


def test_info(adagp, tmp_path):
    code, out, err = adagp("info", "--json", tmp_path / "info.json")
    assert (code, err) == (0, "") and all(f"{config.config_hash:08x}" in out for config in PRESETS.values())
    shown = json.loads((tmp_path / "info.json").read_text())
    assert list(shown) == list(PRESETS) and shown["paper"]["rows"] == 12
    code, out, _ = adagp("info", "--preset", "tiny")
    assert "4 x 4 = 16" in out and "paper" not in out
