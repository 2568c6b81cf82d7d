"""The bench of what switches add: one design for each set of switches, on both families."""

import json

from adagp.evaluation.benches import switches
from adagp.spec.config import SWITCHES


def test_designs_and_figures(tmp_path, monkeypatch):
    seen = []

    def flow(family, designs, _options, _report):
        config = designs[0].config
        on = [name for name in SWITCHES if getattr(config, name)]
        seen.append((family, config.variant, on))
        resources = {name: 100 * len(on) + len(seen) for name in switches.RESOURCES[family]}
        return [{"design": designs[0].name, "resources": resources, "folder": "x"}]

    monkeypatch.setattr(switches.flow, "run", flow)
    monkeypatch.setattr(switches.flow, "tools", lambda *_: {"yosys": "1"})
    monkeypatch.setattr(switches, "provenance", lambda *_: {"tools": {}})
    path = tmp_path / "switches.json"
    switches.main(["--variants", "max", "--output", str(path)])
    one_by_one = [[], *[[name] for name in SWITCHES], list(SWITCHES)]
    assert seen == [(family, "max", on) for on in one_by_one for family in ("ecp5", "xilinx")]
    written = json.loads(path.read_text())
    assert written["figures"]["lut_ecp5_max_none"] == 1 and written["figures"]["dsp48_xilinx_max_all"] == 514
    assert written["figures"]["ff_xilinx_max_clamps"] == 108 and len(written["figures"]) == 7 * 9
    assert [design["switches"] for design in written["details"]["designs"]] == [on for on in one_by_one for _ in "ex"]
    assert "folder" not in written["details"]["designs"][0]
