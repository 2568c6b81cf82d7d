"""Jobs: tokens, command fetch, dispatch, sequencer, counters and what gathers exponents."""

from adagp.rtl.counters import Counters
from adagp.rtl.dispatch import Dispatch
from adagp.rtl.fetch import Fetch
from adagp.rtl.issue import UPDATE_DEPTH, Issue
from adagp.rtl.prefetch import COMMANDS_AHEAD, Prefetch
from adagp.rtl.sequencer import Sequencer
from adagp.rtl.shadow import Shadow
from adagp.rtl.supervisor import Supervisor
from adagp.rtl.token import TokenCounter
from adagp.rtl.top import HALVES, TOKENS
from adagp.spec.commands import COMMAND_BYTES
from adagp.spec.descriptors import ENGINES
from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from .jobs_memory import request_rule
from .registry import CONFIG, job
from .rules import bind_streams, counter_rule, fifo_rule

__all__ = ["RINGS"]

RINGS = {
    "a": {"a_full": "fill", "a_free": "compute"},
    "b": {"b_full": "fill", "b_free": "compute"},
    "acc": {"acc_full": "compute", "acc_free": "drain"},
    "c": {"c_ready": "fill", "drained": "drain", "c_free": "store"},
}
"""Tokens that go round together, in their order, each with the engine that gives it."""


RESULT_GAP = 6
"""Cycles that the drain engine and the update unit take at least for their own beside the results of a command."""


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
        for token in h.dut.ring:
            counter_rule(h, f"{token}.count", HALVES)
        counts = [h.signal(f"{token}.count") for token in h.dut.ring]
        h.prove("tokens are neither lost nor made", sum(counts) + sum(h.dut.held) == HALVES)


@job("dispatch", lambda: Dispatch(8, UPDATE_DEPTH))
def _dispatch(h):
    bind_streams(h)
    queue = h.block("queue")
    fifo_rule(h, "queue", queue, by_stream=True)
    for which in ("main", "update"):
        now = h.dut.completed[which]
        h.assume(f"completed.{which}: only grows while something is queued",
                 ~h.before(queue.level != 0) | (now >= h.before(now)))  # fmt: skip


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


@job("fetch", lambda: Fetch(CONFIG), depth=60)
def _fetch(h):
    dut = h.dut
    bind_streams(h)
    request_rule(h, "client.request", dut.client.request, COMMAND_BYTES // CONFIG.beat_bytes)
    prefetch = h.block("prefetch")
    h.prove("prefetch: enabled only while quiet", ~(h.before(~prefetch.enable) & prefetch.enable) | prefetch.quiet)
    h.prove("prefetch: rewound only while not enabled", ~(prefetch.rewind & prefetch.enable))
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


@job("issue", lambda: Issue(CONFIG), depth=60)
def _issue(h):
    dut = h.dut
    bind_streams(h)
    flows = {"main": (dut.task, dut.main_done), "update": (dut.update_task, dut.update_done)}
    for name, (port, done) in flows.items():
        running = h.count(port.valid & port.ready, done, 15)
        h.assume(f"{name}: as many are done as were taken", ~done | (running != 0))
        h.assume(f"{name}: engines hold a few tasks", running <= 8)
        h.cover(f"{name}: done", done)
    h.assume("new_batch: only when all is settled", ~dut.new_batch | (dut.settled & ~dut.work.valid))
    dry = dut.work.valid & dut.work.p.dry
    h.assume("dry work: only when all before is settled", ~dry | h.before(dut.settled | dry))
    h.assume("no work while dry work is tried", ~dut.work.valid | ~h.signal("trying"))
    h.prove("settled: nothing waits in a queue",
            ~dut.settled | ~(dut.task.valid | dut.update_task.valid))  # fmt: skip


@job("sequencer", lambda: Sequencer(CONFIG), depth=40, cut=("t:$mul", "c:dut.core.registers", "c:dut.core.code"))
def _sequencer(h):
    bind_streams(h)
    for engine in ENGINES:
        fifo_rule(h, f"{engine}_queue", h.block(f"{engine}_queue"), by_stream=True)
    core = h.block("core")
    waits = h.before(core.push & ~core.push_ready)
    h.prove("core: a push waits until there is room", ~waits | (core.push & (core.engine == h.before(core.engine))))


@job("counters", lambda: Counters(CONFIG), depth=60)
def _counters(h):
    h.assume("show: at most every other cycle", ~(h.before(h.dut.show) & h.dut.show))
    h.assume("phase: stands", ~h.before(1) | (h.before(h.dut.phase) == h.dut.phase))
    counts = h.dut.counts
    bounds = {"macs": CONFIG.n_pes, "read_bytes": CONFIG.beat_bytes, "write_bytes": CONFIG.beat_bytes}
    for name in counts.shape().members:
        count = counts[name]
        h.assume(f"{name}: at most what one cycle brings", count <= bounds.get(name, (1 << len(count)) - 1))
        live = h.signal(f"live_{name}")
        falls = live < h.before(live)
        cleared = h.before(h.dut.clear) & (live == 0)
        h.prove(f"live_{name}: falls only when it is taken", ~falls | (live == h.before(count)) | cleared)
        h.cover(f"live_{name}: holds more than a cycle brings", live > bounds.get(name, (1 << len(count)) - 1))


@job("shadow", lambda: Shadow(CONFIG), depth=40)
def _shadow(h):
    valid = {name: getattr(h.dut, f"{name}_result_valid") for name in ("drain", "update")}
    for name, now in valid.items():
        history = Signal(RESULT_GAP, name=f"history_{name}")
        h.m.d.sync += history.eq(Cat(now, history))
        recent = history if name == "drain" else history[1:]  # an UPDATE's two results come one after the other
        h.assume(f"{name}: results of different commands are {RESULT_GAP} cycles apart", ~now | (recent == 0))
        h.cover(f"{name}: a result", now)
        h.cover(f"{name}: one waits to be entered", h.block(name).level == 1)


@job("supervisor", lambda: Supervisor(5))
def _supervisor(h):
    dut = h.dut
    h.prove("a running machine is reset only when halted and idle",
            ~dut.reset | ~h.before(dut.halt) | (dut.idle & h.before(dut.idle)))  # fmt: skip
    h.prove("start follows a reset", ~dut.start | h.before(dut.reset))
    h.prove("an error is kept until CLEAR", ~h.before(dut.error.valid & ~dut.reset) | dut.error.valid)
    h.cover("halted by an error", dut.halt & dut.error.valid)
    h.cover("reset by CLEAR", dut.reset & dut.halt)
