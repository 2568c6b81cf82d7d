"""Gearboxes: memory beats to groups of elements and back."""

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Pack", "Unpack"]


def _require_multiple(beat, group):
    if beat % group:
        raise ValueError(f"beat width must be a multiple of the group's, not {beat!r} and {group!r}")


class Unpack(wiring.Component):
    """Splits beats into groups of bits, lowest first.

    Parameters
    ----------
    beat, group
        bits of a beat and of a group
    other
        a second size of groups, used while ``choose``

    Members
    -------
    i : In(stream.Signature(beat))
        the beats
    o : Out(stream of groups)
        the groups
    flush : In(1)
        drop the rest of the present beat
    choose : In(1)
        groups have ``other`` bits; only with ``other``, and may change only when nothing is left of a beat

    Raises
    ------
    ValueError
        a beat isn't a whole number of groups

    Timing
    ------
    Latency 1; a group a cycle.
    """

    def __init__(self, beat: int, group: int, other: int | None = None):
        self._sizes = [group] if other is None else [group, other]
        for size in self._sizes:
            _require_multiple(beat, size)
        self._groups = beat // min(self._sizes)
        super().__init__({
            "i": In(stream.Signature(beat)), "o": Out(stream.Signature(max(self._sizes))), "flush": In(1),
            **({} if other is None else {"choose": In(1)}),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        beat = Signal.like(self.i.payload, reset_less=True)
        left = Signal(range(self._groups))  # after the present group
        last = Signal()  # none is left
        moves, new = ~self.o.valid | self.o.ready, ~self.o.valid | last  # ``new`` is known early
        groups = self._chosen(len(beat) // size for size in self._sizes)
        present = self._chosen(
            Array(beat.word_select(place, size) for place in reversed(range(len(beat) // size)))[left]
            for size in self._sizes
        )
        m.d.comb += [self.o.payload.eq(present), self.i.ready.eq(moves & new)]
        with m.If(moves):
            with m.If(new):
                m.d.sync += [
                    self.o.valid.eq(self.i.valid), beat.eq(self.i.payload), left.eq(groups - 1), last.eq(groups == 1),
                ]  # fmt: skip
            with m.Else():
                m.d.sync += [left.eq(left - 1), last.eq(left == 1)]
        with m.If(self.flush):
            m.d.sync += self.o.valid.eq(0)
        return m

    def _chosen(self, values):
        first, *others = values
        return Mux(self.choose, *others, first) if others else first


class Pack(wiring.Component):
    """Joins groups of bits to beats, lowest first. A group is taken whenever ``valid``.

    Parameters
    ----------
    beat, group
        bits of a beat and of a group

    Members
    -------
    valid, i : In
        a group
    last : In(1)
        with a group: the beat ends with it, and its upper groups are undefined
    o_valid, o : Out
        a beat

    Raises
    ------
    ValueError
        a beat isn't a whole number of groups

    Timing
    ------
    A beat follows its last group after one cycle.
    """

    def __init__(self, beat: int, group: int):
        _require_multiple(beat, group)
        self._groups = beat // group
        super().__init__({"valid": In(1), "i": In(group), "last": In(1), "o_valid": Out(1), "o": Out(beat)})

    def elaborate(self, platform):
        m = Module()
        place = Signal(range(self._groups))
        end = self.last | (place == self._groups - 1)
        beat = Signal.like(self.o, reset_less=True)
        m.d.comb += self.o.eq(beat)
        m.d.sync += self.o_valid.eq(self.valid & end)
        with m.If(self.valid):
            m.d.sync += [beat.word_select(place, len(self.i)).eq(self.i), place.eq(Mux(end, 0, place + 1))]
        return m
