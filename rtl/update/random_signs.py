"""Random signs of gradients (Source.RANDOM), by a hash of a weight's place and of the time of its update."""

from amaranth import Array, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.interfaces import SignsLayout

__all__ = ["ROUNDS", "WORD", "RandomSigns"]

ROUNDS = 8
WORD = 32
"""Bits of the hash, one for each of as many weights."""
_CONSTANT = 0x9E3779B9


class RandomSigns(wiring.Component):
    """Changes the sign of weight i's gradient if bit i % ``WORD`` of the ``layer``'s hash i // ``WORD`` is set.

    A mark of no gradient stays: in as many bits the least mantissa is its own negative.

    Members
    -------
    start : In(1)
        the next group is that of weight 0
    layer, key : In
        seeds of the hash; stand still
    g, o : In, Out
        a group, and it with its signs changed
    valid : Out(1)
        ``o`` is right
    taken : In(1)
        while ``valid``: go to the next group

    Timing
    ------
    The only round makes a word in ``ROUNDS`` + 1 cycles, while the one before is in use: as fast as the memory port,
    which reads 10 bytes for each weight.
    """

    def __init__(self, config: Config):
        self._config = config
        group = data.ArrayLayout(signed(config.operand_width), config.update_lanes)
        super().__init__({
            "start": In(1), "layer": In(16), "key": In(SignsLayout),
            "g": In(group), "o": Out(group), "valid": Out(1), "taken": In(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        lanes = self._config.update_lanes
        word = Signal(WORD)
        left = Signal(range(WORD // lanes + 1))  # groups for which the word has bits
        made, x = Signal(), Signal(WORD)
        load = made & ((left == 0) | (self.taken & (left == 1)))
        self._hash(m, x, made, load)
        m.d.comb += self.valid.eq(left != 0)
        with m.If(self.taken):
            m.d.sync += [word.eq(word >> lanes), left.eq(left - 1)]
        with m.If(load):
            m.d.sync += [word.eq(x), left.eq(WORD // lanes)]
        with m.If(self.start):
            m.d.sync += left.eq(0)
        for flip, given, new in zip(word[:lanes], self.g, self.o, strict=True):
            m.d.comb += new.eq(Mux(flip, -given, given))
        return m

    def _hash(self, m, x, made, load):
        """Run the rounds: ``x`` is a block's hash once ``made``; ``load`` goes on to the next block."""
        y = Signal(WORD)
        block = Signal(WORD)
        r = Signal(range(ROUNDS + 1))
        following = Signal(WORD)
        constants = Array(Const(n * _CONSTANT % (1 << WORD), WORD) for n in range(ROUNDS))
        key = Mux(r[0], self.key.batch, self.key.seed) ^ constants[r]
        m.d.comb += [made.eq(r == ROUNDS), following.eq((x.rotate_right(8) + y)[:WORD] ^ key)]
        with m.If(~made):
            m.d.sync += [x.eq(following), y.eq(y.rotate_left(3) ^ following), r.eq(r + 1)]
        with m.If(load):
            m.d.sync += [block.eq(block + 1), x.eq(block + 1), y.eq(self.layer), r.eq(0)]
        with m.If(self.start):
            m.d.sync += [block.eq(0), x.eq(0), y.eq(self.layer), r.eq(0)]
