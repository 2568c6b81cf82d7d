"""The arithmetic of the sequencer: one result an instruction, products and quotients in several cycles."""

from amaranth import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..spec.config import Config
from ..spec.microcode import (
    DIV_CYCLES,
    EXTREME_CYCLES,
    LOAD_CYCLES,
    MUL_CYCLES,
    PRODUCT_BITS,
    REGISTER_WIDTH,
    RIGHT_BITS,
    Op,
)
from .delay import delayed

__all__ = ["SequencerAlu"]


class SequencerAlu(wiring.Component):
    """Executes the operations of :class:`~adagp.spec.microcode.Op` that have a result or a condition.

    While ``en``, ``op``, ``a``, ``b``, ``distance`` (of SHIFT, one of ``shifts``) are held until ``done``; then
    ``result`` is valid, ``taken`` is a branch's condition and ``overflow`` says that a product broke
    its limits. ``done`` comes in the first cycle, for MIN and MAX in cycle EXTREME_CYCLES, for LOAD, whose result
    is ``loaded`` in that cycle, in LOAD_CYCLES, for MUL in MUL_CYCLES and for DIV in DIV_CYCLES.
    """

    def __init__(self, config: Config, shifts: list[int]):
        self._config = config
        self._shifts = shifts
        super().__init__({
            "en": In(1), "op": In(Op), "a": In(signed(REGISTER_WIDTH)), "b": In(signed(REGISTER_WIDTH)),
            "distance": In(range(max(shifts, default=0) + 1)), "loaded": In(signed(REGISTER_WIDTH)),
            "done": Out(1), "result": Out(signed(REGISTER_WIDTH)), "taken": Out(1), "overflow": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        cycle = Signal(range(DIV_CYCLES))
        lasting = [
            (self.op.matches(Op.MIN, Op.MAX), EXTREME_CYCLES), (self.op == Op.LOAD, LOAD_CYCLES),
            (self.op == Op.MUL, MUL_CYCLES), (self.op == Op.DIV, DIV_CYCLES),
        ]  # fmt: skip
        final = Signal()  # the last cycle of several: much waits for ``done``
        m.d.sync += [
            cycle.eq(Mux(self.en & ~self.done, cycle + 1, 0)),
            final.eq(self.en & Cat(which & (cycle == cycles - 2) for which, cycles in lasting).any()),
        ]
        product = self._product(m)
        quotient = self._quotient(m, cycle)
        m.d.comb += self.done.eq(~Cat(which for which, _ in lasting).any() | final)

        less, equal = Signal(), Signal()
        m.d.comb += [less.eq(self.a < self.b), equal.eq(self.a == self.b)]
        # What results depend on comes a cycle later.
        lower = delayed(m, less, 1)
        narrow = delayed(m, self.b >> (RIGHT_BITS - 1) == self.b >> REGISTER_WIDTH - 1, 1)
        with m.Switch(self.op):
            with m.Case(Op.ADD, Op.SUB, Op.ALIGN):
                m.d.comb += self.result.eq(self._sum(m))
            with m.Case(Op.MIN):
                m.d.comb += self.result.eq(Mux(lower, self.a, self.b))
            with m.Case(Op.MAX):
                m.d.comb += self.result.eq(Mux(lower, self.b, self.a))
            with m.Case(Op.LOAD):
                m.d.comb += self.result.eq(self.loaded)
            with m.Case(Op.SHIFT), m.Switch(self.distance):
                for distance in self._shifts:
                    with m.Case(distance):
                        m.d.comb += self.result.eq(self.a >> distance)
            with m.Case(Op.MUL):
                fits = narrow & (product >> PRODUCT_BITS == product >> len(product) - 1)
                m.d.comb += [self.result.eq(product), self.overflow.eq(final & ~fits)]
            with m.Case(Op.DIV):
                m.d.comb += self.result.eq(quotient)
            for branch, condition in ((Op.BEQ, equal), (Op.BNE, ~equal), (Op.BLT, less), (Op.BGE, ~less)):
                with m.Case(branch):
                    m.d.comb += self.taken.eq(condition)
        return m

    def _sum(self, m):
        """Of ADD, SUB and ALIGN, by the same adder."""
        low = (self._config.banks - 1).bit_length()
        subtracts = self.op == Op.SUB
        addend = Signal(REGISTER_WIDTH)
        m.d.comb += addend.eq(self.b ^ subtracts.replicate(REGISTER_WIDTH))
        with m.If(self.op == Op.ALIGN):
            m.d.comb += addend.eq((self.b[:low] - self.a[:low])[:low])
        return (Cat(1, self.a) + Cat(subtracts, addend))[1:]  # the first bit carries what SUB adds

    def _product(self, m):
        """a * b two cycles later, from two products as wide as a DSP block takes."""
        low_bits = RIGHT_BITS - 1
        right = self.b[:RIGHT_BITS].as_signed()
        low = Signal(signed(2 * RIGHT_BITS))
        high = Signal(signed(REGISTER_WIDTH - low_bits + RIGHT_BITS))
        product = Signal(signed(REGISTER_WIDTH + RIGHT_BITS))
        m.d.sync += [
            low.eq(Cat(self.a[:low_bits], Const(0, 1)).as_signed() * right),
            high.eq(self.a[low_bits:].as_signed() * right),
            product.eq((high << low_bits) + low),
        ]
        return product

    def _quotient(self, m, cycle):
        """a // b for non-negative operands: restoring division, a bit a cycle, from the second cycle on."""
        bits = REGISTER_WIDTH
        quotient, rest = Signal(bits), Signal(bits)
        shifted, less = Signal(bits + 1), Signal(unsigned(bits + 2))
        m.d.comb += [shifted.eq(Cat(quotient[-1], rest)), less.eq(shifted - self.b.as_unsigned())]
        with m.If(cycle == 0):
            m.d.sync += [quotient.eq(self.a), rest.eq(0)]
        with m.Else():
            m.d.sync += [quotient.eq(Cat(~less[-1], quotient)), rest.eq(Mux(less[-1], shifted, less))]
        return quotient
