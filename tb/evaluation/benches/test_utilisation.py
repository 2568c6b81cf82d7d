"""The bench of utilisation: figures by hand, those of earlier measurements, and runs that miss some cycles."""

from types import SimpleNamespace

import pytest
from adagp.evaluation.benches import utilisation
from adagp.evaluation.instruments import single_command
from adagp.host.training.network import Network
from adagp.spec import operands
from adagp.spec.opcodes import GEMMS
from adagp.spec.presets import preset
from torch import nn


def test_utilisation_is_weighted_by_macs():
    rows = [
        {"useful_macs": 900, "macs": 1800, "bound": 10, "cycles": 20},
        {"useful_macs": 8100, "macs": 16200, "bound": 90, "cycles": 100},
    ]
    found = utilisation.weighted(rows, preset("paper"))
    assert list(found) == ["useful_utilisation", "utilisation", "of_bound"]
    assert found["of_bound"] == pytest.approx(1 / (0.1 * 2 + 0.9 * 100 / 90), abs=1e-5)
    assert found["utilisation"] == pytest.approx(18000 / 120 / 180, abs=1e-5) == 2 * found["useful_utilisation"]


def utilisation_row(direction, first, conv, cycles, of_bound=0.25, clock=""):
    return {
        "clock": clock, "useful_macs": 63 * cycles, "useful_utilisation": 0.35, "direction": direction,
        "first": first, "conv": conv, "cycles": cycles, "macs": 180 * cycles // 2,
        "bound": int(cycles * of_bound), "utilisation": 0.5, "of_bound": of_bound,
        "macs_equal": True, "bytes_equal": True,
        "array_cycles": cycles - 7, "stall_a": 1, "stall_b": 1, "stall_load": 2, "stall_drain": 1, "stall_idle": 2,
    }  # fmt: skip


def test_utilisation_figures():
    rows = [utilisation_row(name, False, True, 1000) for name in single_command.DIRECTIONS.values()]
    rows += [
        utilisation_row("forward", False, True, 1000, 0.5),
        utilisation_row("forward", True, True, 600, 0.75),
        utilisation_row("backward_weight", True, True, 300),
        utilisation_row("forward", False, False, 100, 0.5),
        utilisation_row("forward", False, True, 1000, 0.125, "_twice_clock"),
    ]
    gemm, step = utilisation_row("forward", True, False, 10), utilisation_row("", False, True, 6000)
    found = utilisation.figures(rows, gemm, {"": step}, preset("paper"))
    assert found["forward_of_bound"] == pytest.approx(1 / 3, abs=1e-5)  # not the first, not the linear
    assert found["forward_of_bound_least"] == 0.25
    assert found["forward_utilisation"] == found["backward_data_utilisation"] == 0.5
    assert found["forward_useful_utilisation"] == found["forward_useful_utilisation_least"] == 0.35
    assert found["first_layer_forward_of_bound"] == 0.75 and found["first_layer_backward_weight_utilisation"] == 0.5
    assert found["linear_forward_of_bound"] == 0.5
    assert "first_layer_backward_data_utilisation" not in found
    assert all("_least" not in name for name in found if name.startswith(("first_layer", "linear")))
    assert found["forward_of_bound_twice_clock"] == 0.125 and "backward_data_utilisation_half_clock" not in found
    assert found["padding_share"] == pytest.approx(0.3)
    assert found["step_overhead"] == 0.2
    assert found["step_useful_utilisation"] == 0.35 and found["step_utilisation"] == 0.5
    assert found["counters_reconcile"] is True
    for row in (rows[0], step):
        spoilt = {**row, "bytes_equal": False}
        others = [spoilt if other is row else other for other in rows]
        found = utilisation.figures(others, gemm, {"": spoilt if row is step else step}, preset("paper"))
        assert found["counters_reconcile"] is False


def test_earlier_measurements_get_figures_of_today():
    """Of their counters alone: shares that were written with them are made anew."""
    config, images = preset("tiny"), 4
    module = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Flatten(), nn.Linear(8, 3))
    lines = [line for line in Network(module, (1, 2, 2), images, config).program if line.command.opcode in GEMMS]
    counters = {"cycles": 1000, "read_bytes": 8, "write_bytes": 9, "dram_read_bytes": 8, "dram_write_bytes": 9}
    rows = [
        {"layer": line.name, "direction": single_command.DIRECTIONS[line.command.opcode], "clock": "", "raw": 0.9,
         **counters, "macs": operands.macs(line.command)}
        for line in lines
    ]  # fmt: skip
    details = {
        "layers": rows,
        "gemm": rows[0],
        "steps": {"step": {**rows[0], "macs_equal": True, "bytes_equal": False}},
    }
    found, gemm, steps = utilisation._kept(details, lines, lines[0], 77, config)
    pairs = 4 * 4  # of nine by four, the others are zeros
    assert found[0]["useful_macs"] == gemm["useful_macs"] == images * 2 * pairs
    assert found[0]["macs"] == images * 2 * 9 * 4 and found[0]["conv"] and found[0]["first"]
    assert [row["direction"] for row in found] == [row["direction"] for row in rows] and len(found) == 5
    for row in found:
        assert row["macs_equal"] and row["bytes_equal"] and "raw" not in row
        assert row["useful_utilisation"] == pytest.approx(row["useful_macs"] / 1000 / config.n_pes, abs=1e-5)
    assert steps[""]["useful_macs"] == 77 and (steps[""]["macs_equal"], steps[""]["bytes_equal"]) == (True, False)


def test_a_run_must_account_for_its_cycles(tmp_path, monkeypatch):
    counters = utilisation_row("forward", True, True, 100)
    bench = object.__new__(single_command.Bench)  # without a simulator
    bench.folder, bench.simulator = tmp_path, "a simulator"
    monkeypatch.setattr(bench, "_open", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(bench, "_measure", lambda *_: counters)
    program = SimpleNamespace(digest="a program")
    assert bench("good", None, None, preset("tiny"), program) == counters
    assert bench("good", None, None, preset("tiny"), program) == counters  # the one that was kept
    counters = {**counters, "stall_b": 2}
    with pytest.raises(RuntimeError, match=r"bad: .*'stall_b': 2.* are 101 in all, not 100 cycles"):
        bench("bad", None, None, preset("tiny"), program)
    assert not (tmp_path / "bad.json").exists()
