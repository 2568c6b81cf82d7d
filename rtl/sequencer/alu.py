"""The sequencer's arithmetic: a result for each instruction, products and quotients in several cycles."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.microcode.isa import DIV_CYCLES, PRODUCT_BITS, REGISTER_WIDTH, RIGHT_BITS, Op  # fmt: skip
from ..lib.delay import delayed
from ..lib.multiplier import Multiplier

__all__ = ["SequencerAlu"]


class SequencerAlu(wiring.Component):
    """Executes the operations of :class:`~adagp.spec.microcode.isa.Op` that have a result or a condition.

    Parameters
    ----------
    shifts
        distances of SHIFT in the program

    Members
    -------
    en : In(1)
        the operation isn't in its last cycle
    op, a, b : In
        the operation and its operands; held until the last cycle
    distance : In(range(max(shifts, default=0) + 1))
        distance of SHIFT, one of ``shifts``; held as well
    loaded : In(signed(REGISTER_WIDTH))
        result of LOAD, in its last cycle
    nearly : Out(1)
        comes one cycle before the last one
    result : Out(signed(REGISTER_WIDTH))
        the result, in the last cycle
    taken : Out(1)
        the branch's condition, in the last cycle
    overflow : Out(1)
        one cycle after the last one: a product broke its limits

    Timing
    ------
    An operation takes 1 cycle, of PAIRS 2, LOAD 3, and DIV DIV_CYCLES.
    """

    def __init__(self, config: Config, shifts: list[int]):
        self._config = config
        self._shifts = shifts
        super().__init__({
            "en": In(1), "op": In(Op), "a": In(signed(REGISTER_WIDTH)), "b": In(signed(REGISTER_WIDTH)),
            "distance": In(range(max(shifts, default=0) + 1)), "loaded": In(signed(REGISTER_WIDTH)),
            "nearly": Out(1), "result": Out(signed(REGISTER_WIDTH)), "taken": Out(1), "overflow": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        cycle = Signal(range(DIV_CYCLES))
        ending = Signal()  # cycle DIV_CYCLES - 1, counted from one
        m.d.sync += [cycle.eq(Mux(self.en, cycle + 1, 0)), ending.eq(cycle == DIV_CYCLES - 3)]
        quotient = self._quotient(m, cycle)
        m.d.comb += self.nearly.eq(Mux(self.op == Op.DIV, ending, (self.op != Op.LOAD) | cycle[0]))

        less, equal = Signal(), Signal()
        # The sign of a difference comes straight out of its carry chain.
        m.d.comb += [less.eq((self.a - self.b)[-1]), equal.eq(self.a == self.b)]
        holds = Mux(self.op.matches(Op.BEQ, Op.BNE), equal, less) ^ self.op.matches(Op.BNE, Op.BGE)
        m.d.comb += self.taken.eq(self.op.matches(Op.BEQ, Op.BNE, Op.BLT, Op.BGE) & holds)
        total, product = self._sum(m), self._product(m)
        with m.If(self.op.matches(Op.ADD, Op.SUB, Op.ALIGN)):
            m.d.comb += self.result.eq(total)
        with m.Elif(self.op == Op.MUL):
            m.d.comb += self.result.eq(product)
        with m.Else():
            m.d.comb += self.result.eq(self._choice(m, less, quotient))
        return m

    def _choice(self, m, less, quotient):
        """Result of SHIFT, MIN, MAX, LOAD and DIV, chosen a cycle later; 0 for other instructions."""
        shifted = Signal(signed(REGISTER_WIDTH))
        with m.Switch(self.distance):
            for distance in self._shifts:
                with m.Case(distance):
                    m.d.comb += shifted.eq(self.a >> distance)
        choices = [
            (self.a, Mux(less, self.op == Op.MIN, self.op == Op.MAX)),
            (self.b, Mux(less, self.op == Op.MAX, self.op == Op.MIN)),
            (self.loaded, self.op == Op.LOAD), (quotient, self.op == Op.DIV),
        ]  # fmt: skip
        choice = delayed(m, Mux(self.op == Op.SHIFT, shifted, 0), 1, reset=False)
        for value, chosen in choices:
            choice |= Mux(delayed(m, chosen, 1, reset=False), value, 0)
        return choice

    def _sum(self, m):
        """Result of ADD, SUB and (in its second cycle) ALIGN, from one adder."""
        low = (self._config.banks - 1).bit_length()
        subtracts = self.op == Op.SUB
        addend = Signal(REGISTER_WIDTH)
        m.d.comb += addend.eq(self.b ^ subtracts.replicate(REGISTER_WIDTH))
        with m.If(self.op == Op.ALIGN):
            m.d.comb += addend.eq(delayed(m, (self.b[:low] - self.a[:low])[:low], 1, reset=False))
        return (Cat(1, self.a) + Cat(subtracts, addend))[1:]  # the first bit carries what SUB adds

    def _product(self, m):
        """a * b in the second cycle, from two products as wide as a DSP block takes; ``overflow`` is a cycle later."""
        low_bits = RIGHT_BITS - 1
        parts = []
        for name, part in (("low", Cat(self.a[:low_bits], Const(0, 1))), ("high", self.a[low_bits:])):
            m.submodules[name] = multiplier = Multiplier(RIGHT_BITS, inputs=False)
            m.d.comb += [
                multiplier.a.eq(part.as_signed()), multiplier.b.eq(self.b[:RIGHT_BITS].as_signed()),
                multiplier.b_en.eq(1),
            ]  # fmt: skip
            parts.append(multiplier.o)
        product = Signal(signed(REGISTER_WIDTH + RIGHT_BITS))
        m.d.comb += product.eq((parts[1] << low_bits) + parts[0])
        upper = delayed(m, product >> PRODUCT_BITS, 1, reset=False)  # the same bit everywhere if it fits
        narrow = delayed(m, self.b >> (RIGHT_BITS - 1) == self.b >> REGISTER_WIDTH - 1, 1, reset=False)
        m.d.comb += self.overflow.eq(~(narrow & (upper == upper >> len(upper) - 1)))
        return product

    def _quotient(self, m, cycle):
        """a // b for non-negative operands: a bit a cycle, from the second cycle on.

        The division is non-restoring: b is added to a rest below 0 instead of being taken back, so nothing is chosen
        after the sum.
        """
        quotient = Signal(REGISTER_WIDTH, reset_less=True)
        rest = Signal(signed(REGISTER_WIDTH + 1), reset_less=True)
        subtracts = ~rest[-1]
        change = self.b.as_unsigned() ^ subtracts.replicate(REGISTER_WIDTH)
        following = Signal.like(rest)
        m.d.comb += following.eq(
            (Cat(1, quotient[-1], rest) + Cat(subtracts, change).as_signed())[1:]  # the first bit carries
        )
        with m.If(cycle == 0):
            m.d.sync += [quotient.eq(self.a), rest.eq(0)]
        with m.Else():
            m.d.sync += [quotient.eq(Cat(~following[-1], quotient)), rest.eq(following)]
        return quotient
