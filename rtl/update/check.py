"""Checks addresses and write regions before an update begins."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.errors import ErrorCode
from ...spec.registers import N_REGIONS
from ..lib.interfaces import RegionLayout
from .writer import written_arrays

__all__ = ["UpdateCheck"]


class UpdateCheck(wiring.Component):
    """Checks a command's arrays: all begin at a multiple of the beat, each written one lies in one region.

    An empty array needs no region. Where gradients are predicted there is a fifth array.

    Members
    -------
    start : In(1)
        check
    addr : In(an address for each array)
        addresses of g, hi, lo, v, and where gradients are predicted d
    count : In(32)
        elements of each array
    regions : In(data.ArrayLayout(RegionLayout, N_REGIONS))
        the write regions
    valid, code : Out
        for a cycle: NONE, BAD_ADDRESS or WRITE_REGION
    with_d, without_v : In(1)
        the fifth array is written too; v isn't; where gradients are predicted

    Timing
    ------
    At most ``CYCLES`` cycles, and four more ``with_d``.
    """

    CYCLES = 14

    def __init__(self, config: Config):
        self._config = config
        self._arrays = 1 + len(written_arrays(config))
        super().__init__({
            "start": In(1), "addr": In(data.ArrayLayout(32, self._arrays)), "count": In(32),
            "regions": In(data.ArrayLayout(RegionLayout, N_REGIONS)),
            "valid": Out(1), "code": Out(ErrorCode),
            **(dict.fromkeys(("with_d", "without_v"), In(1)) if config.predicts else {}),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        beat_bits = (self._config.beat_bytes - 1).bit_length()
        aligned = Signal()
        empty = Signal()
        m.d.sync += [
            aligned.eq(~Cat(self.addr[k][:beat_bits] for k in range(self._arrays)).any()), empty.eq(self.count == 0),
        ]  # fmt: skip
        sizes = list(written_arrays(self._config).values())
        array = Signal(range(len(sizes)))
        begin = Signal(32, reset_less=True)
        end = Signal(32 + max(sizes).bit_length(), reset_less=True)  # count * 4 may reach far
        last = Mux(self.with_d, 3, Mux(self.without_v, 1, 2)) if self._config.predicts else 2
        above, below = Signal(N_REGIONS), Signal(N_REGIONS)  # each region's start, its end
        fits = Signal()
        m.d.sync += self.valid.eq(0)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += array.eq(0)
                with m.If(self.start):
                    m.next = "EXTENT"
            with m.State("EXTENT"):
                addresses = Array(self.addr[k + 1] for k in range(len(sizes)))
                lengths = Array(self.count << (size.bit_length() - 1) for size in sizes)
                m.d.sync += [begin.eq(addresses[array]), end.eq(addresses[array] + lengths[array])]
                m.next = "COMPARE"
            with m.State("COMPARE"):
                m.d.sync += [  # signs of differences, which come straight out of carry chains
                    above.eq(Cat(~(begin - region.start)[-1] for region in self.regions)),
                    below.eq(Cat(~(region.end - end)[-1] for region in self.regions)),
                ]
                m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.sync += fits.eq((above & below).any() | empty)
                m.next = "DECIDE"
            with m.State("DECIDE"):
                m.d.sync += array.eq(array + 1)
                m.next = "EXTENT"
                with m.If(~aligned | ~fits | (array == last)):
                    m.d.sync += self.valid.eq(1)
                    m.next = "IDLE"
                refusal = Mux(fits, ErrorCode.NONE, ErrorCode.WRITE_REGION)
                m.d.sync += self.code.eq(Mux(aligned, refusal, ErrorCode.BAD_ADDRESS))
        return m
