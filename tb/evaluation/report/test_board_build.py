"""The report in docs/boards.md: what a build has found, and whether the committed copy is up to date."""

import json

import pytest
from adagp.boards.steps import alone
from adagp.evaluation.benches import board_build as bench
from adagp.evaluation.report import board_build, figures
from digests import AA

TEXT = f"# Boards\n\n{board_build.BEGIN}\nan earlier one\n{board_build.END}\n\n## Next\n"
BUILT = {
    "board": "ecpix5", "title": "ECPIX-5", "variant": "baseline", "part": "LFE5UM5G-85F", "seed": 7,
    "resources": {"lut": {"used": 20910, "available": 83640}}, "places": {"DCCA": {"used": 7, "available": 56}},
    "clocks_mhz": {"user_clk": {"reached": 51.26, "needed": 50.0}, "init_clk": {"reached": 20.0, "needed": 25.0}},
    "timing_met": False,
}  # fmt: skip


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """The result of a bench whose build gives :data:`BUILT`."""

    def build(board, config, folder, **options):
        assert (board.name, config.name, folder) == ("ecpix5", "tiny", tmp_path / "build")
        assert options == {"baud": 3_000_000, "seed": 7, "ignore_timing": True}
        return BUILT | {"provenance": {"tools": {"nextpnr-ecp5": "0.9", "yosys": "1"}}}

    monkeypatch.setattr(bench, "build", build)
    monkeypatch.setattr(
        "sys.argv",
        ["x", "--seed", "7", "--folder", str(tmp_path / "build"), "--output", str(tmp_path / "board_build.json")],
    )
    bench.main()
    return tmp_path


def test_figures_of_a_build(measured):
    found = json.loads((measured / "board_build.json").read_text())
    assert found["figures"] == {
        "ecpix5_tiny_lut": 20910, "ecpix5_tiny_timing_met": False, "ecpix5_tiny_reached_of_needed": 0.8,
    }  # fmt: skip
    assert found["details"] == BUILT and found["provenance"]["seed"] == 7
    assert found["provenance"]["tools"] == {"nextpnr-ecp5": "0.9", "yosys": "1"}
    assert found["provenance"]["command"] == "python -m adagp.evaluation.benches.board_build"


def test_a_section_is_written_anew(measured):
    text = board_build.document(TEXT, AA, measured)
    assert text.startswith(f"# Boards\n\n{board_build.BEGIN}\n\n") and text.endswith(
        f"\n\n{board_build.END}\n\n## Next\n"
    )
    assert "an earlier one" not in text and "design baseline, on ECPIX-5 (LFE5UM5G-85F)" in text
    for row in (
        "| `lut` | 20,910 | 83,640 | 25.0 % |", "| `DCCA` | 7 | 56 | 12.5 % |", "| `user_clk` | 50.0 | 51.3 |",
        "| `init_clk` | 25.0 | 20.0 |",
    ):  # fmt: skip
        assert text.count(f"\n{row}\n") == 1, row
    assert "nextpnr-ecp5 0.9" in text and figures.named(text) == AA and "<summary>Of an earlier link, by <code>" in text
    assert board_build.document(text, AA, measured) == text


def test_a_document_needs_a_place_for_it(measured):
    with pytest.raises(ValueError, match=r"^the section goes between the lines <!-- Written by .* and <!-- until"):
        board_build.document(TEXT.replace(board_build.END, ""), AA, measured)


def test_the_document_is_up_to_date():
    text = board_build.PATH.read_text()  # as of the hardware that it names, which needn't be that of the sources
    assert text == board_build.document(text, figures.named(text)), "run python -m adagp.evaluation.report.board_build"


def test_mistakes_get_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("adagp.boards.build._build", None)
    (tmp_path / "held").mkdir()
    monkeypatch.setattr("sys.argv", ["x", "--folder", str(tmp_path / "held"), "--output", str(tmp_path / "x.json")])
    with alone(tmp_path / "held"), pytest.raises(SystemExit) as ended:
        bench.main()
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.startswith("error: ") and err.count("\n") == 1


@pytest.mark.parametrize("seed", ["0", "1-3", "x", "-1", str(1 << 31)])
def test_a_seed_is_checked_before_the_work(seed, monkeypatch, capsys):
    monkeypatch.setattr(bench, "build", None)
    monkeypatch.setattr("sys.argv", ["x", f"--seed={seed}"])
    with pytest.raises(SystemExit) as ended:
        bench.main()
    assert ended.value.code == 2 and f"must be one seed, from 1 to 2147483647, not '{seed}'" in capsys.readouterr().err
