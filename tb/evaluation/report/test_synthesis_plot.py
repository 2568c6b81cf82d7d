"""The plot of synthesised designs: what is drawn is what was measured."""

import json

import pytest
from adagp.evaluation.report.comparison import Results
from adagp.evaluation.report.synthesis_plot import OTHERS, PLOT, drawn, plot_synthesis, shares
from adagp.synth.xilinx import XILINX
from digests import AA
from made_designs import BASELINE, MAX, design, write, write_measured
from matplotlib.colors import to_hex
from matplotlib.figure import Figure


def test_outermost_blocks_and_all_the_rest():
    found = shares(design(XILINX, "max", MAX)["blocks"], "lut")
    assert found == {"core": 512, "update": 1234, "control": 350, "predictor": 1038, OTHERS: 100}
    assert shares(design(XILINX, "baseline", BASELINE)["blocks"], "ff")[OTHERS] == 1500


SPEEDS = {"baseline": [50.5, 60.5], "low": [40.5], "max": [20.5, 30.5]}
MEDIANS = {"baseline": 55.0, "low": 20.25, "max": 25.5}


@pytest.fixture
def drawn_figure(tmp_path, monkeypatch):
    """A plot of made designs: speeds of their own, one seed without a route, cells for two of them."""
    write_measured(tmp_path)
    path = tmp_path / "ecp5.json"
    found = json.loads(path.read_text())
    for placed in found["details"]["designs"]:
        variant = placed["variant"]
        placed |= {"fmax_mhz": dict(enumerate(SPEEDS[variant])), "fmax_median_mhz": MEDIANS[variant]}
        placed["unrouted"] = {"3": "no wires"} if variant == "low" else {}
    path.write_text(json.dumps(found))
    cells = [
        {"variant": variant, "blocks": {"": {"cell_area": area}, "update": {"cell_area": area // 4}}}
        for variant, area in (("baseline", 2_000_000), ("low", 3_000_000))
    ]
    write(tmp_path, "asic", {}, {"designs": cells}, config="small")
    seen = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: seen.append((path, figure)))
    plot_synthesis(Results(tmp_path, AA, {}), tmp_path / "images" / PLOT)
    assert [path for path, _ in seen] == [tmp_path / "images" / PLOT]
    return seen[0][1]


def bars(axis, at):
    """The heights and colours of a design's bars, in the order of the stack."""
    mine = sorted((bar for bar in axis.patches if round(bar.get_center()[0]) == at), key=lambda bar: bar.get_y())
    return [bar.get_height() for bar in mine], [to_hex(bar.get_facecolor()) for bar in mine]


def test_bars_are_whole_designs_in_their_order(drawn_figure):
    luts, cells = drawn_figure.axes[:2], drawn_figure.axes[2]
    titles = ["7 series, preset tiny", "ECP5, preset tiny", "osu018, preset small", "ECP5, routed"]
    assert [axis.get_title() for axis in drawn_figure.axes] == titles
    for axis in luts:
        assert [sum(bars(axis, at)[0]) for at in range(3)] == pytest.approx([2.0, 2.196, 3.234])
        assert bars(axis, 2)[0] == pytest.approx([0.512, 1.234, 0.35, 1.038, 0.1])
        assert [label.get_text() for label in axis.get_xticklabels()] == ["baseline", "low", "max"]
    assert bars(cells, 0)[0] == [0.5, 1.5] and bars(cells, 1)[0] == [0.75, 2.25]


def test_a_block_has_a_colour_of_its_own(drawn_figure):
    [legend] = drawn_figure.legends
    colours = {text.get_text(): to_hex(patch.get_facecolor())
               for text, patch in zip(legend.get_texts(), legend.get_patches(), strict=True)}  # fmt: skip
    assert len(set(colours.values())) == len(colours)
    assert bars(drawn_figure.axes[0], 2)[1] == [
        colours[name] for name in ("core", "update", "control", "predictor", OTHERS)
    ]
    assert bars(drawn_figure.axes[2], 0)[1] == [colours["update"], colours[OTHERS]]


def test_seeds_medians_and_the_target(drawn_figure):
    found = {}
    for line in drawn_figure.axes[3].get_lines():
        style = line.get_marker(), line.get_linestyle()
        found.setdefault(style, []).append((list(line.get_xdata()), list(line.get_ydata())))
    assert found.pop(("o", "None")) == [([0, 0], SPEEDS["baseline"]), ([1], SPEEDS["low"]), ([2, 2], SPEEDS["max"])]
    assert found.pop(("x", "None")) == [([1], [0])]
    assert [y for _, y in found.pop(("None", "-"))] == [[median] * 2 for median in MEDIANS.values()]
    assert [y for _, y in found.pop(("None", "--"))] == [[50.0, 50.0]] and not found


def test_a_file_is_drawn_where_there_is_anything(tmp_path):
    path = tmp_path / PLOT
    plot_synthesis(Results(tmp_path, AA, {}), path)
    assert not path.exists()
    results = Results(write_measured(tmp_path), AA, {})
    plot_synthesis(results, path)
    assert path.stat().st_size > 10_000 and f"(images/{PLOT})" in drawn(results)
