"""Emission of Verilog: memories' first contents."""

import re

import pytest
from adagp.gen.verilog import Vendor, to_verilog
from adagp.rtl.compute.pe import PE
from adagp.spec.presets import preset
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

CONTENTS = {"zeroes": (9, 5, []), "narrow": (1, 4, []), "single": (13, 1, []), "given": (8, 4, [0, 7, 0, 9])}
"""Width, depth and first contents."""


class Memories(wiring.Component):
    """A memory of each kind, all written alike and read together."""

    def __init__(self):
        super().__init__({"address": In(3), "value": In(16), "o": Out(16)})

    def elaborate(self, platform):
        m = Module()
        together = 0
        for name, (width, depth, init) in CONTENTS.items():
            m.submodules[name] = memory = Memory(shape=width, depth=depth, init=init)
            read, write = memory.read_port(), memory.write_port()
            m.d.comb += [read.addr.eq(self.address), write.addr.eq(self.address), write.data.eq(self.value)]
            m.d.comb += write.en.eq(self.value[-1])
            together = together ^ read.data
        m.d.sync += self.o.eq(together)
        return m


def test_memories_begin_with_what_they_are_given():
    text = to_verilog(Memories())
    cleared = re.findall(r"i < (\d+); i = i \+ 1\) \S+? ?\[i\] = (\d+)'h(0+);", text)
    expected = {(str(depth), str(width), "0" * -(-width // 4)) for width, depth, init in CONTENTS.values() if not init}
    assert set(cleared) == expected and len(cleared) == 3
    given = [int(value, 16) for value in re.findall(r"\[\d+\] = 8'h([0-9a-f]+);", text)]
    assert given == CONTENTS["given"][2]


def test_a_vendors_verilog_has_its_blocks():
    pe = PE(preset("tiny"))
    plain, ecp5 = to_verilog(pe), to_verilog(pe, Vendor("ecp5"))
    assert "MULT18X18D" not in plain and ecp5.count("MULT18X18D ") == 1 and "*" in plain.replace("(*", "")
    assert to_verilog(pe, Vendor("xilinx")) == to_verilog(pe, Vendor()) == plain  # which infer theirs
    with pytest.raises(ValueError, match=r"^a family is one of ecp5, ice40, xilinx, not 'gowin'$"):
        Vendor("gowin")
