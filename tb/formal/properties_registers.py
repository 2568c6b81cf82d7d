"""Jobs: registers and what they show: counters, exponents, batches, the state of the machine."""

from functools import reduce
from operator import or_

from adagp.rtl.control.batch_counter import WIDTH, BatchCounter
from adagp.rtl.control.counters import FLUSH_CYCLES, Counters
from adagp.rtl.control.csr import Csr
from adagp.rtl.control.shadow import Shadow
from adagp.rtl.control.supervisor import Supervisor
from adagp.rtl.update.update import Update
from adagp.spec.registers import COUNTERS, Control
from amaranth import Cat, Mux, Signal

from .registry import CONFIG, job
from .rules_axi import bind_axi_lite
from .rules_supervisor import reports_rule, resets_rule

__all__ = ["RESULT_GAP", "recent_results"]

RESULT_GAP = 10
"""Cycles that the drain engine and the update unit take at least for their own beside the results of a command.

The jobs ``drain`` and ``update_results`` prove it."""
RESULTS_ONLY = (*(f"c:*{part}*" for part in ("lane", "reader", "writer", "tracker")), "t:$mem_v2")
"""Cut from the update unit: what doesn't decide in which cycles there are results."""


def recent_results(h, name, valid):
    """A bit for each of the last cycles, the latest first: there was a result."""
    history = Signal(RESULT_GAP, name=f"history_{name}")
    h.m.d.sync += history.eq(Cat(valid, history))
    return history


@job("csr", lambda: Csr(CONFIG))
def _csr(h):
    bind_axi_lite(h, h.dut.bus)


@job("batches", BatchCounter)
def _batches(h):
    dut = h.dut
    running, done = Signal(), Signal(WIDTH)
    ends = dut.batch_end & dut.last
    asked = Signal(WIDTH)
    with h.m.If(dut.begin):
        h.m.d.sync += [running.eq(1), done.eq(0), asked.eq(dut.batches)]
    with h.m.Elif(dut.batch_end):
        h.m.d.sync += [running.eq(~ends), done.eq(done + 1)]
    h.assume("batch_end: only in a run", ~dut.batch_end | running)
    h.assume("begin: not in a run", ~dut.begin | ~running)
    left = h.signal("left")
    one = Mux(asked == 0, 1, asked)
    h.prove("left: what was asked for less what is done", ~running | (left + done == asked))
    h.prove("last: with the last of them, 0 being as 1", ~running | (dut.last == (done == one - 1)))
    h.prove("no more batches than were asked for", ~running | (done < one))
    h.assume("batch_end: not twice in succession", ~(h.before(dut.batch_end) & dut.batch_end))
    advances = h.before(dut.batch_end & ~dut.set_ring_index)
    counts = h.before(advances & ~dut.set_ring_index)
    highest, over = h.signal("highest"), h.signal("over")
    h.prove("highest: of a cycle before", h.fresh | (highest == h.before(dut.ring_count) - 1))
    h.prove("over: of a cycle before", h.fresh | (over == h.before(dut.ring_index >= highest)))
    ended = h.before(dut.batch_end)
    h.prove("nothing runs yet", ~h.fresh | ~running)
    h.prove("ring_index: advances behind a batch only", ~advances | ended)
    h.prove("ring_index: stands until it advances", ~advances | (dut.ring_index == h.before(dut.ring_index)))
    ring_count = h.before(h.before(dut.ring_count))
    h.prove("over: unless the next one is within the ring", ~advances | over | (dut.ring_index + 1 < ring_count))
    ring_count = h.before(ring_count)
    inside = (dut.ring_index < ring_count) | (dut.ring_index == 0)
    h.prove("ring_index: within the ring after a batch", ~counts | inside)
    moved = dut.ring_index == (h.before(dut.ring_index) + 1)[:WIDTH]
    h.prove("ring_index: counts each", ~counts | moved | (dut.ring_index == 0))
    moves = h.before(dut.batch_end & ~dut.set_batch)
    h.prove("batch: counts each", ~moves | (dut.batch == (h.before(dut.batch) + 1)[:WIDTH]))
    waited = Signal(range(2 * WIDTH))
    busy, step, start = h.signal("busy"), h.signal("step"), h.signal("start")
    with h.m.If(dut.locate | dut.batch_end):
        h.m.d.sync += waited.eq(0)
    with h.m.Elif(~dut.located):
        h.m.d.sync += waited.eq(waited + 1)
    h.prove("start: a cycle after locate, two after a batch's end", start == h.before(dut.locate | ended))
    h.prove("waited: from a batch's end on", ~ended | (waited == 0))
    h.prove("waited: a cycle more at most when it starts", ~start | (waited <= 1))
    h.prove("step: one for each cycle since locate", ~busy | start | (waited - step - 1 <= 1))
    h.prove(f"located within {BatchCounter.LOCATE_CYCLES} cycles",
            dut.located | dut.locate | dut.batch_end | (waited < BatchCounter.LOCATE_CYCLES))  # fmt: skip
    h.cover("the third and last batch", dut.last & running & (done == 2))
    h.cover("located", h.before(~dut.located) & dut.located)
    ended = h.before(h.before(dut.batch_end & (dut.ring_index == 1) & ~dut.set_ring_index) & ~dut.set_ring_index)
    h.cover("ring_index: starts over", ended & (dut.ring_index == 0))


@job("counters", lambda: Counters(CONFIG))
def _counters(h):
    dut = h.dut
    h.assume("show: at most every other cycle", ~(h.before(dut.show) & dut.show))
    quiet = Signal(range(FLUSH_CYCLES + 1))  # cycles before this one in which nothing was counted
    h.m.d.sync += quiet.eq(Mux(dut.counts.as_value().any(), 0, Mux(quiet == FLUSH_CYCLES, quiet, quiet + 1)))
    stands = ~h.before(1) | (h.before(dut.phase) == dut.phase)
    stood = h.before(stands, init=1)  # as late as the counts of the phase, which come in registers as it does
    h.assume(f"phase: stands but after {FLUSH_CYCLES} cycles without counts", stands | (quiet == FLUSH_CYCLES))
    bounds = {"macs": CONFIG.n_pes, "read_bytes": CONFIG.beat_bytes, "write_bytes": CONFIG.beat_bytes}
    turn, clear = h.signal("turn"), h.signals("clear")[-1]
    shown, turned = h.before(dut.show), h.before(turn)
    h.prove("clear: first of all", ~h.fresh | clear)
    h.prove("turn: the next one, but for the host's", h.fresh | (turn == (turned + ~shown)[: len(turn)]))
    h.prove("show: not twice in succession, nor before", ~(shown & h.before(shown)))
    h.prove("quiet: a cycle more at most", quiet <= h.before(quiet) + 1)
    stages = h.signals("stage")[4 : 4 + 2 * len(COUNTERS)]  # each counter's count, and whether it is taken
    for place, (name, _) in enumerate(COUNTERS):
        count = dut.counts[name]
        most = bounds.get(name, (1 << len(count)) - 1)
        h.assume(f"{name}: at most what one cycle brings", count <= most)
        live = h.signal(f"live_{name}")
        came, taken = h.before(count), stages[2 * place + 1]
        h.prove(f"{name}: comes in a register", h.fresh | (stages[2 * place] == came))
        h.prove(f"{name}: has come, at most what one cycle brings", came <= most)
        h.prove(f"{name}: nothing is quiet behind it", (came == 0) | (quiet == 0))
        h.prove(f"live_{name}: taken when it is its turn", h.fresh | shown | (taken == (turned == place)))
        # Since its last turn, at most every other cycle was the host's.
        cycles = 2 * (turned - place - 1)[: len(turn)] + 1 + h.before(shown)
        h.prove(f"live_{name}: at most what the cycles since its turn bring", h.fresh | (live <= most * cycles))
        h.prove(f"live_{name}: taken at its turn", h.fresh | (live == 0) | (h.before(quiet) < cycles))
        falls = live < h.before(live)
        cleared = h.before(clear) & (live == 0)
        h.prove(f"live_{name}: falls only when it is taken",
                h.fresh | ~falls | (live == h.before(came)) | cleared)  # fmt: skip
        h.prove(f"live_{name}: in its phase's total before that changes", h.fresh | stood | (live == 0))
        h.cover(f"live_{name}: holds more than a cycle brings", live > most)
    h.cover("another phase", ~stands)


@job("shadow", lambda: Shadow(CONFIG), depth=40)
def _shadow(h):
    valid = {name: getattr(h.dut, f"{name}_result_valid") for name in ("drain", "update")}
    for name, now in valid.items():
        history = recent_results(h, name, now)
        recent = history if name == "drain" else history[1:]  # an UPDATE's two results come one after the other
        h.assume(f"{name}: results of different commands are {RESULT_GAP} cycles apart", ~now | (recent == 0))
        h.cover(f"{name}: a result", now)
        h.cover(f"{name}: one waits to be entered", h.block(name).level == 1)


@job("update_results", lambda: Update(CONFIG), cut=RESULTS_ONLY)
def _update_results(h):
    """Between the results of two commands lies the check of the second one."""
    valid, array = h.dut.result_valid, h.signal("check.array")
    history = recent_results(h, "update", valid)
    check, compares = h.state("", "CHECK"), h.state("check", "COMPARE")
    h.prove("idle: in its state", h.signal("idle") == h.state("", "IDLE"))
    judged = h.signal("check.valid")  # a cycle behind its end
    h.prove("CHECK: while the check runs", check == (~h.state("check", "IDLE") | judged))
    h.prove("CHECK: the check ends once", ~judged | h.state("check", "IDLE"))
    ages = {"IDLE": 1, "BEGIN": 2, "CHECK": 3, "START": 9, **dict.fromkeys(("RUN", "WRITE", "RESULT_V"), RESULT_GAP)}
    for state, age in ages.items():
        h.prove(f"{state}: no result in the {age} cycles before", ~h.state("", state) | ~history[:age].any())
    for age in range(4, 9):  # two cycles for each array
        there = Cat(compares, array) >= age - 3
        h.prove(f"CHECK: no result in the {age} cycles before", ~check | ~there | ~history[:age].any())
    h.prove("RESULT_W: no result but the one before", ~h.state("", "RESULT_W") | ~history[1:].any())
    h.prove(f"results of different commands are {RESULT_GAP} cycles apart", ~valid | (history[1:] == 0))
    done = Signal()
    h.m.d.sync += done.eq(done | h.dut.done)
    h.cover("a result of a second command", done & valid)


RESET_CYCLES = 4
"""Reset cycles of the proved supervisor: as few as tell the order of events."""


@job("supervisor", lambda: Supervisor(5, reset_cycles=RESET_CYCLES))
def _supervisor(h):
    dut = h.dut
    resets, pattern = resets_rule(h, RESET_CYCLES)
    elapsed, booting = h.signal("elapsed"), h.signal("booting")
    first = h.state("", "RESET") & (elapsed == 0) & ~booting
    idle = h.before(dut.idle)
    clears = first & h.before(h.state("", "CLEAR"))
    halted = [h.before(dut.halt)]  # in as many cycles as the arbiters take to know and idle takes to tell
    halted += [h.before(halted[0]), h.before(h.before(halted[0]))]
    h.prove("a running machine is reset only when halted and idle",
            ~clears | (Cat(halted).all() & idle & h.before(idle)))  # fmt: skip
    halting = reduce(or_, (h.state("", name) for name in ("RESET", "STOP", "STOPPED", "CLEAR")))
    h.prove("halt: a cycle behind the states that ask for it", h.fresh | (dut.halt == h.before(halting)))
    h.prove("start follows a reset", ~dut.start | (resets[:-1] == pattern))
    asks, clears = ((dut.command & bit).any() for bit in (Control.START, Control.CLEAR))
    meant = Signal()  # a START that counts has come since the last CLEAR
    with h.m.If(clears):
        h.m.d.sync += meant.eq(0)
    with h.m.Elif(asks & (h.state("", "IDLE") | h.state("", "RESET") | h.state("", "CLEAR"))):
        h.m.d.sync += meant.eq(1)
    ends = h.before(h.state("", "RESET") & elapsed.all())
    h.prove("a reset ends in a start if it was asked for, and no CLEAR came behind that",
            ~ends | (dut.start == h.before((meant | asks) & ~clears)))  # fmt: skip
    h.prove("an error is kept until CLEAR", ~h.before(dut.error.valid & ~dut.reset) | dut.error.valid)
    started, changed = (
        h.before(~dut.error.valid) & dut.error.valid,
        h.before(dut.stop.as_value()) != dut.stop.as_value(),
    )
    h.prove("an error's index never rises", ~h.before(dut.error.valid) | ~dut.error.valid
            | (dut.error.index <= h.before(dut.error.index)))  # fmt: skip
    kept = h.before(dut.lost[0].valid & ~dut.reset)
    h.prove("what is lost stays so", ~kept | (dut.lost[0].valid & (dut.lost[0].index <= h.before(dut.lost[0].index))))
    h.prove("what is lost has failed, or something before it", ~dut.lost[0].valid
            | (dut.error.valid & (dut.error.index <= dut.lost[0].index)))  # fmt: skip
    reports_rule(h)
    h.cover("lost, and the earliest goes on", dut.lost[0].valid & (dut.error.index < dut.lost[0].index))
    recent = Signal(2)
    h.m.d.sync += recent.eq(Cat(changed, recent))
    settling = h.before(h.state("", "SETTLE"))
    stops = h.state("", "STOP") & settling
    h.prove("halted by an error only when quiet", ~stops | h.before(dut.quiet))
    h.prove("halted by an error only after two cycles with the same stop", ~stops | ~(changed | recent[0]))
    h.prove("held: the stop is as it was", ~h.signal("held") | ~changed)
    quiet = Signal(dut.latency + 1)
    h.m.d.sync += quiet.eq(Cat(dut.quiet, quiet))
    h.prove(f"calm: quiet in the {dut.latency} cycles before", ~Cat(
        there & ~was for there, was in zip(h.signal("calm"), quiet, strict=False)).any())  # fmt: skip
    h.prove(f"halted by an error only when quiet for {dut.latency + 1} cycles", ~stops | quiet.all())
    h.cover("an earlier error", dut.error.valid & changed & ~started)
    h.cover("halted by an error", dut.halt & dut.error.valid)
    h.cover("reset by CLEAR", dut.reset & dut.halt)
