"""Jobs: tokens, command fetch, what stops writes, and the sequencer."""

from adagp.rtl.control.fetch import Fetch
from adagp.rtl.control.prefetch import COMMANDS_AHEAD, Prefetch
from adagp.rtl.core import HALVES, TOKENS
from adagp.rtl.dma.write_stop import WriteStop
from adagp.rtl.lib.token import TokenCounter
from adagp.rtl.sequencer.sequencer import Sequencer
from adagp.spec.commands import COMMAND_BYTES
from amaranth import Cat, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from .properties_memory import request_rule
from .registry import CONFIG, job
from .rules import bind_streams, counter_rule

__all__ = ["RINGS"]

RINGS = {
    "a": {"a_full": "fill", "a_free": "compute"},
    "b": {"b_full": "fill", "b_free": "compute"},
    "acc": {"acc_full": "compute", "acc_free": "drain"},
    "c": {"c_ready": "fill", "drained": "drain", "c_free": "store"},
}
"""Tokens that go round together, in their order, each with the engine that gives it."""


class TokenRing(wiring.Component):
    """The token counters of a ring between engines that give no more tokens than they took; when is up to them."""

    def __init__(self, ring: dict[str, str]):
        self.ring = ring
        super().__init__({"take": In(len(ring)), "give": In(len(ring))})

    def elaborate(self, platform):
        m = Module()
        names = list(self.ring)
        self.held = [Signal(range(2 * HALVES), name=f"held_{engine}") for engine in self.ring.values()]
        self.counters = [TokenCounter(TOKENS[name][0], HALVES) for name in names]
        for i, name in enumerate(names):
            m.submodules[name] = self.counters[i]
            taken = self.counters[i - 1].take  # what the engine that gives this one takes
            take, give = Signal(name=f"take_{name}"), Signal(name=f"give_{name}")
            m.d.comb += [
                take.eq(self.take[i] & taken.avail), taken.take.eq(take),
                give.eq(self.give[i] & (self.held[i] != 0)), self.counters[i].give.eq(give),
            ]  # fmt: skip
            m.d.sync += self.held[i].eq(self.held[i] + take - give)
        return m


for _name, _ring in RINGS.items():
    assert all(TOKENS[token][1] == giver for token, giver in _ring.items())

    @job(f"tokens_{_name}", lambda ring=_ring: TokenRing(ring))
    def _tokens(h):
        """Also that no half is ever two engines': each takes halves, and gives them on, in turn."""
        for token in h.dut.ring:
            counter_rule(h, f"{token}.count", HALVES)
        counts = [h.signal(f"{token}.count") for token in h.dut.ring]
        h.prove("tokens are neither lost nor made", sum(counts) + sum(h.dut.held) == HALVES)
        firsts = []  # the half that each engine gives on next
        for name in h.dut.ring:
            first = Signal(name=f"first_{name}")
            h.m.d.sync += first.eq(first ^ h.signal(f"give_{name}"))
            firsts.append(first)
        for i, engine in enumerate(h.dut.ring.values()):
            between = counts[i - 1] + h.dut.held[i]  # taken from the engine before, and not yet given on
            h.prove(f"{engine}: halves in turn", (firsts[i - 1] ^ firsts[i]) == between[0])
        for half in range(HALVES):
            holders = [(held == HALVES) | ((held == 1) & (first == half))
                       for first, held in zip(firsts, h.dut.held, strict=True)]  # fmt: skip
            h.prove(f"half {half}: one engine's at most", sum(holders) <= 1)


@job("prefetch", lambda: Prefetch(CONFIG), depth=60)
def _prefetch(h):
    dut = h.dut
    bind_streams(h, unless={"commands": ~dut.enable})
    request_rule(h, "client.request", dut.client.request, COMMAND_BYTES // CONFIG.beat_bytes)
    depth = COMMANDS_AHEAD * COMMAND_BYTES // CONFIG.beat_bytes
    request, beats = dut.client.request, dut.client.beats
    due = Signal(range(2 * depth))  # beats asked for at the memory that haven't come
    asked = request.valid & request.ready
    h.m.d.sync += due.eq(due + (request.p.length + 1) * asked - (beats.valid & beats.ready))
    h.assume("beats: only those asked for", ~beats.valid | (due != 0))
    h.assume("enable rises only while quiet", ~(h.before(~dut.enable) & dut.enable) | dut.quiet)
    h.assume("rewind only while not enabled", ~(dut.rewind & dut.enable))
    counter_rule(h, "due", depth)
    level = h.block("fifo").level
    offered = (request.p.length + 1) * request.valid
    h.prove("due: all beats are accounted for", h.signal("due") == due + level + offered)
    h.cover("commands: offered with a fault", dut.commands.valid & dut.commands.p.fault)


@job("fetch", lambda: Fetch(CONFIG), depth=80)
def _fetch(h):
    dut = h.dut
    bind_streams(h)
    request_rule(h, "client.request", dut.client.request, COMMAND_BYTES // CONFIG.beat_bytes)
    prefetch = h.block("prefetch")
    # Settled, as issue's job proves, and what issue counts on in turn.
    work, taken = dut.work, dut.work.valid & dut.work.ready
    dry = work.valid & work.p.dry
    h.assume("settled: stays while nothing is given", ~h.before(dut.settled & ~taken) | dut.settled)
    h.assume("settled: not after dry work was taken", ~h.before(dry & work.ready) | ~dut.settled)
    tried = Signal()
    h.m.d.sync += tried.eq((tried & ~dut.settled) | (dry & work.ready))
    h.prove("batch_end: only when all is settled", ~dut.batch_end | (dut.settled & ~work.valid))
    h.prove("batch_end: not twice in succession", ~(h.before(dut.batch_end) & dut.batch_end))  # as job batches needs it
    h.prove("LEAVE: all is settled", ~h.state("", "LEAVE") | dut.settled)
    h.prove("work: dry only when all before is settled", ~dry | h.before((dut.settled & ~work.valid) | dry))
    h.prove("SETTLE: while dry work is tried", ~tried | h.state("", "SETTLE"))
    h.prove("work: none while dry work is tried", ~work.valid | ~tried | dut.settled)
    h.cover("work: dry", dry)
    h.cover("batch_end", dut.batch_end)
    h.prove("prefetch: enabled only while quiet", ~(h.before(~prefetch.enable) & prefetch.enable) | prefetch.quiet)
    h.prove("prefetch: rewound only while not enabled", ~(prefetch.rewind & prefetch.enable))
    for state in ("CHECK", "JUDGE", "SETTLE", "WORK", "ADJUST", "NEXT"):
        h.prove(f"{state}: a command is there", ~h.state("", state) | prefetch.commands.valid)
        h.cover(f"{state}", h.state("", state))
    _flow(h, prefetch)
    h.prove("prefetch: takes only commands that are offered", ~prefetch.commands.ready | prefetch.commands.valid)
    request, beats = dut.client.request, dut.client.beats
    due = Signal(range(2 * COMMANDS_AHEAD * COMMAND_BYTES // CONFIG.beat_bytes))
    asked = request.valid & request.ready
    h.m.d.sync += due.eq(due + (request.p.length + 1) * asked - (beats.valid & beats.ready))
    h.assume("beats: only those asked for", ~beats.valid | (due != 0))
    offered = (request.p.length + 1) * request.valid
    h.prove("prefetch: all beats are accounted for",
            h.signal("prefetch.due") == due + h.block("prefetch.fifo").level + offered)  # fmt: skip
    counter_rule(h, "prefetch.due", COMMANDS_AHEAD * COMMAND_BYTES // CONFIG.beat_bytes)


def _flow(h, prefetch):
    """Fetch's knowledge of a command in its states, and when nothing is being read."""
    dut = h.dut
    work, leaves, skip, header, calm, gone, tried = (
        h.signal(name) for name in ("work", "leaves", "skip", "header", "calm", "gone", "tried")
    )
    states = ("IDLE", "CLEAR", "LOCATE", "HOST", "COMMAND", "SETTLE", "WORK", "ADJUST", "NEXT", "LEAVE")
    idle, clear, locate, host, command, settle, working, adjust, following, leave = (h.state("", s) for s in states)
    h.prove("leaves: neither work nor a header", ~leaves | ~(work | header))
    h.prove("WORK: it is work", ~working | work)
    h.prove("ADJUST: neither HOST nor END, and work only if it was tried", ~adjust | (~leaves & (~work | tried)))
    h.prove("SETTLE: calm when settled", ~calm | (settle & dut.settled))
    h.prove("NEXT: leaves only when settled", ~(following & leaves & ~skip) | dut.settled)
    quiet = prefetch.quiet
    h.prove("LEAVE: gone when nothing is read", ~gone | (leave & quiet))
    h.prove("nothing is read outside a program", ~(idle | clear | locate | host) | quiet)
    taken = h.signals("prefetch.stage")[0]  # a command was
    h.prove("prefetch: counts a command before there is the next one", ~taken | command | leave)
    aligned = Cat(h.signal(f"prefetch.{name}")[: (COMMAND_BYTES - 1).bit_length()] for name in ("here",))
    h.prove("prefetch: at the beginning of a command", aligned == 0)
    burst = min(COMMAND_BYTES, CONFIG.beat_bytes * CONFIG.max_burst_beats)
    asked = (h.signal("prefetch.address"), dut.client.request.p.addr)
    h.prove("prefetch: asks for whole bursts", Cat(each % burst for each in asked) == 0)


@job("write_stop", WriteStop)
def _write_stop(h):
    dut, stop = h.dut, h.dut.stop
    stands = h.before(stop.as_value()) == stop.as_value()
    same = h.before(dut.command) == dut.command
    new = dut.begun & ~h.before(h.signal("valid") & (h.signal("latest") == dut.command))
    idle = h.before(~h.signal("valid"))
    h.assume("command: falls only when all is complete, at the end of a batch",
             (h.before(dut.command) <= dut.command) | idle)  # fmt: skip
    h.assume("begun: not while held", ~dut.begun | ~dut.hold)
    h.assume("begun: a command stands before its first burst", ~dut.begun | same)
    h.assume("completed: begun, if a burst was", ~dut.complete | ~dut.begun | (dut.completed != dut.command))
    failing = stop.stopping & stands & h.before(stop.stopping)
    h.prove("nothing is begun behind the failing command", ~(failing & new & same) | (dut.command < stop.index))
    lost = dut.lost.valid & h.before(dut.lost.valid) & (dut.lost.index <= dut.command)
    lost &= h.before(dut.lost.index) == dut.lost.index
    h.prove("nothing is begun that is lost", ~(lost & dut.begun & same))
    h.prove("what is lost isn't waited for",
            ~(dut.writing & dut.lost.valid) | (h.signal("latest") < dut.lost.index))  # fmt: skip
    h.prove("the failing command's writes end", ~(failing & dut.begun) | (dut.command != stop.index))
    h.prove("commands before the failing one aren't held",
            ~(dut.hold & failing & same & h.before(~dut.lost.valid)) | (dut.command >= stop.index))  # fmt: skip
    h.cover("held", dut.hold)
    h.cover("what has begun goes on behind the failing command", failing & dut.begun & (dut.command > stop.index))
    h.cover("writing", stop.stopping & dut.writing)


@job("sequencer", lambda: Sequencer(CONFIG), depth=40, cut=("t:$mul", "c:dut.core.registers", "c:dut.core.code"))
def _sequencer(h):
    bind_streams(h)
    h.assume("reset: comes with the sequencer's own", ~h.dut.reset | ResetSignal())
    core = h.block("core")
    waits = h.before(core.push & ~core.push_ready)
    h.prove("core: runs while it executes", ~h.signal("core.x_valid") | h.signal("core.running"))
    h.prove("core: a push waits until there is room, or a product before it fails",
            ~waits | (core.engine == h.before(core.engine)) & (core.push | h.signal("core.broken")))  # fmt: skip
