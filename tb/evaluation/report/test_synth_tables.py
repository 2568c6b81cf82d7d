"""Output of `adagp synth`: tables, clocks, critical paths."""

import re

import pytest
from adagp.evaluation.report.synth_tables import show


def test_paths_of_the_harness_are_told_from_the_designs(capsys):
    def path(*blocks):
        return [{"block": block, "logic_ns": 1.0, "routing_ns": 2.5} for block in blocks]

    lut = {"lut": 1}
    placed = {
        "design": "x", "resources": lut, "available": {}, "harness": {}, "blocks": {"": lut}, "best_seed": 1,
        "fmax_mhz": {"1": 100.5, "2": 90.25}, "fmax_median_mhz": 95.38,
        "critical_paths": {"1": path("", "pe"), "2": path("(harness)", "pe")},
    }  # fmt: skip
    show([placed], 3)
    out = capsys.readouterr().out
    assert "x: MHz by seed: 1: 100.5, 2: 90.25" in out and "Critical paths of seeds 2 are to or from" in out
    assert "x: critical path of seed 1\n  (top): logic 1.00 ns, routing 2.50 ns\n  pe: logic" in out
    del placed["fmax_median_mhz"]
    placed |= {"best_seed": 0, "critical_paths": {"0": path("pe")}, "fmax_mhz": {"0": 80.0}}
    show([placed], 3)
    assert "x: critical path\n  pe:" in (out := capsys.readouterr().out) and "harness" not in out


def test_tables_are_never_cut(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    resources = {f"resource{n}": 1_234_567 + n for n in range(9)}
    blocks = {"": resources, "core": resources, "core.drain": resources}
    late = {f"core.b{n}": {"endpoints": 1000, "late": 99 - n, "worst_ns": 12.5} for n in range(30)}
    figures = {"resources": resources, "available": {}, "harness": {}, "blocks": blocks, "best_seed": 3, "late": late}
    show([{"design": "x", **figures}], 3)
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert ["core.b0", "1,000", "99", "12.50"] in lines and [row[0] for row in lines if "12.50" in row][
        -1
    ] == "core.b19"
    assert "…" not in out and all(out.count(f"{number:,}") == 4 for number in resources.values())


@pytest.mark.parametrize("counted", [True, False])
def test_cells_alone_are_said_to_be(capsys, counted):
    cells = {"cell_area": 5.0, "memory_area": 0.0, "memory_bits": 64}
    figures = {"resources": cells, "available": {}, "harness": {}, "blocks": {"": cells}, "area": 5}
    show([{"design": "x", **figures, "fmax_best_mhz": 99.5, "memories": [], "memories_counted": counted}], 3)
    out = capsys.readouterr().out
    assert re.search(r"Fmax, MHz +│ 99\.5 ", out) and "seed" not in out
    assert ("of cells alone" in out) == (not counted)


def test_blocks_of_two_designs_are_the_same_whatever_their_numbers(capsys):
    def figures(name, blocks):
        whole = {"lut": sum(blocks.values())}
        rows = {"": whole, **{block: {"lut": luts} for block, luts in blocks.items()}}
        return {"design": name, "resources": whole, "available": {}, "harness": {}, "blocks": rows}

    one = figures("x", {"control.batches$226": 60, "control.gate$7": 10})
    show([one, figures("y", {"control.batches$301": 60, "control.gate$9": 10})], 3)
    assert "y - x, by block: the same" in capsys.readouterr().out
    show([one, figures("y", {"control.batches$301": 60, "control.gate$9": 15})], 3)
    table = capsys.readouterr().out.partition("y - x, by block")[2]
    assert [line.split() for line in table.splitlines() if "gate" in line or "batches" in line] == [["gate", "+5"]]
