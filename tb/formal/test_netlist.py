"""The netlist of a block before it is solved: gates between signals, cells that are cut out."""

import pytest
from amaranth import Assert, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from formal.harness import Harness
from formal.netlist import build, gates_between
from formal.solver import solve

DEPTH, LIMIT = 20, 10


class Lookup(wiring.Component):
    """A memory, read by a clock or by gates; with ``passes`` there is a way around it too."""

    def __init__(self, domain, passes):
        self.domain, self.passes = domain, passes
        super().__init__({"addr": In(1), "data": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=1, depth=2, init=[0, 1])
        read = memory.read_port(domain=self.domain)
        m.d.comb += [read.addr.eq(self.addr), self.data.eq(read.data ^ (self.addr if self.passes else 0))]
        return m


@pytest.mark.parametrize("domain, passes, leads", [("sync", 0, False), ("sync", 1, True), ("comb", 0, True)])
def test_gates_lead_through_memories_that_gates_read(domain, passes, leads, tmp_path):
    harness = Harness(Lookup(domain, passes))
    pair = (harness.dut.data, harness.dut.addr)
    harness.ignores("data ignores addr", *pair)
    assert gates_between(harness.rtlil(), tmp_path, harness.independent) == {"data ignores addr": leads}


@pytest.mark.parametrize("missing", ["output", "port"])
def test_gates_need_their_signals(missing, tmp_path):
    harness = Harness(Lookup("comb", 0))
    pair = [harness.dut.data, harness.dut.addr]
    pair[missing == "port"] = Signal(name="elsewhere")
    harness.ignores("data ignores addr", harness.dut.data, harness.dut.addr)
    with pytest.raises(KeyError, match="no signal 'elsewhere'"):
        gates_between(harness.rtlil(), tmp_path, {"data ignores addr": tuple(pair)})


class Product(wiring.Component):
    """Half of what it is given times the other half, which is 0."""

    def __init__(self):
        super().__init__({"i": In(3), "zero": In(3), "o": Out(6)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.o.eq(self.i * self.zero)
        return m


@pytest.mark.parametrize("cut, outcome", [((), "proved"), (("t:$mul",), "failed")])
def test_what_is_cut_is_free(cut, outcome, tmp_path):
    harness = Harness(Product())
    harness.assume("zero", harness.dut.zero == 0)
    harness.prove("o: 0", harness.dut.o == 0)
    harness.cover("checks keep their products", harness.dut.i * harness.before(harness.dut.i) == 6)
    rtlil = harness.rtlil()
    found = solve(lambda doubtful: build(rtlil, tmp_path, cut, doubtful), DEPTH, LIMIT)
    assert {result.name: result.outcome for result in found} == {
        "o: 0": outcome, "checks keep their products": "reached",
    }  # fmt: skip


class Watched(wiring.Component):
    """Two parts alike that assert what doesn't hold of what they count."""

    def __init__(self):
        super().__init__({"i": In(2)})

    def elaborate(self, platform):
        m = Module()
        for number in range(2):
            m.submodules[f"part{number}"] = part = Module()
            count = Signal(2, name=f"count{number}")
            part.d.sync += [count.eq(count + self.i[number]), Assert(count != 2, "never")]
        return m


@pytest.mark.parametrize("cut, left", [((), (0, 1)), (("c:*part0*",), (1,)), (("t:$mul", "c:*part*"), ())])
def test_what_is_cut_asserts_nothing(cut, left, tmp_path):
    harness = Harness(Watched())
    harness.prove("i: it is", harness.dut.i == harness.dut.i)
    rtlil = harness.rtlil()
    found = solve(lambda doubtful: build(rtlil, tmp_path, cut, doubtful), DEPTH, LIMIT)
    assert {result.name for result in found if result.outcome == "failed"} == {f"dut.part{n}: never" for n in left}
    assert "i: it is" in {result.name for result in found} and len(found) == 1 + len(left)
