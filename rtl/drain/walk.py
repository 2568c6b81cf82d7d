"""The loops of a DRAIN descriptor."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.microcode.descriptors import DRAIN
from ..lib.interfaces import descriptor_layout

__all__ = ["DrainWalk"]


def _step_layout(config):
    """A vector on its way through the engine: its address and its place in the descriptor."""
    return data.StructLayout({
        "valid": 1,
        "address": range(config.c_elements),
        "plain": 1,  # the index vector of a value vector
        "tail": 1,  # only lanes_last lanes
        "last_out": 1,
        "last_in": 1,  # the last position of an o
        "row_end": 1,  # the last vector of an o
        "last": 1,  # the last vector of the descriptor
    })  # fmt: skip


class DrainWalk(wiring.Component):
    """Walks the two loops of a DRAIN descriptor, a ``step`` for each vector.

    Members
    -------
    d : In(descriptor_layout(DRAIN))
        the descriptor; stands still until the step with ``last``
    start : In(1)
        begin with ``d`` (a pulse)
    en : In(1)
        go to the next step
    step : Out(_step_layout(config))
        the step; without ``valid`` the rest is undefined

    Timing
    ------
    The first step comes one cycle after ``start``; then a step for each cycle with ``en``.
    """

    def __init__(self, config: Config):
        super().__init__({
            "d": In(descriptor_layout(DRAIN)), "start": In(1), "en": In(1), "step": Out(_step_layout(config)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        d, step = self.d, self.step
        running = Signal()
        plain = Signal()
        n_out_left = Signal.like(d.n_out)
        n_in_left = Signal.like(d.n_in)
        last_out, last_in = Signal(), Signal()  # 1 is left; kept for a short path
        row = Signal.like(step.address)
        place, address = Signal.like(step.address), Signal.like(step.address)  # of the value vector, of this step
        indexed, single = Signal(), Signal()  # ready in time: the first step comes two cycles after ``d``
        m.d.sync += [indexed.eq(d.idx != 0), single.eq(d.n_in == 1)]
        m.d.comb += [
            step.valid.eq(running),
            step.address.eq(address),
            step.plain.eq(plain),
            step.last_out.eq(last_out),
            step.last_in.eq(last_in),
            step.tail.eq(Mux(d.last_inner, step.last_in, step.last_out)),
            step.row_end.eq(step.last_in & (~indexed | plain)),
            step.last.eq(step.row_end & step.last_out),
        ]
        to_index = Signal()
        next_row, beside = Signal.like(row), Signal.like(row)
        m.d.comb += [
            to_index.eq(indexed & ~plain), next_row.eq(row + d.s_out),
            beside.eq(place + Mux(to_index, d.idx, d.s_in)),
        ]  # fmt: skip
        with m.If(self.start):
            m.d.sync += [
                running.eq(1), row.eq(0), place.eq(0), address.eq(0),
                n_out_left.eq(d.n_out), n_in_left.eq(d.n_in), last_out.eq(d.n_out == 1), last_in.eq(d.n_in == 1),
            ]  # fmt: skip
        with m.Elif(self.en & running):
            with m.If(to_index):
                m.d.sync += [plain.eq(1), address.eq(beside)]
            with m.Else():
                m.d.sync += plain.eq(0)
                with m.If(step.last_in):
                    m.d.sync += [
                        row.eq(next_row), place.eq(next_row), address.eq(next_row), n_in_left.eq(d.n_in),
                        n_out_left.eq(n_out_left - 1), last_out.eq(n_out_left == 2), last_in.eq(single),
                        running.eq(~step.last_out),
                    ]  # fmt: skip
                with m.Else():
                    m.d.sync += [
                        place.eq(beside),
                        address.eq(beside),
                        n_in_left.eq(n_in_left - 1),
                        last_in.eq(n_in_left == 2),
                    ]
        return m
