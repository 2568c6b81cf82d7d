"""Quality of a predicted gradient: sums of products of its errors and of true gradients."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.numerics import unpredicted
from ..lib.bit_length import BitLength
from ..lib.interfaces import QualityLayout, ResultLayout

__all__ = ["QualitySums", "SumsLayout", "sums_latency"]

SumsLayout = data.StructLayout({name: QualityLayout[name].shape for name in ("ee", "et", "tt", "count")})
"""Exact sums of e*e, e*t and t*t, for errors e and true gradients t, and the number of pairs."""


def sums_latency(config: Config) -> int:
    """Cycles from a pair to its sums: operands, products, a level of adders for each doubling of the lanes, sums."""
    return 3 + (config.update_lanes - 1).bit_length()


class QualitySums(wiring.Component):
    """Gathers golden's ``quality_sums`` since ``clear``, ``update_lanes`` pairs a cycle.

    Members
    -------
    clear : In(1)
        forget the sums
    mask, e, t : In
        pairs of an error and a true gradient
    id, exponent : In
        tensor and exponent of ``result``; passed to it directly
    sums : Out(SumsLayout)
        the sums
    result : Out(ResultLayout(config))
        power of two near the root of the mean square of the true gradients

    Timing
    ------
    A pair is in ``sums`` after ``sums_latency`` cycles, and in ``result`` after ``BitLength.LATENCY`` more.
    """

    def __init__(self, config: Config):
        self._operand_width = config.operand_width
        lanes = config.update_lanes
        operands = data.ArrayLayout(signed(config.operand_width), lanes)
        super().__init__({
            "clear": In(1), "mask": In(lanes), "e": In(operands), "t": In(operands), "id": In(range(config.n_tensors)),
            "exponent": In(signed(9)), "sums": Out(SumsLayout), "result": Out(ResultLayout(config)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        terms = {name: [] for name in SumsLayout.members}
        for lane, (e, t) in enumerate(zip(self.e, self.t, strict=True)):
            there = self.mask[lane] & (e != unpredicted(self._operand_width))
            for name, term in self._products(m, lane, there, e, t).items():
                terms[name].append(term)
        for name, values in terms.items():
            total = self.sums[name]
            m.d.sync += total.eq(Mux(self.clear, 0, total + self._summed(m, values)))
        self._rms(m)
        return m

    def _products(self, m, lane, there, e, t):
        """The lane's share of the sums, two cycles later."""
        s1_there = Signal(name=f"s1_there{lane}", reset_less=True)
        s1_e = Signal(signed(self._operand_width), name=f"s1_e{lane}", reset_less=True)
        s1_t = Signal.like(s1_e, name=f"s1_t{lane}")
        m.d.sync += [s1_there.eq(there), s1_e.eq(Mux(there, e, 0)), s1_t.eq(Mux(there, t, 0))]
        shares = {}
        for name, value in {"ee": s1_e * s1_e, "et": s1_e * s1_t, "tt": s1_t * s1_t, "count": s1_there}.items():
            shares[name] = Signal(value.shape(), name=f"s2_{name}{lane}", reset_less=True)
            m.d.sync += shares[name].eq(value)
        return shares

    def _summed(self, m, values):
        """Sum of ``values``, whose number is a power of two, a cycle later for each level."""
        while len(values) > 1:
            pairs = []
            for low, high in zip(values[::2], values[1::2], strict=True):
                pairs.append(Signal((low + high).shape(), reset_less=True))
                m.d.sync += pairs[-1].eq(low + high)
            values = pairs
        return values[0]

    def _rms(self, m):
        """Drive ``result``, from bit lengths alone."""
        lengths = {}
        for name in ("tt", "count"):
            m.submodules[f"{name}_length"] = length = BitLength(len(self.sums[name]))
            m.d.comb += length.i.eq(self.sums[name])
            lengths[name] = length.o
        tt_length, count_length = lengths["tt"], lengths["count"]
        m.d.comb += [
            self.result.id.eq(self.id),
            self.result.nonzero.eq(tt_length != 0),
            self.result.top.eq(((tt_length - count_length) >> 1) + self.exponent),
        ]
