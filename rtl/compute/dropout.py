"""Dropout: draws, for each vector of results, the lanes that stay (golden/dropout.py)."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.dropout import BLOCK, PIXEL_BITS, PROBABILITY_BITS
from ..lib.delay import delayed
from ..lib.hash import Hash
from ..lib.interfaces import SignsLayout

__all__ = ["DropLayout", "Dropout"]

DropLayout = data.StructLayout({
    "probability": PROBABILITY_BITS, "layer": 16, "pixel": PIXEL_BITS, "first": 16, "channels": 16,
})  # fmt: skip
"""Results that are drawn from: pixel after pixel from ``pixel`` on, of each ``channels`` from ``first`` on, in vectors
of ``rows``. With a ``probability`` of 0 all of them stay.
"""


class Dropout(wiring.Component):
    """Gives a mask for each vector of a job's results, and then for more until the next job.

    Members
    -------
    start : In(1)
        begin with ``job``
    job : In(DropLayout)
        the job
    key : In(SignsLayout)
        key of the hash; stands still
    o : Out(stream.Signature(config.rows))
        a bit for each lane, 0 if it becomes 0; lanes after a pixel's last channel are undefined

    Timing
    ------
    The only round makes the hash of ``BLOCK`` channels in ``Hash``'s time, while those of the block before are compared
    with the probability, one a cycle. So a pixel takes 9 cycles for each block that its channels lie in.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "start": In(1), "job": In(DropLayout), "key": In(SignsLayout), "o": Out(stream.Signature(config.rows)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.hash = hash = Hash()
        job, mask = Signal(DropLayout), Signal(self._config.rows)
        full, drops = Signal(), Signal()  # the mask is complete; the job has any
        word = Signal(len(hash.x) + len(hash.y))
        ahead = Signal(range(BLOCK + 1))  # elements of the block that are still in the word
        before, left = (
            Signal(range(BLOCK)),
            Signal.like(job.channels),
        )  # of the pixel: ahead of its first, not drawn yet
        lane = Signal(range(self._config.rows))
        step, draws, pixel_ends, load, making = (
            Signal(name=name) for name in ("step", "draws", "pixel_ends", "load", "making")
        )  # fmt: skip
        m.d.comb += [
            self.o.valid.eq(full | ~drops), self.o.payload.eq(mask | (~drops).replicate(len(mask))),
            step.eq((ahead != 0) & (~full | self.o.ready)), draws.eq(step & (before == 0)),
            pixel_ends.eq(draws & (left == 1)),
            load.eq(drops & making & hash.made & ((ahead == 0) | step & ((ahead == 1) | pixel_ends))),
        ]  # fmt: skip
        with m.If(self.o.ready):
            m.d.sync += full.eq(0)
        with m.If(step):
            m.d.sync += [word.eq(word.rotate_right(len(word) // BLOCK)), ahead.eq(Mux(pixel_ends, 0, ahead - 1))]
            with m.If(before != 0):
                m.d.sync += before.eq(before - 1)
        with m.If(draws):
            ends = pixel_ends | (lane == self._config.rows - 1)
            m.d.sync += [
                mask.bit_select(lane, 1).eq(word[:PROBABILITY_BITS] >= job.probability),
                left.eq(left - 1), lane.eq(Mux(ends, 0, lane + 1)), full.eq(ends),
            ]  # fmt: skip
        with m.If(load):
            m.d.sync += [word.eq(Cat(hash.x, hash.y)), ahead.eq(BLOCK)]
        with m.If(pixel_ends):
            m.d.sync += [left.eq(job.channels), before.eq(job.first)]
        with m.If(self.start):
            m.d.sync += [
                job.eq(self.job), drops.eq(self.job.probability != 0), full.eq(0), ahead.eq(0), lane.eq(0),
                left.eq(self.job.channels), before.eq(self.job.first),
            ]  # fmt: skip
        self._walk(m, hash, job, load, making)
        return m

    def _walk(self, m, hash, job, load, making):
        """Hash the blocks of a pixel, then those of the next; ``load`` goes on to the next block.

        The hash is one of the job's while ``making``.
        """
        low = (BLOCK - 1).bit_length()
        block = Signal(len(job.first) - low)  # the next one
        pixel = Signal.like(job.pixel)
        last = Signal.like(block)  # of a pixel; it is there when the first hash begins
        m.d.sync += last.eq((job.first + job.channels - 1)[low : len(job.first)])
        begun, begin = delayed(m, self.start, 2), Signal()
        with m.If(begun):
            m.d.sync += making.eq(1)
        m.d.comb += [
            begin.eq(load | begun), hash.start.eq(begin), hash.key.eq(self.key), hash.i_x.eq(pixel),
            hash.i_y.eq(Cat(job.layer, block, Const(0, 2), Const(1, 1))),
        ]  # fmt: skip
        with m.If(begin):
            m.d.sync += block.eq(block + 1)
            with m.If(block == last):
                m.d.sync += [block.eq(job.first >> low), pixel.eq(pixel + 1)]
        with m.If(self.start):
            m.d.sync += [block.eq(self.job.first >> low), pixel.eq(self.job.pixel), making.eq(0)]
