"""The plot of synthesised designs: what is drawn is what was measured."""

import json

import pytest
from adagp.host.comparison import Results
from adagp.host.synthesis_plot import OTHERS, PLOT, drawn, plot_synthesis, shares
from adagp.synth.xilinx import XILINX
from made_designs import BASELINE, MAX, design, write_measured
from matplotlib.figure import Figure


def test_outermost_blocks_and_all_the_rest():
    found = shares(design(XILINX, "max", MAX)["blocks"], "lut")
    assert found == {"core": 512, "update": 1234, "control": 350, "predictor": 1038, OTHERS: 100}
    assert shares(design(XILINX, "baseline", BASELINE)["blocks"], "ff")[OTHERS] == 1500


@pytest.fixture
def panels(tmp_path, monkeypatch):
    """The axes of a plot of made designs, one of them without a route with a seed."""
    write_measured(tmp_path)
    path = tmp_path / "ecp5.json"
    found = json.loads(path.read_text())
    next(d for d in found["details"]["designs"] if d["variant"] == "low")["unrouted"] = {"3": "no wires"}
    path.write_text(json.dumps(found))
    seen = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: seen.append((path, figure.axes)))
    plot_synthesis(Results(tmp_path, "aa", {}), tmp_path / "images" / PLOT)
    assert [path for path, _ in seen] == [tmp_path / "images" / PLOT]
    return seen[0][1]


def test_bars_are_whole_designs_in_their_order(panels):
    assert [axis.get_title() for axis in panels] == ["7 series, preset tiny", "ECP5, preset tiny", "ECP5, routed"]
    for axis in panels[:2]:
        tops = [max(bar.get_y() + bar.get_height() for bar in axis.patches if round(bar.get_center()[0]) == at)
                for at in range(3)]  # fmt: skip
        assert tops == pytest.approx([2.0, 2.196, 3.234])
        assert [label.get_text() for label in axis.get_xticklabels()] == ["baseline", "low", "max"]
        assert sum(bar.get_height() for bar in axis.patches) == pytest.approx(2.0 + 2.196 + 3.234)


def test_seeds_medians_and_the_target(panels):
    found = {}
    for line in panels[2].get_lines():
        style = line.get_marker(), line.get_linestyle()
        found.setdefault(style, []).append((list(line.get_xdata()), list(line.get_ydata())))
    assert found.pop(("o", "None")) == [([at, at], [50.14, 1055.25]) for at in range(3)]
    assert found.pop(("x", "None")) == [([1], [0])]
    assert [y for _, y in found.pop(("None", "-"))] == [[552.7, 552.7]] * 3
    assert [y for _, y in found.pop(("None", "--"))] == [[50.0, 50.0]] and not found


def test_a_file_is_drawn_where_there_is_anything(tmp_path):
    path = tmp_path / PLOT
    plot_synthesis(Results(tmp_path, "aa", {}), path)
    assert not path.exists()
    results = Results(write_measured(tmp_path), "aa", {})
    plot_synthesis(results, path)
    assert path.stat().st_size > 10_000 and f"(images/{PLOT})" in drawn(results)
