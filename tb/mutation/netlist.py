"""The accelerator's netlist, whose blocks with benches of their own can be put under those benches too.

A block of ``BLOCKS`` is elaborated apart, as a module named after its class with the ports of its signature,
and instantiated wherever the design has it: the same module, mutants included, serves the accelerator and the
block's bench.
"""

import gc
import re
import sys
import tempfile
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path

from adagp.gen.description import MODULE
from adagp.gen.verilog import CLOCK_GATE, NETLIST_PASSES, Flat, Gated
from adagp.rtl.compute.array import Array
from adagp.rtl.compute.compute import Compute
from adagp.rtl.compute.dropout import Dropout
from adagp.rtl.control import quality_gate
from adagp.rtl.control.cosine import Cosine
from adagp.rtl.control.csr import Csr
from adagp.rtl.control.phase_control import PhaseControl
from adagp.rtl.dma.fill import Fill
from adagp.rtl.dma.store import Store
from adagp.rtl.drain.drain import Drain
from adagp.rtl.drain.reorganise import Reorganise
from adagp.rtl.norm.channel_constants import ChannelConstants
from adagp.rtl.norm.norm import Norm
from adagp.rtl.sequencer.sequencer import Sequencer
from adagp.rtl.update.adam_factors import AdamScale
from adagp.rtl.update.adam_lane import AdamLane
from adagp.rtl.update.adam_rate import AdamRate
from adagp.rtl.update.quality import QualitySums
from adagp.rtl.update.update import Update
from amaranth import ClockSignal, Const, Instance, Module, ResetInserter, ResetSignal, Value
from amaranth.back import rtlil
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from . import yosys
from .choice import Mutant

__all__ = [
    "BLOCKS",
    "PREDICTING_BLOCKS",
    "SELECT",
    "SWITCHED_BLOCKS",
    "assemble",
    "netlists",
    "read",
    "under",
    "verilog",
]

BLOCKS = (Array, Compute, Csr, Drain, Fill, Store, Sequencer, Update)
"""Classes that have a bench on Verilog, and that an accelerator with one core has one of."""
PREDICTING_BLOCKS = (AdamLane, AdamScale, AdamRate, Cosine, quality_gate.Gate, PhaseControl, QualitySums, Reorganise)
"""Such classes of blocks that only predicting designs have; even those with two cores have one of each."""
SWITCHED_BLOCKS = (ChannelConstants, Dropout, Norm)
"""Such classes of blocks that only the generator's switches build."""
SELECT = "mutant"
"""Signal with the number of the active mutant; 0: none."""

PREPARE = NETLIST_PASSES.replace("proc\n", "proc\nchformal -remove\n")
"""Passes that also remove assertions, which are no part of the hardware."""

SELECTOR = f"""
module {SELECT}_selector(value);
  output reg [15:0] value;
  initial value = $c32("std::atoi(std::getenv(\\"ADAGP_MUTANT\\") ? std::getenv(\\"ADAGP_MUTANT\\") : \\"0\\")");
endmodule
"""
"""Reads the active mutant's number from the environment when a simulation is built up."""

WIDTH = 16

_MODULE = re.compile(r"^module \\(\S+)\n(.*?)^end$", re.MULTILINE | re.DOTALL)
_INSTANCE = re.compile(r"^  cell \\(\S+) ", re.MULTILINE)
_SOURCE = re.compile(r"^ *attribute \\src .*\n", re.MULTILINE)


def _ports(component: wiring.Component):
    """Name, direction and value of every port, but for the constants of streams that are always ready."""
    for path, member, value in component.signature.flatten(component):
        value = Value.cast(value)
        if not isinstance(value, Const):
            yield "__".join(map(str, path)), member.flow, value


def _instance(component: wiring.Component) -> Module:
    """``component`` as an instance of the module that it is elaborated into elsewhere."""
    m = Module()
    ports = {f"{'i' if flow == In else 'o'}_{name}": value for name, flow, value in _ports(component)}
    reset = ResetSignal(allow_reset_less=True)
    m.submodules.apart = Instance(type(component).__name__, i_clk=ClockSignal(), i_rst=reset, **ports)
    return m


_APART = {block.__name__ for block in BLOCKS + PREDICTING_BLOCKS + SWITCHED_BLOCKS}


class _Inserter(ResetInserter):
    """Amaranth's, that reaches the registers of blocks that are taken apart too: by the ``rst`` of their instances."""

    def on_fragment(self, fragment):
        found = super().on_fragment(fragment)
        if isinstance(found, Instance) and found.type in _APART:
            reset = self.controls.get(found.ports["clk"][0].domain)
            if reset is not None:
                value, direction = found.ports["rst"]
                found.ports["rst"] = (value | reset, direction)
        return found


@contextmanager
def _apart(found: dict[str, wiring.Component], blocks: tuple[type, ...]):
    """Meanwhile ``blocks`` become instances; they are kept in ``found`` by the name of their class."""
    originals = {block: block.elaborate for block in blocks}

    def replacement(block):
        def elaborate(component, platform):
            if found.setdefault(block.__name__, component) is not component:
                raise ValueError(f"more than one {block.__name__}")
            return _instance(component)

        return elaborate

    rtl = [module for name, module in sys.modules.items() if name.startswith("adagp.rtl.")]
    inserting = [module for module in rtl if hasattr(module, "ResetInserter")]
    for block in blocks:
        block.elaborate = replacement(block)
    for module in inserting:
        module.ResetInserter = _Inserter
    try:
        yield originals
    finally:
        for module in inserting:
            module.ResetInserter = ResetInserter
        for block, original in originals.items():
            block.elaborate = original


def _convert(component, name):
    directions = {In: PortDirection.Input, Out: PortDirection.Output}
    ports = {name: (value, directions[flow]) for name, flow, value in _ports(component)}
    gc.disable()
    try:
        return rtlil.convert(component, name=name, platform=Gated(), ports=ports)
    finally:
        gc.enable()


def assemble(component: wiring.Component, blocks: tuple[type, ...] = BLOCKS) -> tuple[str, dict[str, str]]:
    """RTLIL of ``component`` as module ``adagp``, and that of every one of ``blocks`` in it, by class name."""
    found: dict[str, wiring.Component] = {}
    texts: dict[str, str] = {}
    with _apart(found, blocks) as originals:
        whole = _convert(Flat(component), MODULE)
        while left := sorted(found.keys() - texts.keys()):
            for name in left:
                block = type(found[name])
                replaced, block.elaborate = block.elaborate, originals[block]
                try:
                    texts[name] = _convert(found[name], name)
                finally:
                    block.elaborate = replaced
    return whole, texts


def read(text: str) -> str:
    """A prepared netlist, from a block's RTLIL; names that Yosys gives depend on nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "netlist.il"
        yosys.run(f"read_rtlil <<rtlil\n{text}\nrtlil\n{PREPARE}\nwrite_rtlil {path}\n")
        return path.read_text()


def netlists(component: wiring.Component, blocks: tuple[type, ...] = BLOCKS) -> tuple[str, str]:
    """Prepared netlists of ``component`` without its ``blocks``, and of these."""
    whole, texts = assemble(component, blocks)
    return read(whole), "".join(read(texts[name]) for name in sorted(texts))


def under(netlist: str, module: str) -> str:
    """A module of a netlist and those inside it, without the lines of their sources."""
    modules = dict(_MODULE.findall(netlist))
    left, found = [module], set()
    while left:
        name = left.pop()
        if name in modules and name not in found:
            found.add(name)
            left += _INSTANCE.findall(modules[name])
    return "\n".join(f"module {name}\n{_SOURCE.sub('', modules[name])}" for name in sorted(found))


def verilog(netlist: str, mutants: Iterable[Mutant]) -> str:
    """Verilog of module ``adagp`` with all ``mutants``; see ``SELECTOR``."""
    with tempfile.TemporaryDirectory() as folder:
        source, quality_gate, target = (Path(folder) / name for name in ("netlist.il", "gate.v", "mutants.v"))
        source.write_text(netlist)
        quality_gate.write_text(yosys.GATE)
        yosys.run("\n".join([
            f"read_verilog {quality_gate}", f"read_rtlil {source}", f"hierarchy -check -top {MODULE}",
            *(f"mutate -ctrl {SELECT} {WIDTH} {mutant.number} {mutant.command}" for mutant in mutants),
            f"delete -input {MODULE}/w:{SELECT}",
            "attrmap -remove generator -remove top -remove src",
            f"write_verilog -norename {target}",
        ]))  # fmt: skip
        text = target.read_text()
    wire = f"  wire [{WIDTH - 1}:0] {SELECT};\n"
    head, top, rest = text.partition(f"module {MODULE}(")
    rest = rest.replace(wire, f"{wire}  {SELECT}_selector selector (.value({SELECT}));\n", 1)
    return head + top + rest + SELECTOR + CLOCK_GATE
