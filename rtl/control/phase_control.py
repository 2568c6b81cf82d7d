"""Phase control: chooses each batch's phase by a table of entries and a position in it."""

from contextlib import contextmanager

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.commands import Phase
from ...spec.registers import N_PHASES, register
from ...spec.schedule import ENTRIES
from ..lib.interfaces import register_layout
from ..lib.table import Table

__all__ = ["LengthsLayout", "PhaseControl", "RunLayout"]

WIDTH = 32
"""Bits of an epoch's number, and of the number of batches in an epoch."""
EPOCHS = register("ENTRY_EPOCHS").width
"""Bits of an entry's epochs."""

LengthsLayout = register_layout("ENTRY_LENGTHS")
"""Batches in a run of each kind, as register ENTRY_LENGTHS holds them."""

RunLayout = register_layout("POSITION_RUN")
"""Kind of the run and batches left of it, as register POSITION_RUN holds them."""

BP_ONLY = LengthsLayout.const({"gp": 0, "bp": 1})
"""Lengths of runs without an entry."""

WARMUP, BP, GP = (phase.bit_length() - 1 for phase in (Phase.WARMUP, Phase.BP, Phase.GP))


class PhaseControl(wiring.Component):
    """Chooses the phase of a batch, and moves the position on to the next batch.

    A write to the schedule, its position or the gate during a decision restarts it, so that no decision mixes old and
    new settings.

    Members
    -------
    decide : In(1)
        choose the next batch's phase; only while not ``busy``
    ready : In(1)
        the phase may change now
    busy : Out(1)
        a decision is being made
    gate_open : In(1)
        a run of GP may begin; changes only with ``written`` while ``busy``
    phase : Out(range(N_PHASES))
        the batch's phase, until the next decision
    warmup, batches, entries : In
        registers WARMUP_EPOCHS, EPOCH_BATCHES and ENTRIES
    index, show : In(range(ENTRIES)), In(1)
        entry that ``epochs`` and ``lengths`` show; see :class:`.table.Table`
    epochs, lengths : Out
        registers ENTRY_EPOCHS and ENTRY_LENGTHS
    epoch, batch, run : Out
        the position: registers POSITION_EPOCH, POSITION_BATCH and POSITION_RUN
    set_NAME, value : In(1), In(32)
        write ``value`` to ``epochs``, ``lengths``, ``epoch``, ``batch`` or ``run``
    written : In(1)
        the host writes a register in this cycle

    Timing
    ------
    ``phase`` is valid, and ``busy`` falls, at most DECISION_CYCLES after ``ready``; one more for each cycle with
    ``show``.
    """

    DECISION_CYCLES = 2 * ENTRIES + 3

    def __init__(self):
        super().__init__({
            "decide": In(1), "ready": In(1), "busy": Out(1), "gate_open": In(1), "phase": Out(range(N_PHASES)),
            "warmup": In(register("WARMUP_EPOCHS").width), "batches": In(WIDTH), "entries": In(range(ENTRIES + 1)),
            "index": In(range(ENTRIES)), "show": In(1), "epochs": Out(EPOCHS), "lengths": Out(LengthsLayout),
            "epoch": Out(WIDTH), "batch": Out(WIDTH), "run": Out(RunLayout),
            **{f"set_{name}": In(1) for name in ("epochs", "lengths", "epoch", "batch", "run")},
            "value": In(WIDTH), "written": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.epochs = epochs = Table(EPOCHS, ENTRIES)
        m.submodules.lengths = lengths = Table(LengthsLayout, ENTRIES)
        place = Signal(range(ENTRIES))
        for table, set_, shown in ((epochs, self.set_epochs, self.epochs), (lengths, self.set_lengths, self.lengths)):
            m.d.comb += [
                table.index.eq(self.index), table.show.eq(self.show), shown.eq(table.shown),
                table.set.eq(set_), table.value.eq(self.value), table.addr.eq(place),
            ]  # fmt: skip
        self._decide(m, place, epochs, lengths)
        for name, target in (("epoch", self.epoch), ("batch", self.batch), ("run", self.run.as_value())):
            with m.If(getattr(self, f"set_{name}")):
                m.d.sync += target.eq(self.value)
        return m

    def _decide(self, m, place, epochs, lengths):
        """Find the entry by subtracting the epochs of those before it; then choose the run, then move on."""
        warm = Signal()
        over = Signal()  # the batch is its epoch's last one
        following = Signal(WIDTH + 1)
        rest = Signal(WIDTH)  # epochs after the warm-up and the entries passed
        entry = Signal(LengthsLayout)
        run = Signal(RunLayout)
        last = (place == ENTRIES - 1) | (place + 1 >= self.entries)

        @contextmanager
        def state(name):
            with m.State(name):
                yield
                with m.If(self.written):
                    m.next = "BEGIN"

        with m.FSM() as fsm:
            with m.State("IDLE"), m.If(self.decide):
                m.next = "BEGIN"
            with state("BEGIN"):
                m.d.sync += [
                    place.eq(0), warm.eq(self.epoch < self.warmup), rest.eq(self.epoch - self.warmup),
                    following.eq(self.batch + 1),
                ]  # fmt: skip
                with m.If(self.ready):
                    m.next = "READ"
            with state("READ"), m.If(epochs.ready & lengths.ready):
                m.next = "FIND"
            with state("FIND"):
                m.d.sync += [
                    place.eq(place + 1), rest.eq(rest - epochs.data),
                    entry.eq(Mux(self.entries == 0, BP_ONLY, lengths.data)),
                ]  # fmt: skip
                m.next = "READ"
                with m.If(last | (rest < epochs.data)):
                    m.next = "CHOOSE"
            with state("CHOOSE"):
                m.d.sync += [over.eq(following >= self.batches), run.eq(self._choose(m, entry))]
                m.next = "MOVE"
            with state("MOVE"), m.If(~self.written):
                m.d.sync += [
                    self.phase.eq(Mux(warm, WARMUP, Mux(run.gp, GP, BP))),
                    self.batch.eq(Mux(over, 0, following)), self.epoch.eq(self.epoch + over),
                ]  # fmt: skip
                with m.If(~warm):
                    m.d.sync += [self.run.gp.eq(run.gp), self.run.left.eq(run.left - 1)]
                m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))

    def _choose(self, m, entry):
        """The run that the batch belongs to, this one or the next, with the batches left of it."""
        chosen = Signal(RunLayout)
        gp = Mux(self.gate_open, entry.gp, 0)
        same, other = Mux(self.run.gp, gp, entry.bp), Mux(self.run.gp, entry.bp, gp)
        with m.If(self.run.left != 0):
            m.d.comb += chosen.eq(self.run)
        with m.Elif(other != 0):
            m.d.comb += [chosen.gp.eq(~self.run.gp), chosen.left.eq(other)]
        with m.Elif(same != 0):
            m.d.comb += [chosen.gp.eq(self.run.gp), chosen.left.eq(same)]
        with m.Else():
            m.d.comb += [chosen.gp.eq(0), chosen.left.eq(1)]
        return chosen
