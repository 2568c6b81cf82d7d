"""Reports on a placed and routed design, by hand."""

import json

import pytest
from adagp.synth import placement
from adagp.synth.netlist import Scopes


def test_what_nextpnr_puts_into_a_path_is_of_the_block_before_it(tmp_path):
    pieces = [
        ("clk-to-q", 0.5, "design.accelerator.core.a_FF"), ("routing", 1.0, "design.accelerator.core.a_FF"),
        ("logic", 0.4, "$nextpnr_CCU2C_1$CCU2_COMB0"), ("logic", 0.25, "design.accelerator.update.b_LUT4_Z"),
        ("setup", 0.1, "pins_TRELLIS_FF_Q"),
    ]  # fmt: skip
    path = [{"type": kind, "delay": delay, "from": {"cell": cell}} for kind, delay, cell in pieces]
    clocked = {"from": "posedge clk", "to": "posedge clk", "path": path}
    (tmp_path / "report.json").write_text(json.dumps({"critical_paths": [clocked]}))
    scopes = Scopes("design.accelerator", frozenset({"core", "update"}))
    assert placement.critical_path(tmp_path, scopes) == [
        {"block": "core", "cells": 2, "logic_ns": 0.9, "routing_ns": 1.0},
        {"block": "update", "cells": 1, "logic_ns": 0.25, "routing_ns": 0.0},
        {"block": "(harness)", "cells": 1, "logic_ns": 0.1, "routing_ns": 0.0},
    ]


@pytest.mark.parametrize("told", [lambda ns: [0.5, ns], lambda ns: ns], ids=["least and greatest", "one"])
def test_what_is_late_is_told_by_block(told, tmp_path):
    def net(*ends, event="posedge clk"):
        return {
            "event": event,
            "endpoints": [{"cell": f"design.accelerator.{c}", "event": e, "delay": told(d)} for c, e, d in ends],
        }

    clock = "posedge clk"
    nets = [
        net(("core.a_FF", clock, 9.0), ("core.b_FF", clock, 10.5), ("update.c_FF", clock, 4.0)),
        net(("core.a_FF", clock, 50.0), event="async"),
        net(("update.d_FF", clock, 12.25), ("update.e_FF", clock, 11.0), ("core.f_FF", "async", 99.0)),
    ]  # fmt: skip
    (tmp_path / "report.json").write_text(json.dumps({"detailed_net_timings": nets}))
    scopes = Scopes("design.accelerator", frozenset({"core", "update"}))
    assert list(placement.late(tmp_path, scopes, 10.0).items()) == [
        ("update", {"endpoints": 3, "late": 2, "worst_ns": 12.25}),
        ("core", {"endpoints": 2, "late": 1, "worst_ns": 10.5}),
    ]
    assert placement.late(tmp_path, scopes, 12.25) == {}
