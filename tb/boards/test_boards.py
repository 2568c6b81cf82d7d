"""The boards' designs: pins as their packages name them, Verilog that fits together, limits, mistakes on the way."""

import json
import re
import sys
from dataclasses import replace

import pytest
from adagp.boards.build import BOARDS, build, find_board, prepare
from adagp.boards.errors import BoardError
from adagp.boards.steps import Steps
from adagp.boards.synthesis import synthesise
from adagp.cli.main import main
from adagp.rtl.control.csr import AxiLite
from adagp.rtl.memory.axi import AxiMaster
from adagp.spec.presets import preset
from adagp.synth import ecp5
from adagp.synth.errors import FitError, ToolError
from amaranth import Cat, Module, Signal
from amaranth.hdl import Fragment
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

TINY = preset("tiny")
LIBRARIES = {"ecp5": "+/ecp5/cells_sim.v +/ecp5/cells_bb.v", "vivado": "+/xilinx/cells_sim.v +/xilinx/cells_xtra.v"}


class StandIn(wiring.Component):
    """The ports of the accelerator with its link; what is behind them depends on all inputs, and drives all outputs."""

    def __init__(self, config):
        super().__init__({
            "rx": In(1, init=1), "tx": Out(1, init=1), "dram_csr": Out(AxiLite()), "m_axi": Out(AxiMaster(config)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        ports = [(path, member, value) for path, member, value in self.signature.flatten(self)]
        seen = Cat(value for _, member, value in ports if member.flow == In)
        state = Signal(160)
        m.d.sync += state.eq(Cat(seen.xor(), state))
        for _, member, value in ports:
            if member.flow == Out:
                m.d.comb += value.eq(state[: len(value)])
        return m


@pytest.fixture(scope="module", params=BOARDS)
def made(request, tmp_path_factory):
    """A board's design around the stand-in: the board, its configuration, the folder, the design's files."""
    board = find_board(request.param)
    config = board.configure(TINY)
    folder = tmp_path_factory.mktemp(board.name)
    return board, config, folder, prepare(board, config, StandIn(config), "test", Steps(folder))


def constrained(folder):
    """Site of each port, by its name in Verilog."""
    if (folder / "top.lpf").exists():
        return dict(re.findall(r'LOCATE COMP "(.+?)" SITE "(\w+)";', (folder / "top.lpf").read_text()))
    found = re.findall(r'set_property LOC (\w+) \[get_ports "(.+?)"\]', (folder / "top.xdc").read_text())
    return {name.replace("\\", ""): site for site, name in found}


@pytest.mark.parametrize("made", ["ecpix5"], indirect=True)
def test_an_ecp5_board_is_synthesised_like_the_device(made):
    _, _, folder, _ = made
    script = [line.strip() for line in (folder / "top.ys").read_text().splitlines()]
    assert ecp5.MAPPING in script[: script.index(f"synth_ecp5 {ecp5.OPTIONS} -top top")]


def ports(folder):
    """Name of each bit of the design's ports."""
    if (folder / "top.il").exists():
        text, begin, end = (folder / "top.il").read_text(), "\nmodule \\top\n", "\nend\n"
        port = re.compile(r"^  wire width (\d+) (?:input|output|inout) \d+ +\\(\w+)$", re.MULTILINE)
    else:
        text, begin, end = (folder / "top.v").read_text(), "\nmodule top(", "\nendmodule"
        port = re.compile(r"^  (?:input|output|inout) (?:\[(\d+):0\] )?(\w+);$", re.MULTILINE)
    module = text[text.index(begin) :]
    found = port.findall(module[: module.index(end)])
    assert found
    in_verilog = not begin.endswith("\n")
    widths = {name: int(number or 0) + in_verilog if number else 1 for number, name in found}
    return {f"{name}[{bit}]" if width > 1 else name for name, width in widths.items() for bit in range(width)}


def test_every_port_has_its_pin(made):
    _, _, folder, _ = made
    sites, bits = constrained(folder), ports(folder)
    assert len(bits) > 50
    assert bits == set(sites)
    assert len(set(sites.values())) == len(sites)


def test_pins_are_the_packages(made):
    """Each DDR3 pin of the package's resource is connected, under its name; serial line and clock too."""
    board, _, folder, _ = made
    platform = board.platform()
    sites = constrained(folder)
    checked = 0
    for resource, path in ((platform.lookup("ddr3", 0), "ddr3_0"), (platform.lookup("uart", 0), "uart_0")):
        for part in resource.ios:
            (pins,) = part.ios
            groups = {"io": pins.names} if hasattr(pins, "names") else {"p": pins.p.names, "n": pins.n.names}
            if not board.pairs:
                groups.pop("n", None)
            for side, names in groups.items():
                for place, site in enumerate(names):
                    assert sites[f"{path}__{part.name}__{side}" + (f"[{place}]" if len(names) > 1 else "")] == site
                    checked += 1
    assert checked >= 45
    (clock,) = platform.lookup(platform.default_clk).ios
    assert sites[f"{platform.default_clk}_0__io"] == clock.names[0]


def test_the_designs_verilog_fits_together(made):
    """Yosys finds every module, port and width; no output of the controller is driven by anybody else."""
    board, _, folder, sources = made
    reads = [f"read_{'rtlil' if path.suffix == '.il' else 'verilog'} {path.name}" for path in sources]
    script = [f"read_verilog -lib {LIBRARIES[board.flow]}", *reads, "hierarchy -check -top top",
              "tee -q -o cells.json stat -json"]  # fmt: skip
    (folder / "check.ys").write_text("\n".join([*script, ""]))
    modules = set(re.findall(r"^module (\w+)", (folder / "litedram_core.v").read_text(), re.MULTILINE))
    assert modules == {"litedram_core"}
    cells = synthesise(Steps(folder), board, sources, "check.ys", ["cells.json"])
    log = (folder / "synthesis.log").read_text()
    assert "Warning: Resizing cell port" not in log
    phy = {"ecp5": ("DQSBUFM", 2), "vivado": ("IDELAYE2", 16)}[board.flow]
    assert cells[phy[0]] == phy[1]


def test_what_is_done_is_not_done_again(made, capsys):
    board, config, folder, sources = made
    # Migen numbers what a process makes: a second core in one is ordered otherwise.
    kept = [path for path in sources if path.name != "litedram_core.v"]
    before = {path: path.read_bytes() for path in kept}
    made_at = (folder / "adagp.v").stat().st_mtime_ns
    design = StandIn(config)
    Fragment.get(design, None)  # Amaranth warns of what is never elaborated, as it isn't here
    assert prepare(board, config, design, "test", Steps(folder)) == sources
    assert (folder / "adagp.v").stat().st_mtime_ns == made_at
    assert {path: path.read_bytes() for path in kept} == before
    assert "accelerator: done before" in capsys.readouterr().err


def test_limits():
    ecpix5, arty = (find_board(name) for name in BOARDS)
    assert ecpix5.configure(TINY).clock_hz == 50_000_000
    assert arty.configure(TINY).clock_hz == 80_000_000
    assert ecpix5.configure(preset("ecp5"), 75_000_000) == replace(preset("ecp5"), clock_hz=75_000_000)
    assert ecpix5.configure(TINY, 60_000_000).config_hash == TINY.config_hash
    with pytest.raises(BoardError, match=r"arty_a7: the clock must be between 80 and 100 MHz, .* not 50"):
        arty.configure(TINY, 50_000_000)
    with pytest.raises(BoardError, match=r"ecpix5: the memory port has 256 bits, the controller's 128"):
        ecpix5.configure(preset("paper"))
    with pytest.raises(BoardError, match=r"ecpix5: 13 x 13 PEs need 169 multipliers, there are 156"):
        ecpix5.configure(replace(preset("ecp5"), rows=13, cols=13))
    with pytest.raises(BoardError, match=r"arty_a7: 16 x 16 PEs need 256 multipliers, there are 240"):
        arty.configure(replace(preset("ecp5"), rows=16, cols=16))


def test_a_design_that_does_not_fit_is_refused(made):
    board, _, folder, sources = made
    cells, said = {
        "ecpix5": ({"CCU2C": 41_821}, "LFE5UM5G-85F: it needs 83,642 of lut, of which it has 83,640"),  # adders
        "arty_a7": ({"LUT5": 63_399, "RAM32M": 1}, "XC7A100T: it needs 63,403 of lut, of which it has 63,400"),
    }[board.name]
    (folder / "cells.json").write_text(json.dumps({"design": {"num_cells_by_type": cells}}))
    (folder / "small.ys").write_text("log small\n")
    with pytest.raises(FitError, match=f"^{board.name}'s design doesn't fit {said}$"):
        synthesise(Steps(folder), board, sources, "small.ys", ["cells.json"])


def test_a_tool_that_fails_is_named(made):
    board, _, folder, sources = made
    (folder / "wrong.ys").write_text("read_verilog no_such_file.v\n")
    with pytest.raises(ToolError, match=rf"^Yosys, synth.* {board.name}.* said: ERROR: .*no_such_file.v.*; its log"):
        synthesise(Steps(folder), board, sources, "wrong.ys", ["never.json"])


@pytest.mark.parametrize(("arguments", "message"), [
    (("build", "icebreaker"), "no board 'icebreaker'; there are: ecpix5, arty_a7"),
    (("build", "ecpix5", "--preset", "huge"), "no preset 'huge'; there are: tiny, ecp5, ecp5_8x8, paper"),
    (("build", "ecpix5", "--preset", "paper"), "ecpix5: the memory port has 256 bits"),
    (("build", "ecpix5", "--clock-mhz", "200"), "ecpix5: the clock must be between 40 and 100 MHz"),
    (("build", "ecpix5", "--clock-mhz", "nan"), "clock_mhz = nan must be a finite number"),
    (("build", "ecpix5", "--clock-mhz", "inf"), "clock_mhz = inf must be a finite number"),
    (("build", "ecpix5", "--baud", "999999999"), "baud = 999999999 must satisfy 0 < 4 * baud <= clock_hz = 5"),
    (("build", "arty_a7", "--seed", "2"), "--seed and --ignore-timing are for place and route, which isn't done here"),
    (("build", "arty_a7", "--ignore-timing"), "are for place and route, which isn't done here for arty_a7"),
    (("build", "ecpix5", "--variant", "best"), "variant = 'best' must satisfy variant in {base"),
])  # fmt: skip
def test_mistakes_get_one_line(arguments, message, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["board", *arguments])
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.startswith("error: ") and err.count("\n") == 1
    assert message in err
    assert not list(tmp_path.iterdir())


def test_an_interrupt_says_how_to_go_on(capsys, monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("adagp.boards.build.build", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["board", "build", "ecpix5", "-o", str(tmp_path)])
    assert ended.value.code == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted; the same command goes on"


def test_boards_are_listed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["board", "list"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert all(name in out for name in BOARDS)


def test_the_whole_needs_packages(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "litedram.gen", None)
    with pytest.raises(BoardError, match=r"boards need LiteDRAM \(.*\): pip install 'adagp\[boards\]'"):
        build(find_board("ecpix5"), TINY, tmp_path, baud=1_000_000, component=StandIn(TINY))
