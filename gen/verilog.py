"""Emission of an accelerator: ``top.v``, its description ``top.json`` and the C header ``adagp.h``."""

import gc
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from unittest.mock import patch

from amaranth import ClockDomain, ClockSignal, Const, DomainRenamer, Module, ResetSignal, Signal, Value
from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil
from amaranth.hdl import UnusedElaboratable
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from ..rtl.lib.clock_gate import CELL
from ..spec.config import FAMILIES, Config
from .description import MODULE, describe
from .header import header

__all__ = [
    "ASSERT_MACRO", "CLOCK_GATE", "GATED", "GATE_MACRO", "NETLIST_PASSES", "Flat", "Gated", "Vendor",
    "generate", "to_rtlil", "to_verilog",
]  # fmt: skip

NETLIST_PASSES = """
proc
opt_expr
opt_merge
opt_clean
opt_dff
opt_clean
memory_collect
opt_clean
"""
"""Yosys passes from RTLIL to the netlist that becomes Verilog."""
# Processes become multiplexers: amaranth.back.verilog leaves `always @*` blocks, which Verilator does not run when
# a field of the struct they assign is what they depend on (they would have to be sensitive to their own output).
# opt_dff gives registers back the enables that proc has turned into multiplexers: a simulator then skips what is idle.

_WRITE = """
attrmap -remove generator -remove top -remove src -remove amaranth.hierarchy -remove amaranth.decoding
write_verilog -norename
"""

GATE_MACRO = "ADAGP_CLOCK_GATES"
"""Defined where clock gates shall really gate: in simulation, which is faster so, and where there is no better cell."""

CLOCK_GATE = f"""
module {CELL}(input clk, input open, output o);
`ifdef {GATE_MACRO}
  reg opened;
  always @(clk or open) if (!clk) opened = open;
  assign o = clk & opened;
`else
  assign o = clk;
`endif
endmodule
"""
"""The cell behind every clock gate, as a Verilog module."""

ASSERT_MACRO = "ADAGP_ASSERT"
"""Defined by tools that shall check the design's assertions, which aren't Verilog-2005."""

_ASSERTION = re.compile(r"(?:^ *if \(!.*\)\n *\$write\(.*\);\n)?^ *assert \(.*\);\n", re.MULTILINE)

_YOSYS_NAME = re.compile(r"\\\$(?:(procmux)|auto\$\w+\.cc:\d+:(\w+))\$(\d+)(?=[_ ])")
# For readers; and a function whose name begins with a dollar sign is a system function to Icarus, even if escaped.

_REPEATED = re.compile(r"(?<=[ {])((?:\\\S+ |[A-Za-z_]\w*)(?:\[\d+\])?)(?:, \1){2,}(?=,| })")
# A sign extension bit by bit, which Verilator would compute bit by bit.

_MEMORY = re.compile(r"^  reg (?:\[(\d+):0\] )?(\S+) +\[(\d+):0\];\n(?!  initial begin\n    \2)", re.MULTILINE)
"""A memory whose first contents aren't given."""


class Gated:
    """The platform of generated Verilog: blocks that stand still have their clocks gated."""

    clock_gates = True


GATED = Gated()


@dataclass(frozen=True)
class Vendor:
    """The platform of one technology: FPGAs of ``family``, or standard cells (None). Clocks are not gated.

    Raises ValueError for a family that isn't one of ``FAMILIES``.
    """

    family: str | None = None
    clock_gates = False

    def __post_init__(self):
        if self.family is not None and self.family not in FAMILIES:
            raise ValueError(f"a family is one of {', '.join(FAMILIES)}, not {self.family!r}")


class _Emitter(rtlil.ModuleEmitter):
    """Amaranth's, but for memories that are 0 at first: it would write them, and Yosys read them, bit by bit."""

    def emit_memory(self, cell_idx, cell):
        if any(cell.init):
            super().emit_memory(cell_idx, cell)


class Flat(wiring.Component):
    """``component`` with the members of its interfaces as ports: ``m_axi.awaddr`` is ``m_axi_awaddr``.

    Its reset is registered: a short net for timing, and a simulator need not evaluate all next-state
    logic for a change of the port. It lasts a cycle longer than ``rst`` and is asserted at power-up too.

    Raises ValueError for a name with a double underscore, which Verilator would escape.
    """

    def __init__(self, component: wiring.Component):
        self.component = component
        members = {}
        for name, member, _ in self._ports(component):
            if "__" in name:
                raise ValueError(f"port {name!r} has a double underscore")
            members[name] = member
        super().__init__(members)

    @staticmethod
    def _ports(component):
        """Name, member and value of each; what is constant, as a stream that is always ready, needs none."""
        for path, member, value in component.signature.flatten(component):
            if not isinstance(Value.cast(value), Const):
                yield "_".join(map(str, path)), member, value

    def elaborate(self, platform):
        m = Module()
        m.domains.core = core = ClockDomain("core", local=True)
        m.submodules.accelerator = DomainRenamer("core")(self.component)
        reset = Signal(init=1, reset_less=True)
        m.d.sync += reset.eq(ResetSignal())
        m.d.comb += [core.clk.eq(ClockSignal()), core.rst.eq(reset)]
        for name, member, inner in self._ports(self.component):
            outer = getattr(self, name)
            m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)
        return m


def to_rtlil(component: wiring.Component, platform, name: str = MODULE) -> str:
    """RTLIL text of ``component`` as module ``name``, elaborated for ``platform``; the same for every run."""
    gc.disable()  # millions of small objects that all stay alive: collecting them takes a quarter of the time
    try:
        return rtlil.convert(component, name=name, platform=platform, emit_src=False)
    finally:
        gc.enable()


def to_verilog(
    component: wiring.Component, platform: Gated | Vendor = GATED, progress: Callable[[str], None] | None = None
) -> str:
    """Verilog-2005 text of ``component`` as module ``adagp``, the same for every run.

    For a vendor's FPGAs it instantiates their primitives, whose models come with the vendor's tools. Assertions are
    there only where ``ASSERT_MACRO`` is defined. ``progress`` is told each step as it begins.
    """
    begins = progress or (lambda _: None)
    begins("elaborating the hardware")
    with patch.object(rtlil, "ModuleEmitter", _Emitter):
        text = to_rtlil(Flat(component), platform)
    script = f"read_rtlil <<rtlil\n{text}\nrtlil\n{NETLIST_PASSES}{_WRITE}"
    begins("writing Verilog with Yosys")
    text = find_yosys(lambda version: version >= (0, 40)).run(["-q", "-"], script, ignore_warnings=True)
    text = _REPEATED.sub(_replicated, _guard_assertions(_clear_memories(_YOSYS_NAME.sub(_readable, text))))
    return text + CLOCK_GATE if CELL in text else text


def _readable(found):
    process, automatic, number = found.groups()
    return f"{process or automatic}_{number}"


def _replicated(found):
    times = (len(found[0]) + len(", ")) // (len(found[1]) + len(", "))
    return f"{{{times}{{{found[1]}}}}}"


def _guard_assertions(text):
    return _ASSERTION.sub(lambda found: f"`ifdef {ASSERT_MACRO}\n{found[0]}`endif\n", text)


def _clear_memories(text):
    """Add the initial values of memories, which :class:`_Emitter` leaves out: 0 unless others are given."""
    numbers = count()

    def clear(found):
        high, memory, last = found.groups()
        width, name = int(high or 0) + 1, memory + " " * memory.startswith("\\")
        return (
            f"{found[0]}  initial begin : clear_{next(numbers)}\n    integer i;\n"
            f"    for (i = 0; i < {int(last) + 1}; i = i + 1) {name}[i] = {width}'h{'0' * -(-width // 4)};\n  end\n"
        )

    return _MEMORY.sub(clear, text)


def generate(
    config: Config, directory: Path | str, component: wiring.Component | None = None,
    platform: Gated | Vendor = GATED, progress: Callable[[str], None] | None = None,
) -> Path:  # fmt: skip
    """Write ``top.v``, ``top.json`` and ``adagp.h`` for ``config``; returns the path of ``top.v``.

    ``component`` replaces the accelerator by another component with the same ports; ``platform`` and ``progress``:
    see :func:`to_verilog`.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "top.json").write_text(json.dumps(describe(config), indent=2) + "\n")
    (directory / "adagp.h").write_text(header(config))
    path = directory / "top.v"
    try:
        if component is None:
            from ..rtl.top import Top  # here, so that the description of a configuration needs no hardware

            component = Top(config)
        path.write_text(to_verilog(component, platform, progress))
    except BaseException:
        warnings.simplefilter("ignore", UnusedElaboratable)  # components that an interrupt leaves are no mistake
        raise
    return path
