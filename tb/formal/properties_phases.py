"""Jobs: the phase of each batch."""

from adagp.rtl.control.phase_control import BP, BP_ONLY, GP, WARMUP, PhaseControl
from adagp.spec.schedule import ENTRIES
from amaranth import Cat, Mux, Signal

from .registry import job

__all__ = []


def _entries(h):
    """The tables' contents: epochs and lengths by place, and the last place."""
    dut = h.dut
    places = range(ENTRIES)
    epochs = [h.word("epochs.memory", place) for place in places]
    lengths = [dut.lengths.shape()(h.word("lengths.memory", place)) for place in places]
    return epochs, lengths, [place + 1 >= dut.entries for place in places[:-1]] + [1]


def _position_of_epoch(h, epochs, lasts):
    """Epochs behind the warm-up and the first entries, by their number, and whether the epoch is behind those."""
    rests, behind = [Signal(32, name=f"rest{place}") for place in range(ENTRIES)], [1]
    h.m.d.comb += rests[0].eq(h.dut.epoch - h.dut.warmup)
    for place in range(1, ENTRIES):
        h.m.d.comb += rests[place].eq(rests[place - 1] - epochs[place - 1])
        behind.append(behind[-1] & ~(lasts[place - 1] | (rests[place - 1] < epochs[place - 1])))
    return rests, behind


def _next_run(dut, lengths):
    """The kind of the batch's run (1 for GP) and its batches, this one included, by the rules of docs/machine.md."""
    gp = Mux(dut.gate_open, lengths.gp, 0)
    another = dut.run.left == 0
    takes_gp = another & (gp != 0) & (~dut.run.gp | (lengths.bp == 0))
    takes_bp = another & (lengths.bp != 0) & (dut.run.gp | (gp == 0))
    is_gp = Mux(another, takes_gp, dut.run.gp)
    return is_gp, Mux(another, Mux(takes_gp, gp, Mux(takes_bp, lengths.bp, 1)), dut.run.left)


def _host(h):
    """A model of the register file: it says when it writes, and its own registers change in the cycle after."""
    dut = h.dut
    sets = Cat(getattr(dut, f"set_{name}") for name in ("epochs", "lengths", "epoch", "batch", "run"))
    h.assume("written: whenever something is set", ~sets.any() | dut.written)
    registers = Cat(dut.warmup, dut.batches, dut.entries, dut.gate_open)
    h.assume("what decides stands, but after a write", h.fresh | (h.before(registers) == registers)
             | h.before(dut.written))  # fmt: skip
    h.assume("decide: only while not busy", ~dut.decide | ~dut.busy)


@job("phases", PhaseControl, depth=40)
def _phases(h):
    """A decision is what the rules say of the registers of one time, whatever is written meanwhile."""
    dut = h.dut
    _host(h)
    epochs, lengths, lasts = _entries(h)
    rests, behind = _position_of_epoch(h, epochs, lasts)
    read, find, choose, move = (h.state("", name) for name in ("READ", "FIND", "CHOOSE", "MOVE"))
    place, entry = h.signal("place"), dut.lengths.shape()(h.signal("entry"))
    warm, over, batch_after = dut.epoch < dut.warmup, dut.batch + 1 >= dut.batches, dut.batch + 1
    found, none = Signal(range(ENTRIES)), dut.entries == 0
    epochs_read, lengths_read = h.block("epochs").data, h.block("lengths").data.as_value()
    for number in range(ENTRIES):
        with h.m.If(behind[number]):
            h.m.d.comb += found.eq(number)
        here = (read | find) & (place == number)
        h.prove(f"place {number}: the epoch is behind the entries before", ~here | behind[number])
        h.prove(f"place {number}: rest is the epoch's in what is left",
                ~here | (h.signal("rest") == rests[number]))  # fmt: skip
        h.prove(f"place {number}: FIND has its entry", ~(find & (place == number)) | (
            (epochs_read == epochs[number]) & (lengths_read == lengths[number].as_value())))  # fmt: skip
    chosen = dut.lengths.shape()(Signal(len(dut.lengths.as_value()), name="chosen"))
    every = Cat(each.as_value() for each in lengths)
    h.m.d.comb += chosen.as_value().eq(Mux(none, BP_ONLY.as_value(), every.word_select(found, 32)))
    h.prove("entry: the one that holds", ~choose & ~move | (entry.as_value() == chosen.as_value()))
    h.prove("warm: in an epoch of the warm-up", ~(read | find | choose | move) | (h.signal("warm") == warm))
    h.prove("following: the batch after", ~(read | find | choose | move) | (h.signal("following") == batch_after))
    h.prove("over: with the last batch of an epoch", ~move | (h.signal("over") == over))
    is_gp, batches = _next_run(dut, chosen)
    run = h.signals("run")[-1]
    h.prove("run: by the rules", ~move | (run == Cat(batches[:16], is_gp)))
    _decided(h, move & ~dut.written, warm, over, is_gp, batches, chosen)
    _time(h, place, found)
    h.cover("the last entry holds", choose & (found == ENTRIES - 1))
    h.cover("begins anew", h.before(move & dut.written) & dut.busy)


def _decided(h, moves, warm, over, is_gp, batches, entry):
    """Rules about the cycles after a decision."""
    dut = h.dut
    moved, before = h.before(moves), h.before
    phase = Mux(warm, WARMUP, Mux(is_gp, GP, BP))
    h.prove("phase: stands but for a decision", moved | h.fresh | (before(dut.phase) == dut.phase))
    h.prove("phase: by the rules", ~moved | (dut.phase == before(phase)))
    h.prove("phase: never GP in the warm-up", ~(moved & before(warm)) | (dut.phase == WARMUP))
    begins = moved & ~before(warm) & (before(dut.run.left) == 0)
    h.prove("phase: no run of GP begins while the gate is shut",
            ~begins | (dut.phase != GP) | before(dut.gate_open))  # fmt: skip
    left = before(batches) - 1
    run = Mux(before(warm), before(dut.run.as_value()), Cat(left[:16], before(is_gp)))
    h.prove("run: moves by one batch, but not in the warm-up", ~moved | (dut.run.as_value() == run))
    epoch = before(dut.epoch + over)[:32]
    h.prove("epoch: the next one after its last batch", ~moved | (dut.epoch == epoch))
    h.prove("batch: counted in its epoch",
            ~moved | (dut.batch == Mux(before(over), 0, before(dut.batch + 1)[:32])))  # fmt: skip
    # Batches of the run so far, since the host wrote its position.
    known, so_far, length = Signal(), Signal(17), Signal(16)
    with h.m.If(moves & ~warm):
        h.m.d.sync += so_far.eq(Mux(dut.run.left == 0, 1, so_far + 1))
        with h.m.If(dut.run.left == 0):
            h.m.d.sync += [known.eq(1), length.eq(Mux(is_gp, entry.gp, Mux(entry.bp == 0, 1, entry.bp)))]
    with h.m.If(dut.set_run):
        h.m.d.sync += known.eq(0)
    h.prove("run: as many batches as its entry said when it began", ~known | (so_far + dut.run.left == length))
    h.cover("the second batch of a run of GP", known & dut.run.gp & (so_far == 2))
    for name, number in (("warm-up", WARMUP), ("BP", BP), ("GP", GP)):
        h.cover(f"a batch of {name}", moved & (dut.phase == number) & (h.before(dut.phase) != number))


def _time(h, place, found):
    """A decision ends in time, counted from the last write and from ``ready``, without the cycles with ``show``."""
    dut = h.dut
    spent = Signal(range(2 * PhaseControl.DECISION_CYCLES))
    waits = h.state("", "BEGIN") & ~dut.ready
    with h.m.If(dut.decide | dut.written | waits):
        h.m.d.sync += spent.eq(0)
    with h.m.Elif(dut.busy & ~dut.show):
        h.m.d.sync += spent.eq(spent + 1)
    states = {"BEGIN": 0, "READ": (place << 1) + 1, "FIND": (place << 1) + 2}
    states |= {"CHOOSE": 2 * ENTRIES + 1, "MOVE": 2 * ENTRIES + 2}
    for state, most in states.items():
        h.prove(f"{state}: in its time", ~h.state("", state) | (spent <= most))
    h.prove(f"busy: for at most {PhaseControl.DECISION_CYCLES} cycles",
            ~dut.busy | (spent < PhaseControl.DECISION_CYCLES))  # fmt: skip
    h.cover("all that time", dut.busy & (spent == PhaseControl.DECISION_CYCLES - 1))
