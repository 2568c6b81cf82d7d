"""The second opinion on tiles: our bounds against ZigZag's cycles as they were counted, which needs no ZigZag."""

import json
from pathlib import Path

import pytest
from adagp.evaluation.benches import zigzag
from adagp.evaluation.benches.zigzag import Gemm, bounds, figures, gemms, mistakes
from adagp.spec.opcodes import Opcode
from adagp.spec.operands import macs
from adagp.spec.presets import preset

COMMITTED = json.loads((Path(__file__).parents[3] / "results" / "zigzag.json").read_text())


def test_bounds_are_still_zigzags():
    """Bounds are computed anew, so that a change of the bound is seen here."""
    rows = []
    for each in COMMITTED["details"]:
        layer, opcode = zigzag.LAYERS[each["layer"]], Opcode[each["direction"]]
        rows.append({**each, **bounds(layer, opcode, each["tile"], preset(zigzag.PRESET))})
    assert mistakes(rows) == [] and rows == COMMITTED["details"] and figures(rows) == COMMITTED["figures"]
    equal = sum(each["one_tile"] == each["zigzag"] for each in rows)
    assert len(rows) == len(zigzag.LAYERS) * 3 and equal + COMMITTED["figures"]["rounded_up"] == len(rows) > 35


def test_another_bound_is_told():
    row = {**COMMITTED["details"][0], "one_tile": 100, "zigzag": 100, "tiled": 102, "rounded_up": False}
    assert mistakes([row]) == []
    (line,) = mistakes([{**row, "zigzag": 99}])
    assert line.endswith("forward: 100 cycles in one tile, 99 by ZigZag")
    (line,) = mistakes([{**row, "tiled": 103, "zigzag": 99, "rounded_up": True}])
    assert line.endswith("103 cycles in tiles, 100 in one")
    assert len(mistakes([{**row, "tiled": 99}])) == 1


def test_matrix_products_of_layers():
    """They have all the products of a command, those of a strided layer's classes too."""
    for layer in zigzag.LAYERS.values():
        for opcode in zigzag.DIRECTIONS:
            products = sum(each.k * each.a * each.b for each in gemms(layer, opcode))
            assert products == macs(zigzag.command_of(layer, opcode)) > 0


def test_what_zigzag_rounds_up():
    config = preset(zigzag.PRESET)  # 12 x 15
    assert zigzag.rounded_up(Gemm(75, 16, 16), config, swap=0)
    assert not zigzag.rounded_up(Gemm(84, 75, 16), config, swap=0)


def test_without_zigzag(monkeypatch, capsys):
    monkeypatch.setattr(zigzag, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stopped:
        zigzag.main([])
    assert stopped.value.code == 2 and "pip install -c constraints.txt -e '.[zigzag]'" in capsys.readouterr().err
