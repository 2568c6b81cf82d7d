"""Predictor memory: a window of addresses that block RAM serves, between the arbiters and the memory port."""

from amaranth import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, connect, flipped
from amaranth.utils import exact_log2

from ...spec.config import Config
from ..lib.skid import Skid
from .predictor_window import PAGE, PredictorWindow, passing_ports

__all__ = ["PredictorMemory"]

_FIXED = ("size", "burst", "cache", "prot")
"""Signals of an address channel that never change."""


class PredictorMemory(wiring.Component):
    """A :class:`.predictor_window.PredictorWindow` at the address ``window``, with registers before it.

    An address is compared with the window as it comes, and goes on with the result a cycle later, so that nothing waits
    for the comparison.

    Members
    -------
    window : In(32)
        address of the window, a multiple of ``config.predictor_window``; 0 for none. May change while no burst is under
        way, at least two cycles before the next one
    i_read, i_write, o_read, o_write, read_beats, write_bytes, moved
        see :class:`.predictor_window.PredictorWindow`
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({"window": In(32), **passing_ports(config)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = PredictorWindow(self._config)
        bits, pages = exact_log2(self._config.predictor_window), self._config.predictor_bytes // PAGE
        place, there = Signal(32 - bits), Signal()
        m.d.sync += [place.eq(self.window[bits:]), there.eq(self.window != 0)]

        def inside(address):
            return there & (address[bits:] == place) & (address[exact_log2(PAGE) : bits] < pages)

        self._pass(m, "ar", self.i_read, inner.i_read, inside, inner.read_inside)
        self._pass(m, "aw", self.i_write, inner.i_write, inside, inner.write_inside)
        connect(m, inner.o_read, flipped(self.o_read))
        connect(m, inner.o_write, flipped(self.o_write))
        m.d.comb += [getattr(self, name).eq(getattr(inner, name)) for name in ("read_beats", "write_bytes", "moved")]
        return m

    def _pass(self, m, prefix, axi, port, inside, found):
        """Pass one direction of ``axi`` to ``port``; addresses, and if they are ``inside``, go through registers."""
        shapes = {name: getattr(axi, prefix + name).shape() for name in ("id", "addr", "len")}
        m.submodules[prefix] = skid = Skid(data.StructLayout(shapes | {"inside": 1}))
        offered, given = skid.i, skid.o
        m.d.comb += [
            offered.valid.eq(getattr(axi, f"{prefix}valid")), getattr(axi, f"{prefix}ready").eq(offered.ready),
            offered.p.inside.eq(inside(getattr(axi, f"{prefix}addr"))), found.eq(given.p.inside),
            getattr(port, f"{prefix}valid").eq(given.valid), given.ready.eq(getattr(port, f"{prefix}ready")),
        ]  # fmt: skip
        for name in shapes:
            m.d.comb += [
                offered.p[name].eq(getattr(axi, prefix + name)), getattr(port, prefix + name).eq(given.p[name]),
            ]  # fmt: skip
        others = {name: member for name, member in axi.signature.members.items() if not name.startswith(prefix)}
        for name in (*others, *(prefix + name for name in _FIXED)):
            inwards = axi.signature.members[name].flow == In
            to, value = (port, axi) if inwards else (axi, port)
            m.d.comb += getattr(to, name).eq(getattr(value, name))
