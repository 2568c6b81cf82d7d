"""The scaling bench's arithmetic: its configurations, the roofline, knees, figures, the plot."""

from dataclasses import replace
from itertools import product

import pytest
from adagp.evaluation.benches import scaling
from adagp.evaluation.benches.scaling import ARRAYS, LAYERS, PORTS, configuration, points
from adagp.evaluation.instruments import single_command
from adagp.evaluation.instruments.roofline import attainable, judge, knees
from adagp.evaluation.report.plots import plot_scaling
from adagp.spec.commands import Opcode
from adagp.spec.presets import preset

BANKS = {
    (4, 4): (4, 8, 16), (8, 8): (8, 8, 16), (12, 15): (16, 16, 16), (16, 16): (16, 16, 16), (32, 32): (32, 32, 32),
}  # fmt: skip
ACC_DEPTH = {(4, 4): 16384, (8, 8): 8192, (12, 15): 4096, (16, 16): 4096, (32, 32): 2048}


@pytest.mark.parametrize(("array", "port"), list(product(ARRAYS, PORTS)))
def test_configurations_have_the_same_memory(array, port):
    config = configuration(*array, port)
    assert (config.rows, config.cols, config.port_width) == (*array, port)
    assert config.banks == BANKS[array][PORTS.index(port)]
    assert config.a_elements == config.b_elements == config.c_elements == 65536
    assert config.acc_depth == ACC_DEPTH[array]
    assert config.dram.bandwidth_bytes == config.clock_hz * port // 8  # a beat per cycle
    assert (config.dram.name, config.dram.burst_bytes) == (f"ddr3-800-x{port // 4}", port // 4)
    assert config.update_lanes == {64: 1, 128: 1, 256: 2}[port]


def test_configuration_of_papers_array_is_paper():
    paper = preset("paper")
    config = configuration(12, 15, 256)
    assert replace(config, name=paper.name, dram=paper.dram) == paper


def test_points():
    chosen = points(ARRAYS, PORTS)
    assert len({point.name for point in chosen}) == len(chosen) == 5 * 3 * len(LAYERS) * 2
    assert [point.config.n_pes for point in chosen] == sorted(point.config.n_pes for point in chosen)
    assert chosen[0].name == "4x4-64-early-forward"
    assert points([(8, 8)], [64], 32)[0].name == "8x8-64-early-forward-32"
    assert points([(8, 8)], [64], 8)[4].name == "8x8-64-late-forward"  # as many as ever


def row(**changes):
    """A row of an 8x8 array with a 64-bit port (8 bytes per cycle, ridge at 8 MACs per byte)."""
    return {
        "macs": 64_000, "cycles": 2000, "dram_read_beats": 375, "dram_write_beats": 125, "stall_a": 0, "stall_b": 0,
        "stall_drain": 0, "stall_idle": 0, **changes,
    }  # fmt: skip


@pytest.mark.parametrize(("intensity", "macs_per_cycle"), [(1, 8), (4, 32), (8, 64), (9, 64), (1000, 64)])
def test_roofline_by_hand(intensity, macs_per_cycle):
    assert attainable(intensity, configuration(8, 8, 64)) == macs_per_cycle


@pytest.mark.parametrize(("changes", "intensity", "of_roofline", "by_roofline", "by_counters"), [
    ({}, 16, 0.5, False, False),
    ({"dram_read_beats": 1875}, 4, 1.0, True, False),  # 64,000 MACs for 16,000 bytes: 32 per cycle at most
    ({"dram_read_beats": 1875, "stall_a": 150, "stall_b": 51}, 4, 1.0, True, True),
    ({"dram_read_beats": 875, "stall_a": 150, "stall_b": 50}, 8, 0.5, False, False),  # on the ridge; just a tenth
    ({"cycles": 4000, "stall_a": 401}, 16, 0.25, False, True),
    ({"dram_write_beats": 1625, "stall_drain": 101, "stall_idle": 100}, 4, 1.0, True, True),  # results can't leave
])  # fmt: skip
def test_verdicts_by_hand(changes, intensity, of_roofline, by_roofline, by_counters):
    found = judge(row(**changes), configuration(8, 8, 64))
    assert (found["intensity"], found["ridge"], found["of_roofline"]) == (intensity, 8, of_roofline)
    assert (found["memory_bound_by_roofline"], found["memory_bound_by_counters"]) == (by_roofline, by_counters)
    assert found["agree"] == (by_roofline == by_counters)


def judged(pes, port, by_roofline, by_counters, layer="late", of_roofline=0.9):
    return {
        "layer": layer, "direction": "forward", "port": port, "pes": pes, "memory_bound_by_roofline": by_roofline,
        "memory_bound_by_counters": by_counters, "agree": by_roofline == by_counters, "of_roofline": of_roofline,
        "macs_equal": True, "bytes_equal": True,
    }  # fmt: skip


ROWS = [
    judged(16, 64, False, False), judged(64, 64, True, False), judged(256, 64, True, True, of_roofline=0.8),
    judged(16, 128, False, False), judged(64, 128, False, False), judged(256, 128, True, True),
    judged(256, 128, False, False, "early", 0.7),
]  # fmt: skip


def test_knees():
    assert [(k["layer"], k["port"], k["roofline"], k["counters"], k["agree"]) for k in knees(ROWS)] == [
        ("early", 128, 0, 0, True), ("late", 64, 64, 256, False), ("late", 128, 256, 256, True),
    ]  # fmt: skip


def test_figures():
    found = scaling.figures(ROWS)
    assert (found["points"], found["memory_bound_points"]) == (7, 3)
    assert found["verdicts_agree"] == pytest.approx(6 / 7, abs=1e-5) and found["knees_agree"] is False
    assert found["memory_bound_of_roofline"] == pytest.approx((0.9 + 0.8 + 0.9) / 3, abs=1e-5)
    assert (found["memory_bound_of_roofline_least"], found["compute_bound_of_roofline_least"]) == (0.8, 0.7)
    assert (found["late_forward_64_knee"], found["late_forward_64_knee_by_roofline"]) == (256, 64)
    assert found["counters_reconcile"] is True
    assert scaling.figures([{**ROWS[0], "bytes_equal": False}])["counters_reconcile"] is False


def test_layers_have_equal_work():
    networks = scaling.Networks()
    for point in points([(8, 8)], [256], 2):
        network, line = networks.line(point)
        command = line.command
        side = {"early": 32, "middle": 8, "late": 2}[point.layer]
        channels = {"early": 64, "middle": 256, "late": 512}[point.layer]
        assert (command.c, command.q, command.h, command.ow, command.r) == (channels, channels, side, side, 3)
        assert command.opcode == Opcode[point.direction.upper()] and command.n == network.batch == 2
        program = single_command.alone(line, network)
        assert [entry.command.opcode for entry in program] == [Opcode.HEADER, command.opcode, Opcode.END]
        _, images = LAYERS[point.layer]
        assert images * side**2 * channels**2 * 9 == 75_497_472


def test_scaling_is_drawn(tmp_path):
    config = configuration(8, 8, 64)
    drawn = [
        {**row(), **judge(row(), config), "layer": layer, "direction": direction, "port": port, "pes": 64, "rows": 8,
         "cols": 8}
        for layer in LAYERS for direction in scaling.MEASURED for port in PORTS
    ]  # fmt: skip
    path = tmp_path / "images" / "scaling.png"
    plot_scaling({"details": {"points": drawn}}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
