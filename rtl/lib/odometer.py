"""Nested counters that walk addresses by adding one jump per step."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["COUNT_BITS", "JUMP_BITS", "MOST_BITS", "Odometer"]

COUNT_BITS = 17
"""Width of a level's count."""

MOST_BITS = COUNT_BITS - 1
"""Counts are at most 2^MOST_BITS."""

JUMP_BITS = 18
"""Width of a level's (signed) jump."""


class Odometer(wiring.Component):
    """Walks ``n[0] * n[1] * ...`` positions, the last level innermost.

    Parameters
    ----------
    levels
        number of nested counters
    address_bits
        width of ``address``; addresses wrap around
    returns
        build ``save`` and ``restore``
    most_bits
        each count is at most 2^most_bits

    Members
    -------
    start : In(1)
        take ``n`` and ``jump``, and go to the first position, at address 0
    step : In(1)
        go to the next position: add the jump of the outermost level that counts; from the last one to the first
    save : In(1)
        keep this position
    restore : In(1)
        go to the position kept last, which is this one with ``save``; not with ``step``
    n : In(data.ArrayLayout(COUNT_BITS, levels))
        each level's count, at least 1; has stood for a cycle before ``start``
    jump : In(data.ArrayLayout(signed(JUMP_BITS), levels))
        each level's jump
    address : Out(address_bits)
        address of the position
    last : Out(1)
        this is the last position

    Timing
    ------
    A position a cycle; ``address`` and ``last`` come from registers.
    """

    def __init__(self, levels: int, address_bits: int, returns: bool = False, most_bits: int = MOST_BITS):
        super().__init__({
            "start": In(1), "step": In(1), **({"save": In(1), "restore": In(1)} if returns else {}),
            "n": In(data.ArrayLayout(COUNT_BITS, levels)),
            "jump": In(data.ArrayLayout(signed(JUMP_BITS), levels)),
            "address": Out(address_bits), "last": Out(1),
        })  # fmt: skip
        self.levels = levels
        self.returns = returns
        self.most_bits = most_bits

    def elaborate(self, platform):
        m = Module()
        # Counts run from n, loaded without being computed, to 1; the greatest begins as 0, which saves a bit. Flags
        # about them are made ahead, for a short path.
        span = [Signal(self.most_bits, name=f"span{i}") for i in range(self.levels)]
        left = [Signal(self.most_bits, name=f"left{i}") for i in range(self.levels)]
        # Flags of a level: it has 1 or 2 counts, has 0 or 1 left, turns with the next step, is the one that counts;
        # its ``n`` is 1 or 2.
        single, double, spent, nearly, turns, counts, ones, twos = (
            Signal(self.levels, name=name)
            for name in ("single", "double", "spent", "nearly", "turns", "counts", "ones", "twos")
        )
        jumps = Signal.like(self.jump)
        jump = Signal(signed(JUMP_BITS))
        counts_from = [n[: self.most_bits + 1] for n in self.n]
        m.d.sync += [ones.eq(Cat(n == 1 for n in counts_from)), twos.eq(Cat(n == 2 for n in counts_from))]

        following = Signal(self.levels)  # ``spent`` after a step
        for level in range(self.levels):
            m.d.comb += following[level].eq(Mux(
                turns[level], Mux(spent[level], single[level], nearly[level]), spent[level]))  # fmt: skip
            with m.If(self.step & turns[level]):
                m.d.sync += [
                    left[level].eq(Mux(spent[level], span[level], left[level] - 1)),
                    nearly[level].eq(Mux(spent[level], double[level], left[level] == 3)),
                ]
        selected = 0
        for level in range(self.levels):
            selected |= jumps[level].as_unsigned() & counts[level].replicate(JUMP_BITS)
        m.d.comb += jump.eq(selected)

        with m.If(self.step):
            m.d.sync += [
                self.address.eq(self.address + jump), spent.eq(following), self.last.eq(following.all()),
                turns.eq(self._turns(following)), counts.eq(self._turns(following) & ~following),
            ]  # fmt: skip
            with m.If(self.last):
                m.d.sync += self.address.eq(0)
        if self.returns:
            state = Cat(self.address, self.last, spent, nearly, turns, counts, *left)
            kept = Signal.like(state, name="kept", reset_less=True)
            with m.If(self.save):
                m.d.sync += kept.eq(state)
            with m.If(self.restore & ~self.save):
                m.d.sync += state.eq(kept)
        with m.If(self.start):
            m.d.sync += [
                self.address.eq(0), jumps.eq(self.jump), self.last.eq(ones.all()),
                single.eq(ones), spent.eq(ones), double.eq(twos), nearly.eq(twos),
                turns.eq(self._turns(ones)), counts.eq(self._turns(ones) & ~ones),
            ]  # fmt: skip
            for level in range(self.levels):
                m.d.sync += [span[level].eq(self.n[level]), left[level].eq(self.n[level])]
        return m

    def _turns(self, spent):
        """The levels that a step changes: those whose inner levels are all ``spent``."""
        return Cat(spent[level + 1 :].all() for level in range(self.levels))
