"""Invariants of the compute engine: its operand fetchers, its feeder, and halves of the accumulator.

Those that jobs of a part alone have too take the path of that part, its dot included, "" for the harness's own.
"""

from adagp.rtl.compute.accumulator import SumLayout
from adagp.rtl.compute.im2col import Im2col
from adagp.rtl.core import HALVES
from adagp.spec.microcode.descriptors import VectorMode
from amaranth import Cat, Mux, Signal, Value

from .harness import Harness
from .rules_walks import room_rule

__all__ = ["accumulator_rule", "feeder_rule", "operand_rule", "vectors_rule"]


def operand_rule(h: Harness, path: str, full, free) -> Signal:
    """An operand's fetcher at ``path`` gives back no more halves than it took. Returns how many it has."""
    held = Signal(range(4), name=f"held_{len(h.names)}")
    h.m.d.sync += held.eq(held + (full.take & full.avail) - free)
    h.assume(f"{path}full: the ring has no more tokens than halves", ~full.avail | (held < HALVES))
    busy, first, has = (h.signals(path + name)[-1] for name in ("busy", "first", "held"))  # ports are made before
    # The half before is given back when the first vector of the new one has gone through the scratchpad.
    stages = [h.signal(f"{path}stage{stage}") for stage in range(Im2col.latency - 1)]
    leaving = [first, *(stage[0] & stage[2] for stage in stages), free]  # valid ones that free
    h.prove(f"{path}first: while busy", ~first | busy)
    h.prove(f"{path}free: halves are in use or about to be given back", held == has + sum(leaving))
    h.prove(f"{path}free: a half stays in use", has | ~Cat(leaving).any())
    h.prove(f"{path}free: no more halves than were taken", held <= HALVES)
    return held


def vectors_rule(h: Harness, path: str, operand: Im2col) -> list:
    """The ``operand`` fetcher at ``path`` begins a vector only if it finds room, and its walks end with a pass.

    Returns the vectors on their way, the oldest first: whether each is there, and its bits, lanes and ends last.
    """
    stages = [h.signal(f"{path}stage{stage}") for stage in reversed(range(Im2col.latency))]
    for vector in (*stages, operand.o.p):  # whether valid or not: all end in end_pass, end_sweep, end_walk
        ends = Value.cast(vector)[-3:]
        h.prove(f"{len(h.names)}: a walk ends with a pass", ~ends[2] | ends[0])
    lanes = range(operand.config.vector_lanes)
    empty, data = h.before(operand.pad.zeros), operand.pad.data
    h.assume(f"{path}pad: 0 in lanes that were said to be", Cat(~empty[n] | (data[n] == 0) for n in lanes).all())
    n_lanes = stages[0][4:-3]  # after valid, half, free and ones
    h.prove(f"{path}pad: lanes that a vector hasn't are said to be 0",
            ~stages[0][0] | Cat((n < n_lanes) | empty[n] for n in lanes).all())  # fmt: skip

    def meant(vector):
        empty = Cat((lane < vector.lanes) | (vector.data[lane] == 0) for lane in lanes)
        return (~vector.end_walk | vector.end_pass) & empty.all()

    queue = h.block(f"{path}queue")
    busy = h.signals(f"{path}busy")[-1]  # ports are made before
    h.prove(f"{path}taken: a position of a walk, of a group, with room",
            h.signal(f"{path}taken") == (busy & h.signal(f"{path}group_valid") & queue.may))  # fmt: skip
    held = room_rule(h, f"{path}queue", sum(stage[0] for stage in stages), meant)
    return [*held, *((stage[0], stage) for stage in stages)]


def feeder_rule(h: Harness, path: str) -> None:
    """The registers of the feeder at ``path`` say what holds."""
    feeder = h.block(path.rstrip("."))
    may, in_pass, loaded, settled, need_half, opened = (
        h.signal(path + name) for name in ("may", "in_pass", "loaded", "settled", "need_half", "opened"))  # fmt: skip
    h.prove("in_pass: in a GEMM that has taken a vector", ~in_pass | (feeder.busy & opened))
    tile = in_pass | (loaded & h.before(settled, 1))
    h.prove("may: a GEMM, a tile that may begin and, where one is opened, a half that was free the cycle before",
            may == (feeder.busy & tile & (~need_half | h.before(feeder.acc_free.avail))))  # fmt: skip


def accumulator_rule(h: Harness) -> None:
    """Compute gives on a half for each that it took, where descriptors of GEMMs open and complete them in turn."""
    dut = h.dut
    job, feeder = dut.i.p, h.block("feeder")
    is_gemm = job.mode == VectorMode.GEMM
    opened, begun, held, open_ = (Signal(shape, name=name) for name, shape in
                                  (("opened", 1), ("begun", 1), ("held_acc", 6), ("open", 1)))  # fmt: skip
    gemm = feeder.gemm.p.shape()(h.signal("feeder.gemm"))
    ends = feeder.active & feeder.stream.p.end_walk
    take, give = feeder.acc_free.take, dut.acc_full
    with h.m.If(dut.i.valid & dut.i.ready & is_gemm):
        h.m.d.sync += opened.eq(~job.last)
    with h.m.If(feeder.gemm.valid & feeder.gemm.ready):
        h.m.d.sync += begun.eq(1)
    with h.m.If(ends & gemm.last):
        h.m.d.sync += open_.eq(0)
    with h.m.Elif(take):
        h.m.d.sync += open_.eq(1)
    h.m.d.sync += held.eq(held + take - give)
    h.assume("i: GEMMs open and complete halves in turn", ~(dut.i.valid & is_gemm) | (job.first == ~opened))
    here = h.signal("here")
    same = begun & (gemm.as_value() == Cat(job.first, job.last))
    shown = h.signal("shown")
    h.prove("shown: a descriptor is there", ~shown | dut.i.valid)
    h.prove("shown: its mode and roles are known", ~shown | (
        (h.signal("gemm") == is_gemm) & (h.signal("swapped") == job.swap)
        & (h.signal("selects") == (job.mode == VectorMode.SELECT))))  # fmt: skip
    h.prove("i: the GEMM under way is its, while it is here", ~here | (dut.i.valid & (~is_gemm | same)))
    h.prove("feeder: a GEMM has begun while it is busy", ~feeder.busy | begun)
    h.prove("i: halves in turn", (here & is_gemm) | (opened == (begun & ~gemm.last)))
    h.prove("feeder: a half is open from its first vector to its last",
            open_ == Mux(feeder.busy, ~gemm.first | h.signal("feeder.opened"), begun & ~gemm.last))  # fmt: skip
    tags = [s for stage in range(64) for s in h.signals(f"tag{stage}")]
    tags = [SumLayout(tag) for tag in (*tags, *(h.signal(f"accumulator.s{stage}_tag") for stage in range(6)))]
    h.prove("acc_full: given for each half taken", held == open_ + sum(t.valid & t.full for t in tags) + give)
    h.cover("acc_full: given", give)
