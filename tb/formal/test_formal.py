"""The rules see what they are for: each fails on a small block that breaks it, and holds on one that doesn't."""

import importlib
import inspect
from pathlib import Path

import pytest
from adagp import rtl
from adagp.rtl.control.csr import AxiLite
from adagp.rtl.memory.axi import AxiWrite
from amaranth import Module, Signal
from amaranth.hdl import Fragment
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out
from formal.harness import Harness, interfaces
from formal.netlist import build, gates_between
from formal.properties import JOBS
from formal.registry import CONFIG
from formal.rules import bind_streams, counter_rule, fifo_rule, stream_rule
from formal.rules_axi import AXI_LITE_READ_CYCLES, bind_axi_lite, bind_axi_write
from formal.run import check, figures
from formal.solver import solve

DEPTH, LIMIT = 20, 10


def outcomes(harness: Harness, folder: Path) -> dict[str, str]:
    """The outcome of each check of a harness."""
    rtlil = harness.rtlil()
    results = solve(lambda doubtful: build(rtlil, folder, doubtful=doubtful), DEPTH, LIMIT)
    structure = gates_between(rtlil, folder, harness.independent)
    return {
        **{result.name: result.outcome for result in results},
        **{name: "failed" if leads else "proved" for name, leads in structure.items()},
    }


class Register(wiring.Component):
    """A stream register, whole or broken in one way."""

    def __init__(self, flaw=None):
        self.flaw = flaw
        super().__init__({"i": In(stream.Signature(4)), "o": Out(stream.Signature(4)), "go": In(1)})

    def elaborate(self, platform):
        m = Module()
        held, payload = Signal(init=self.flaw == "reset"), Signal(4)
        m.d.comb += [self.o.valid.eq(held), self.o.payload.eq(payload), self.i.ready.eq(~held | self.o.ready)]
        with m.If(self.i.ready):
            m.d.sync += [held.eq(self.i.valid), payload.eq(self.i.payload)]
        if self.flaw == "dropped":
            with m.If(self.go):
                m.d.sync += held.eq(0)
        elif self.flaw == "changed":
            with m.If(self.go):
                m.d.sync += payload.eq(payload + 1)
        elif self.flaw == "waits":
            m.d.comb += self.o.valid.eq(held & (self.o.ready | self.go))
        return m


@pytest.mark.parametrize("flaw, rule", [
    (None, None), ("dropped", "valid holds until ready"), ("changed", "payload stands until ready"),
    ("reset", "not valid after reset"), ("waits", "valid ignores ready"),
])  # fmt: skip
def test_streams(flaw, rule, tmp_path):
    harness = Harness(Register(flaw))
    bind_streams(harness)
    found = outcomes(harness, tmp_path)
    bad = {name for name, outcome in found.items() if outcome in ("failed", "open", "bounded")}
    assert len(found) == 6
    assert f"o: {rule}" in bad if flaw else not bad
    assert found["o: moves"] == "reached"


class Counter(wiring.Component):
    """Counts to 5; ``wild`` beyond and below."""

    def __init__(self, wild):
        self.wild = wild
        super().__init__({"up": In(1), "down": In(1)})

    def elaborate(self, platform):
        m = Module()
        count = Signal(range(6))
        up, down = (self.up, self.down) if self.wild else (self.up & (count != 5), self.down & (count != 0))
        m.d.sync += count.eq(count + up - down)
        return m


@pytest.mark.parametrize("wild", [False, True])
def test_counters(wild, tmp_path):
    harness = Harness(Counter(wild))
    counter_rule(harness, "count", 5)
    found = outcomes(harness, tmp_path)
    assert found["count: at most 5"] == ("failed" if wild else "proved")
    assert found["count: falls to 0"] == found["count: reaches 5"] == "reached"


class Writer(wiring.Component):
    """Bursts of 3 beats on AXI, their last marked ``late`` beats late; ``page``: from 8 bytes before a page's end."""

    def __init__(self, late=0, page=False):
        self.late, self.page = late, page
        super().__init__({"axi": Out(AxiWrite(CONFIG))})

    def elaborate(self, platform):
        m = Module()
        axi = self.axi
        beat = Signal(2)
        m.d.comb += [
            axi.awaddr.eq(4088 if self.page else 4096), axi.awlen.eq(2), axi.awsize.eq(3), axi.awburst.eq(1),
            axi.wlast.eq(beat == 2 + self.late), axi.bready.eq(1),
        ]  # fmt: skip
        with m.FSM():
            with m.State("ADDRESS"):
                m.d.comb += axi.awvalid.eq(~self.fresh(m))
                with m.If(axi.awvalid & axi.awready):
                    m.next = "BEATS"
            with m.State("BEATS"):
                m.d.comb += axi.wvalid.eq(1)
                with m.If(axi.wready):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(axi.wlast):
                        m.d.sync += beat.eq(0)
                        m.next = "ANSWER"
            with m.State("ANSWER"), m.If(axi.bvalid):
                m.next = "ADDRESS"
        return m

    def fresh(self, m):
        fresh = Signal(init=1)
        m.d.sync += fresh.eq(0)
        return fresh


@pytest.mark.parametrize("late, page, rule", [
    (0, False, None), (-1, False, "w: last with the burst's last beat, and only there"),
    (1, False, "w: last with the burst's last beat, and only there"), (0, True, "aw: within a page"),
])  # fmt: skip
def test_axi_master(late, page, rule, tmp_path):
    harness = Harness(Writer(late, page))
    bind_axi_write(harness, harness.dut.axi, CONFIG, outstanding=1, n_ids=1)
    found = outcomes(harness, tmp_path)
    failed = {name for name, outcome in found.items() if outcome == "failed"}
    assert failed == ({rule} if rule else set())
    assert found["aw: moves"] == "reached"


class Slave(wiring.Component):
    """Registers that are all 0, whose read answers come ``answers`` times each."""

    def __init__(self, answers):
        self.answers = answers
        super().__init__({"bus": In(AxiLite())})

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        left = Signal(2)
        m.d.comb += [bus.arready.eq(left == 0), bus.rvalid.eq(left != 0)]
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += left.eq(self.answers)
        with m.Elif(bus.rvalid & bus.rready):
            m.d.sync += left.eq(left - 1)
        return m


@pytest.mark.parametrize(
    "answers, rule",
    [(1, None), (2, "r: no answer without ar"), (0, f"r: answered within {AXI_LITE_READ_CYCLES} cycles")],
)
def test_axi_lite(answers, rule, tmp_path):
    harness = Harness(Slave(answers))
    bind_axi_lite(harness, harness.dut.bus)
    found = outcomes(harness, tmp_path)
    failed = {name for name, outcome in found.items() if outcome == "failed" and name.startswith("r:")}
    assert rule in failed if rule else not failed  # after an answer too many, further rules may fail
    assert found["ar: taken"] == "reached"


def test_unreachable_covers_show(tmp_path):
    harness = Harness(Counter(False))
    harness.cover("six", harness.signal("count") == 6)
    assert outcomes(harness, tmp_path) == {"six": "unreached"}


def test_names_are_unique():
    harness = Harness(Register())
    stream_rule(harness, "o", harness.dut.o, True)
    with pytest.raises(ValueError, match="two checks"):
        stream_rule(harness, "o", harness.dut.o, True)
    with pytest.raises(KeyError, match="0 signals"):
        harness.signal("missing")
    assert harness.rtlil()


class Queue(wiring.Component):
    """A FIFO that is read now and then; ``wild``: written whether it has room or not."""

    def __init__(self, wild):
        self.wild = wild
        super().__init__({"put": In(1), "data": In(2), "get": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = SyncFIFO(width=2, depth=3)
        m.d.comb += [
            fifo.w_en.eq(self.put & (fifo.w_rdy | self.wild)), fifo.w_data.eq(self.data), fifo.r_en.eq(self.get),
        ]  # fmt: skip
        return m


@pytest.mark.parametrize("wild", [False, True])
def test_fifos(wild, tmp_path):
    harness = Harness(Queue(wild))
    fifo = harness.block("fifo")
    fifo_rule(harness, "fifo", fifo)
    newest = harness.word("fifo.storage", harness.signal("fifo.produce") - 1)
    entered = harness.before(fifo.w_en & fifo.w_rdy & (fifo.w_data == 3) & (harness.signal("fifo.produce") == 0))
    harness.prove("what is written is there", ~entered | (newest == 3))
    found = outcomes(harness, tmp_path)
    bad = {name for name, outcome in found.items() if outcome not in ("proved", "reached")}
    assert bad == ({"fifo: written only with room"} if wild else set())


@pytest.mark.parametrize("name", ["tokens_c", "pack", "batches", "transposer_rows"])
def test_quick_jobs(name, tmp_path):
    record = check(name, tmp_path)
    found = figures({name: record})
    assert found["formal_properties"] == found["formal_proved"] > 0
    assert found["formal_covers"] > found["formal_unreached"] == 0
    assert check(name, tmp_path) == record  # from its file


@pytest.fixture
def blocks():
    """The jobs' blocks; elaborated, since Amaranth warns of those that nobody uses."""
    found = [job.block() for job in JOBS.values()]
    for block in found:
        Fragment.get(block, None)
    return found


def test_every_stream_output_has_a_job(blocks):
    """Each component of rtl/ that drives a stream is the block of a job, or consists of such blocks."""
    proved = {base.__name__ for block in blocks for base in type(block).__mro__}  # a walk is its base with its segments
    wholes = {"ByteLink", "Control", "Core", "Top"}  # their streams are those of blocks that have jobs
    sources = set()
    folder = Path(rtl.__file__).parent
    for path in folder.rglob("*.py"):
        name = ".".join(path.relative_to(folder).with_suffix("").parts)
        module = importlib.import_module(f"adagp.rtl.{name}")
        for name, component in inspect.getmembers(module, inspect.isclass):
            if issubclass(component, wiring.Component) and component.__module__ == module.__name__:
                text = inspect.getsource(component).partition("def elaborate")[0]
                if any(port in text for port in ("stream.Signature(", "descriptor_stream(", "Client(")):
                    sources.add(name)
    drive = {type(block).__name__ for block in blocks
             if any(out for _, out, _ in interfaces(block, stream.Signature))}  # fmt: skip
    assert drive <= sources | {"TokenRing", "BlockIm2col"}
    assert sources - proved - wholes <= {"_Grants", "UpdateAdam"}
