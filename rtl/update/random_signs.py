"""Random signs of gradients (Source.RANDOM), by a hash of a weight's place and of the time of its update."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.hash import Hash
from ..lib.interfaces import SignsLayout

__all__ = ["WORD", "RandomSigns"]

WORD = 32
"""Bits of the hash, one for each of as many weights."""


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
        m.submodules.hash = hash = Hash()
        load = hash.made & ((left == 0) | (self.taken & (left == 1)))
        following = Signal(WORD)  # block after the one whose hash is made
        m.d.comb += [
            hash.start.eq(load | self.start), hash.i_x.eq(Mux(self.start, 0, following)), hash.i_y.eq(self.layer),
            hash.key.eq(self.key),
        ]  # fmt: skip
        with m.If(hash.start):
            m.d.sync += following.eq(hash.i_x + 1)
        m.d.comb += self.valid.eq(left != 0)
        with m.If(self.taken):
            m.d.sync += [word.eq(word >> lanes), left.eq(left - 1)]
        with m.If(load):
            m.d.sync += [word.eq(hash.x), left.eq(WORD // lanes)]
        with m.If(self.start):
            m.d.sync += left.eq(0)
        for flip, given, new in zip(word[:lanes], self.g, self.o, strict=True):
            m.d.comb += new.eq(Mux(flip, -given, given))
        return m
