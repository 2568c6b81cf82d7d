"""The multiplier that is a block of an ECP5: bit for bit its portable twin."""

import subprocess

import pytest
from adagp.gen.verilog import Vendor, to_verilog
from adagp.rtl.lib.multiplier import Multiplier
from adagp.synth.yosys import yosys_command

WIDTH = 3
CYCLES = 6
"""From reset on; what was given is gone from both after three with both enables."""

# What Lattice's guide to the block says of it, as far as it is used: signed operands of 18 bits, a register at each
# input and at the output, each there if it has a clock, each with one of the enables.
BLOCK = """
module MULT18X18D #(
  parameter GSR = "", {parameters}
) (input {inputs}, SIGNEDA, SIGNEDB, SOURCEA, SOURCEB, CLK0, CE0, CE1, RST0, output {outputs});
  wire signed [17:0] a = {{{a}}}, b = {{{b}}};
  reg signed [17:0] held_a, held_b;
  reg signed [35:0] held;
  wire signed [17:0] left = REG_INPUTA_CLK == "CLK0" ? held_a : a, right = REG_INPUTB_CLK == "CLK0" ? held_b : b;
  wire signed [35:0] product = left * right;
  assign {{{p}}} = REG_OUTPUT_CLK == "CLK0" ? held : product;
  always @(posedge CLK0) begin
    if (REG_INPUTA_CE == "CE0" ? CE0 : CE1) held_a <= a;
    if (REG_INPUTB_CE == "CE0" ? CE0 : CE1) held_b <= b;
    if (REG_OUTPUT_CE == "CE0" ? CE0 : CE1) held <= product;
  end
endmodule
"""

SCRIPT = """
read_verilog block.v
read_verilog vendor.v
prep -top adagp -flatten
rename adagp gate
design -stash gate
read_verilog portable.v
prep -top adagp -flatten
rename adagp gold
design -copy-from gate gate
miter -equiv -flatten gold gate miter
sat -verify -set-init-zero -seq {cycles} -prove trigger 0 miter
"""


def _bus(letter, width):
    return ", ".join(f"{letter}{bit}" for bit in reversed(range(width)))


@pytest.fixture
def prove(tmp_path):
    """Prove that the block, with ``breaks`` replaced, is the twin; returns what Yosys said."""

    def run(inputs, breaks=("Z", "Z")):
        registers = ", ".join(
            f'REG_{port}_{pin} = "{default}"'
            for port in ("INPUTA", "INPUTB", "OUTPUT") for pin, default in (("CLK", "NONE"), ("CE", "CE0"), ("RST", ""))
        )  # fmt: skip
        block = BLOCK.format(
            parameters=registers.replace("REG", "parameter REG").replace("parameter REG", "REG", 1),
            inputs=f"{_bus('A', 18)}, {_bus('B', 18)}", outputs=_bus("P", 36),
            a=_bus("A", 18), b=_bus("B", 18), p=_bus("P", 36),
        )  # fmt: skip
        (tmp_path / "block.v").write_text(block)
        for name, vendor in (("vendor", "ecp5"), ("portable", None)):
            text = to_verilog(Multiplier(WIDTH, inputs=inputs), Vendor(vendor))
            (tmp_path / f"{name}.v").write_text(text.replace(*breaks) if vendor else text)
        (tmp_path / "script.ys").write_text(SCRIPT.format(cycles=CYCLES))
        found = subprocess.run(yosys_command("script.ys"), cwd=tmp_path, capture_output=True, text=True, timeout=120)
        return found.stdout + found.stderr

    return run


PROVED = "SAT proof finished - no model found: SUCCESS!"


@pytest.mark.parametrize("inputs", [True, False])
def test_block_is_its_twin(prove, inputs):
    assert PROVED in prove(inputs)


@pytest.mark.parametrize(
    ("inputs", "breaks"),
    [
        (True, ('.REG_INPUTB_CE("CE1")', '.REG_INPUTB_CE("CE0")')),
        (True, ('.REG_OUTPUT_CLK("CLK0")', '.REG_OUTPUT_CLK("NONE")')),
        (False, ('.REG_OUTPUT_CE("CE0")', '.REG_OUTPUT_CE("CE1")')),
        (False, (".A4(a[2])", ".A4(a[1])")),
    ],
)
def test_another_block_is_not(prove, inputs, breaks):
    said = prove(inputs, breaks)
    assert PROVED not in said
    assert "SAT proof finished - model found: FAIL!" in said
