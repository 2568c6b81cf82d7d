"""Output registers of an ECP5's block memories: they do what the registers that they stand for do."""

import json
import subprocess
from collections import Counter
from copy import deepcopy
from pathlib import Path

import pytest
from adagp.synth.ecp5 import ECP5, ROUTER
from adagp.synth.output_registers import use_output_registers
from adagp.synth.yosys import TOP, yosys_command

CYCLES = 7
"""From reset on: a word is written, read and taken, and held while others are."""

MODEL = Path(__file__).with_name("dp16kd.v")

PREPARE = """
read_verilog {model}
read_verilog +/lattice/common_sim.vh +/lattice/ccu2c_sim.vh
read_json {name}.json
prep -top adagp -flatten
memory_map
opt -full
rename adagp {name}
design -stash {name}
"""
PROVE = """
design -reset
design -copy-from before before
design -copy-from after after
miter -equiv -flatten before after miter
sat -verify -set-init-zero -seq {cycles} -prove trigger 0 miter
"""

MEMORY = """
module adagp(
  input clk, other, we, re, en, en2, rst, input [{address}:0] wa, ra, input [{last}:0] d, output {port}
);
  (* no_rw_check *) reg [{last}:0] m[0:(2 << {address}) - 1];
  {declared}
  always @(posedge clk) begin
    if (we) m[wa] <= d;
    if (re) q <= m[ra];
  end
  {behind}
endmodule
"""


def _memory(behind, width=18, address=10, port="reg [{last}:0] o", declared="reg [{last}:0] q;"):
    last = width - 1
    return MEMORY.format(
        behind=behind, last=last, address=address - 1, port=port.format(last=last), declared=declared.format(last=last)
    )


def _netlist(folder):
    return json.loads((folder / "netlist.json").read_text())


def _cells(netlist, kind):
    return [cell for cell in netlist["modules"][TOP]["cells"].values() if cell["type"] == kind]


def _with_model(netlist):
    """The design alone; what a memory begins with is left out, since the model of the block has fewer words."""
    module = deepcopy(netlist["modules"][TOP])
    for cell in module["cells"].values():
        cell["parameters"] = {key: of for key, of in cell["parameters"].items() if not key.startswith("INITVAL")}
    return json.dumps({"modules": {TOP: module}})


@pytest.fixture
def prove(tmp_path):
    """Prove that two netlists do the same; returns what Yosys said."""

    def run(before, after):
        assert all(block["connections"]["WEB"] == ["0"] for block in _cells(before, "DP16KD"))  # the model has no more
        script = ""
        for name, netlist in (("before", before), ("after", after)):
            (tmp_path / f"{name}.json").write_text(_with_model(netlist))
            script += PREPARE.format(model=MODEL, name=name)
        (tmp_path / "script.ys").write_text(script + PROVE.format(cycles=CYCLES))
        found = subprocess.run(yosys_command("script.ys"), cwd=tmp_path, capture_output=True, text=True, timeout=300)
        return found.stdout + found.stderr

    return run


PROVED = "SAT proof finished - no model found: SUCCESS!"
REFUTED = "SAT proof finished - model found: FAIL!"

ALWAYS, IF_ENABLED = "always @(posedge clk) o <= q;", "always @(posedge clk) if (en) o <= q;"
WIDE = {"width": 36, "address": 9}
LOW_HALF = _memory("always @(posedge clk) if (en) o <= q[17:0];", **WIDE, port="reg [17:0] o")
ONE_PORT = _memory(IF_ENABLED).replace("m[ra]", "m[wa]")

MOVED = {
    "no enable": (_memory(ALWAYS), 1, 18),
    "enable": (_memory(IF_ENABLED), 1, 18),
    "the port's own enable": (_memory(IF_ENABLED.replace("(en)", "(re)")), 1, 18),
    "nine bits": (_memory(IF_ENABLED, width=9, address=11), 1, 9),
    "a port that reads and writes": (ONE_PORT, 1, 18),
    "wide": (_memory(ALWAYS, **WIDE), 1, 36),
    "wide, enable": (_memory(IF_ENABLED, **WIDE), 1, 36),
    "wide, of which half is read": (LOW_HALF, 1, 18),
    "two blocks": (_memory(IF_ENABLED, width=60, address=9), 2, 60),
}
"""Memories, their blocks, and the registers behind."""


@pytest.mark.parametrize("name", MOVED)
def test_registers_move_into_the_block(synthesised, prove, name):
    text, n_blocks, n_registers = MOVED[name]
    before = _netlist(synthesised(text))
    assert len(_cells(before, "DP16KD")) == n_blocks and len(_cells(before, "TRELLIS_FF")) == n_registers
    after = use_output_registers(deepcopy(before))
    assert len(_cells(after, "DP16KD")) == n_blocks and not _cells(after, "TRELLIS_FF")
    assert PROVED in prove(before, after)


def _set(**values):
    def change(blocks):
        for block in blocks:
            for name, value in values.items():
                block["connections" if name.startswith(("OCE", "CLK")) else "parameters"][name] = value

    return change


def _swap(blocks):
    nets = blocks[0]["connections"]
    nets["DOA3"], nets["DOA4"] = nets["DOA4"], nets["DOA3"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("enable", _set(OCEA=["1"], OCEB=["1"])),
        ("enable", _set(REGMODE_A="NOREG", REGMODE_B="NOREG")),
        ("a port that reads and writes", _set(OCEA=["1"])),
        ("wide", _set(REGMODE_A="NOREG")),
        ("wide", _set(REGMODE_B="NOREG")),
        ("wide, enable", _set(OCEB=["1"])),
        ("wide, of which half is read", _set(OCEB=["1"])),
        ("wide, of which half is read", _swap),
    ],
)
def test_a_block_put_to_another_use_is_found_out(synthesised, prove, name, change):
    before = _netlist(synthesised(MOVED[name][0]))
    after = use_output_registers(deepcopy(before))
    change(_cells(after, "DP16KD"))
    assert REFUTED in prove(before, after)


def _behind(block, netlist):
    """Flip-flops behind a block's outputs."""
    outputs = {bits[0] for pin, bits in block["connections"].items() if pin.startswith("DO") and bits}
    return [cell for cell in _cells(netlist, "TRELLIS_FF") if cell["connections"]["DI"][0] in outputs]


BOTH, ONE_MORE = "reg [{last}:0] o, output reg p", "reg [{last}:0] o, output p"
LEFT = {
    "a reset": _memory("always @(posedge clk) if (rst) o <= 0; else o <= q;"),
    "two enables": _memory("always @(posedge clk) begin if (en) o[8:0] <= q[8:0]; if (en2) o[17:9] <= q[17:9]; end"),
    "an enable for a half": _memory("always @(posedge clk) begin if (en) o[8:0] <= q[8:0]; o[17:9] <= q[17:9]; end"),
    "an inverted enable": _memory(IF_ENABLED.replace("(en)", "(!en)")),
    "a start as 1": _memory(f"initial o = 18'h1; {ALWAYS}"),
    "another clock": _memory(IF_ENABLED.replace("clk", "other")),
    "the clock's other edge": _memory(IF_ENABLED.replace("posedge", "negedge")),
    "a bit with another use": _memory(f"{IF_ENABLED} assign p = q[5] & en2;", port=ONE_MORE),
    "a bit with two registers": _memory(f"{IF_ENABLED} always @(posedge clk) if (en2) p <= q[5];", port=BOTH),
    "a bit that is a port": _memory(f"{IF_ENABLED} assign p = q[5];", port=ONE_MORE),
    "a bit without a register": _memory("always @(posedge clk) if (en) o <= q ^ en2;"),
    "registers to keep": _memory(
        "(* keep *) reg [17:0] kept; always @(posedge clk) if (en) kept <= q; assign o = kept;", port="[17:0] o"
    ),
    "words to keep": _memory(IF_ENABLED, declared="(* keep *) reg [{last}:0] q;"),
    "a port with a reset": _memory(IF_ENABLED).replace("if (re) q <=", "if (rst) q <= 0; else q <="),
}
"""Memories with what keeps the registers out of the block."""
MADE = {"an inverted enable": ("CEMUX", "INV"), "a start as 1": ("REGSET", "SET")}
"""Yosys' netlist of it, where another register with logic about it would do as well."""


@pytest.mark.parametrize("name", LEFT)
def test_other_registers_are_left_alone(synthesised, name):
    before = _netlist(synthesised(LEFT[name]))
    (block,) = _cells(before, "DP16KD")
    behind = _behind(block, before)
    assert behind and (name not in MADE or any(MADE[name] in register["parameters"].items() for register in behind))
    assert use_output_registers(deepcopy(before)) == before


@pytest.mark.parametrize(
    ("kind", "part", "name", "value"),
    [
        ("TRELLIS_FF", "attributes", "keep", f"{1:032b}"), ("DP16KD", "attributes", "keep", f"{1:032b}"),
        ("TRELLIS_FF", "connections", "LSR", ["1"]), ("TRELLIS_FF", "connections", "M", ["0"]),
        ("TRELLIS_FF", "connections", "CE", ["0"]), ("TRELLIS_FF", "parameters", "CEMUX", "0 "),
        ("TRELLIS_FF", "parameters", "LSRMUX", "INV"), ("TRELLIS_FF", "parameters", "LSRMODE", "PRLD"),
        ("TRELLIS_FF", "parameters", "GSR", "ENABLED"), ("DP16KD", "parameters", "REGMODE_B", "OUTREG"),
        ("DP16KD", "parameters", "CLKBMUX", "INV"), ("DP16KD", "connections", "RSTB", []),
    ],
)  # fmt: skip
def test_cells_set_otherwise_are_left_alone(synthesised, kind, part, name, value):
    before = _netlist(synthesised(MOVED["enable"][0]))
    assert use_output_registers(deepcopy(before)) != before
    for cell in _cells(before, kind):
        cell["port_directions"].setdefault(name, "input")
        cell[part][name] = value
    assert use_output_registers(deepcopy(before)) == before


def test_each_block_for_itself(synthesised):
    """One memory's registers move, another's stay."""
    text = _memory(
        f"{IF_ENABLED} (* no_rw_check *) reg [17:0] n[0:1023]; reg [17:0] r; always @(posedge clk) begin"
        " if (we) n[wa] <= d; r <= n[ra]; if (rst) p <= 0; else p <= r; end",
        port="reg [{last}:0] o, output reg [17:0] p",
    )  # fmt: skip
    netlist = use_output_registers(_netlist(synthesised(text)))
    modes = Counter(block["parameters"]["REGMODE_B"] for block in _cells(netlist, "DP16KD"))
    assert modes == {"OUTREG": 1, "NOREG": 1} and len(_cells(netlist, "TRELLIS_FF")) == 18


def _word_ns(folder):
    """The delay from the clock to a placed block's word, in nanoseconds."""
    found = json.loads((folder / "report.json").read_text())["critical_paths"]
    starts = [path["path"][0] for path in found if path["path"][0]["from"]["cell"] == "m.0.0"]
    return max(start["delay"] for start in starts)


@pytest.mark.timeout(1800)
def test_place_and_route_has_words_sooner(synthesised):
    found = {}
    for after in (None, ECP5.after):
        netlist = synthesised(_memory(IF_ENABLED, **WIDE), after)
        (block,) = _cells(_netlist(netlist), "DP16KD")
        assert block["parameters"]["REGMODE_A"] == ("OUTREG" if after else "NOREG")
        placed = ROUTER.run("memory", netlist, ROUTER.options("25k", "CABGA381", "6"), 150.0, 1).place()
        said = (placed / "log.txt").read_text()
        assert "OCE" not in said and "ERROR" not in said
        found[after] = _word_ns(placed)
    assert found[ECP5.after] < 0.25 * found[None]
