"""Jobs: the update unit and its two sides.

Where the beats of each array are, said in full, makes the rules inductive. The two sides are proved with full chunks,
without any search for failures; with chunks of few weights once more, so that several of them come within the depth
that can be searched for covers. Reader and writer together (job ``update``) are proved for chunks of few weights only.
"""

from adagp.rtl.update.arrays import SLOTS
from adagp.rtl.update.reader import UpdateReader
from adagp.rtl.update.sgd_lane import SgdLane
from adagp.rtl.update.update import Update
from adagp.rtl.update.writer import UpdateWriter
from adagp.spec.errors import ErrorCode
from amaranth import Cat, Mux, Signal, signed

from .properties_memory import request_rule
from .registry import CONFIG, job
from .rules import bind_streams, counter_rule
from .update_places import MEMORY, aligned, momentum_beats, small_chunks, weights
from .update_reading import beats_due, reading_rule, waiting_groups
from .update_writing import answered, groups_given, output_stands, writing_rule

__all__ = []

FAR = ("holds", "falls to 0", "third chunk", "burst of")
"""Covers that take more than a full chunk."""


@job("update_reader_full", lambda: UpdateReader(CONFIG), depth=None, cut=MEMORY, far=FAR)
@job("update_reader", lambda: UpdateReader(CONFIG), depth=60, cut=MEMORY, patch=small_chunks)
def _update_reader(h):
    dut = h.dut
    bind_streams(h)
    request_rule(h, "read.request", dut.read.request, momentum_beats())
    counter_rule(h, "slots", SLOTS)
    due = beats_due(h, dut.read)
    emitted = reading_rule(h, "", due)
    chunks = Cat(h.block(name).valid for name in ("requested", "received", "emitted"))
    under_way = chunks.any() | dut.o.valid | (due != 0)
    h.assume("start: only while nothing is under way", ~dut.start | ~under_way)
    h.assume("count: stands since the cycle before start", ~dut.start | (h.before(dut.count) == dut.count))
    h.assume("addr: multiples of the beat at start", ~dut.start | aligned(dut.addr))
    h.cover("a group of a third chunk", dut.o.valid & emitted.third(dut.count))


@job("update_writer_full", lambda: UpdateWriter(CONFIG), depth=None, cut=MEMORY, far=(*FAR, "ready: reaches"))
@job("update_writer", lambda: UpdateWriter(CONFIG), depth=60, cut=MEMORY, patch=small_chunks)
def _update_writer(h):
    dut = h.dut
    bind_streams(h)
    request_rule(h, "write.request", dut.write.request, momentum_beats())
    counter_rule(h, "ready", SLOTS)
    output_stands(h, "")
    waits = h.block("request").o.valid  # a burst counts once it is on its way to the port
    h.prove("outstanding counts the bursts", h.signal("outstanding") == answered(h, dut.write) + waits)
    h.assume("count: stands since the cycle before start", ~dut.start | (h.before(dut.count) == dut.count))
    inside, given = groups_given(h, "", dut.count)
    writing = writing_rule(h, "", inside)
    nothing = dut.idle & (given.chunk.left == 0)
    h.prove("idle: all is written and answered", ~nothing | (~h.block("chunks").valid & (h.signal("outstanding") == 0)))
    h.assume("start: only while nothing is under way", ~dut.start | nothing)
    h.assume("addr: multiples of the beat at start", ~dut.start | aligned(dut.addr))
    h.assume("valid: groups of the command, while there is room",
             ~dut.valid | ((given.chunk.left != 0) & (h.signal("ready") + given.ending < SLOTS)))  # fmt: skip
    h.assume("i.last: with the last group of a chunk", ~dut.valid | (dut.i.last == given.last))
    h.cover("a third chunk is written", dut.freed & writing.third(dut.count))


@job(
    "update", lambda: Update(CONFIG), depth=80, limit=600, cut=("c:*lane*", *MEMORY), patch=small_chunks,
    far=("third chunk", "write.request: a burst"),
)  # fmt: skip
def _update(h):
    """Reader, lanes and writer together, for chunks of few weights only.

    What the jobs of reader and writer assume of each other, and of starts and addresses, is proved; of the memory port
    it is assumed here as there.
    """
    dut = h.dut
    h.assume("reset: not without the unit's own, which is everybody's here", ~dut.reset)
    h.prove("resets: none comes", h.signal("resets") == 0)
    bind_streams(h)
    request_rule(h, "read.request", dut.read.request, momentum_beats())
    request_rule(h, "write.request", dut.write.request, momentum_beats())
    output_stands(h, "writer.")
    due = beats_due(h, dut.read)
    answers = answered(h, dut.write)
    counter_rule(h, "slots", SLOTS)
    task = dut.i.p.shape()(h.signal("task"))
    h.prove("room: for groups that are there", ~h.block("reader").o.valid
            | (h.signal("room") == ((h.signal("slots") != 0) | task.dry)))  # fmt: skip
    waits = h.block("writer.request").o.valid
    h.prove("writer.outstanding counts the bursts", h.signal("writer.outstanding") == answers + waits)
    reader, writer = h.block("reader"), h.block("writer")
    emitted = reading_rule(h, "reader.", due)
    inside, entered = groups_given(h, "writer.", task.count)
    given, place = entered.chunk, entered.place
    writing_rule(h, "writer.", inside)

    # Groups on their way through the lanes, the latest first: valid ones, ends of chunks, the end of all. The last
    # three stages are those before a start.
    length, stages = SgdLane.LATENCY, [s for s in h.signals("stage") if len(s) == 1]
    valid, lasts, finals = stages[:length], stages[2 * length : 3 * length], stages[3 * length : -3]
    ends = sum(there & end for there, end in zip(valid, lasts, strict=True))
    h.prove(
        "slots: room, or chunks in the lanes or the writer",
        h.signal("slots") + ends + entered.ending + h.signal("writer.ready") + writer.freed == SLOTS,
    )
    runs, idle = h.state("", "RUN"), ~(h.state("", "RUN") | h.state("", "WRITE"))
    groups = waiting_groups(h, "reader.")
    waiting, ending = sum(there for there, _ in groups), [there & group.final for there, group in groups]
    h.prove("a command has one end", sum([emitted.left != 0, *ending, *finals]) == runs)
    written = ~h.block("writer.chunks").valid & (h.signal("writer.outstanding") == 0)
    h.prove("nothing is left between commands", ~idle | written)
    begun = h.before(writer.start)
    h.prove("writer.idle: all is written and answered", ~writer.idle | begun | written)
    h.prove("a start is followed by groups, if there are any", ~begun | runs | (h.state("", "WRITE") & written))
    h.prove("idle: in its state", h.signal("idle") == h.state("", "IDLE"))
    starts, check = h.state("", "START"), h.block("check")
    h.prove("start: in its state, of a writer too if not dry",
            (reader.start == starts) & (writer.start == (starts & ~task.dry)))  # fmt: skip
    h.prove("start: whether there is nothing to do is known", ~starts | (h.signals("stage")[-3] == (task.count == 0)))
    checks = ~h.state("check", "IDLE")
    h.prove("check: under way in its state", (checks | check.valid) == h.state("", "CHECK"))
    h.prove("check: ends once", ~(checks & check.valid))
    whole_beats = aligned(reader.addr)
    h.prove("check: knows whether addresses are whole beats", ~checks | (h.signal("check.aligned") == whole_beats))
    h.prove("check: passes whole beats only", ~(check.valid & (check.code == ErrorCode.NONE)) | whole_beats)
    to_give = given.left - place
    given_out = Mux(h.signal("reader.begun"), emitted.size - h.signal("reader.left"), 0)
    h.prove("what is given out is given to the writer", Mux(task.dry, given.left == 0,
            to_give - sum(valid) - waiting == emitted.left - given_out))  # fmt: skip
    whole = weights().bit_length() - 1
    h.prove("chunks are counted from the end", Cat(
        (left == 0) | ((left - task.count)[:whole] == 0) for left in (emitted.left, given.left)).all())  # fmt: skip
    behind = emitted.left - given_out
    for number, (there, group) in enumerate(groups):
        ends_all = behind == 0
        end = ends_all | ((behind - task.count)[:whole] == 0)
        h.prove(f"group {number} that waits: its ends", ~there | ((group.last == end) & (group.final == ends_all)))
        behind = behind + there
    for stage in range(length):
        rest = Signal(signed(33), name=f"rest{stage}")  # behind this group
        h.m.d.comb += rest.eq(to_give - 1 - sum(valid[stage + 1 :]))
        end = (rest == 0) | ((rest - task.count)[:whole] == 0)
        h.prove(f"stage {stage}: a group of the command", ~valid[stage] | ((rest >= 0) & (lasts[stage] == end)))
        open_ = (emitted.left != 0) | Cat(*ending, *finals[: stage + 1]).any()
        h.prove(f"stage {stage}: before the end", ~valid[stage] | (open_ & ~task.dry))
        ended = Cat(there & end for there, end in zip(valid[: stage + 1], lasts, strict=False)).any()
        room = h.signal("slots") != 0
        h.prove(f"stage {stage}: its chunk has a slot, or will take one", ~valid[stage] | ended | room)
    h.prove("writer: groups of its chunks", ~writer.valid | ((given.left != 0) & (writer.i.last == entered.last)))
    h.prove("writer: only while there is room",
            ~writer.valid | (h.signal("writer.ready") + entered.ending < SLOTS))  # fmt: skip
    nothing = (emitted.left == 0) & (waiting == 0) & (due == 0) & (given.left == 0) & writer.idle
    h.prove("a start finds nothing under way", ~reader.start | nothing)
    h.prove("a start finds addresses of whole beats", ~reader.start | aligned(reader.addr))
    h.cover("a third chunk is given", dut.busy & given.third(task.count))
    h.cover("something is written", writer.freed)
    h.cover("done", dut.done)
