"""The hash by which random signs and dropout are drawn (golden/hash.py): one round, used again and again."""

from amaranth import Array, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .interfaces import SignsLayout

__all__ = ["ROUNDS", "Hash"]

ROUNDS = 8
_WIDTH = 32
_CONSTANT = 0x9E3779B9


class Hash(wiring.Component):
    """Makes a hash of two numbers and of a key.

    Members
    -------
    start : In(1)
        begin, whatever is under way
    i_x, i_y : In(32)
        the numbers, with ``start``
    key : In(SignsLayout)
        the key; stands still
    made : Out(1)
        the hash is there, until the next ``start``
    x, y : Out(32)
        the hash, while ``made``

    Timing
    ------
    ``made`` follows ``ROUNDS`` + 1 cycles after ``start``.
    """

    i_x: In(_WIDTH)
    i_y: In(_WIDTH)
    start: In(1)
    key: In(SignsLayout)
    made: Out(1)
    x: Out(_WIDTH)
    y: Out(_WIDTH)

    def elaborate(self, platform):
        m = Module()
        x, y = self.x, self.y
        r = Signal(range(ROUNDS + 1))
        following = Signal(_WIDTH)
        constants = Array(Const(n * _CONSTANT % (1 << _WIDTH), _WIDTH) for n in range(ROUNDS))
        key = Mux(r[0], self.key.batch, self.key.seed) ^ constants[r]
        m.d.comb += [self.made.eq(r == ROUNDS), following.eq((x.rotate_right(8) + y)[:_WIDTH] ^ key)]
        with m.If(~self.made):
            m.d.sync += [x.eq(following), y.eq(y.rotate_left(3) ^ following), r.eq(r + 1)]
        with m.If(self.start):
            m.d.sync += [x.eq(self.i_x), y.eq(self.i_y), r.eq(0)]
        return m
