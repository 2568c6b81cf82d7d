"""Hyper-parameter table: learning rates, momenta and weight decays by index."""

from amaranth import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.commands import Adam
from ...spec.config import Config
from ..lib.interfaces import HYPER_PER_UPDATE, HyperLayout
from ..lib.table import Burst, Table

__all__ = ["HyperLookup", "HyperTable", "hypers_found"]


def hypers_found(config: Config) -> int:
    """Entries that a lookup reads: as many as ADAM takes in variants with ADAM, else as UPDATE takes."""
    return len(Adam) if config.predicts else HYPER_PER_UPDATE


class HyperLookup(wiring.Signature):
    """Lookups of :class:`HyperTable`, seen from the block that asks for them."""

    def __init__(self, config: Config):
        super().__init__({
            "start": Out(1), "first": Out(range(config.n_hyper)),
            "found": In(data.ArrayLayout(HyperLayout, hypers_found(config))), "done": In(1),
        })  # fmt: skip


class HyperTable(wiring.Component):
    """The table of hyper-parameters, read by UPDATE and ADAM commands and shown to the host.

    Parameters
    ----------
    config : Config
        ``n_hyper`` is the number of entries

    Members
    -------
    index, show, shown, set, value
        the host's side; see :class:`.table.Table`
    lookup : In(HyperLookup(config))
        ``start`` reads the entries ``first``, ``first + 1``, ...; only while no lookup runs. ``found`` holds them from
        the pulse of ``done`` to the next lookup

    Timing
    ------
    A lookup takes ``lookup_latency`` cycles, one more for each cycle with ``show``.
    """

    def __init__(self, config: Config):
        self.config = config
        self.lookup_latency = hypers_found(config) + Burst.BURST_LATENCY
        super().__init__({
            "index": In(range(config.n_hyper)), "show": In(1), "shown": Out(HyperLayout),
            "set": In(1), "value": In(HyperLayout),
            "lookup": In(HyperLookup(config)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = Table(HyperLayout, self.config.n_hyper)
        m.submodules.burst = burst = Burst(HyperLayout, hypers_found(self.config))
        m.d.comb += [
            table.index.eq(self.index), table.show.eq(self.show), self.shown.eq(table.shown),
            table.set.eq(self.set), table.value.eq(self.value),
            burst.start.eq(self.lookup.start), burst.ready.eq(table.ready), burst.data.eq(table.data),
            table.addr.eq(self.lookup.first + burst.position),
            self.lookup.found.eq(burst.found), self.lookup.done.eq(burst.done),
        ]  # fmt: skip
        return m
