"""Constants of a few lanes' channels, one after the other: planes in, planes out."""

from amaranth import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ...spec.norm import BACKWARD_ROW, FORWARD_ROW, KEPT_PLANES, STATE_ROW, SUMS_ROW, WEIGHT_PLANES, planes
from ...spec.numerics import SHIFT_MAX, SHIFT_MIN
from ..lib.block_memory import BlockMemory
from .channel_constants import ChannelConstants
from .layouts import CommandLayout, Task, clamped, digits_of, number

__all__ = ["IN_PLANES", "OUT_PLANES", "WEIGHTS_AT", "PlaceLayout", "TableLayout", "TableUnit"]

WEIGHTS_AT = planes(SUMS_ROW)
_STATES_AT = WEIGHTS_AT + WEIGHT_PLANES
_ROW_AT = WEIGHTS_AT + KEPT_PLANES - planes(FORWARD_ROW)
"""Planes of sums come first, then those of gamma, beta and running statistics, or the last ones of a forward row."""
IN_PLANES = WEIGHTS_AT + KEPT_PLANES
OUT_PLANES = planes(FORWARD_ROW) + planes(STATE_ROW)

PlaceLayout = range(max(IN_PLANES, OUT_PLANES) + 1)

TableLayout = data.StructLayout({"task": Task, "command": CommandLayout, "exponent": signed(11)})
"""A job: what to make, and the exponent of gradients."""


def _word(config: Config) -> data.StructLayout:
    """A lane's element of a plane, and its shift."""
    return data.StructLayout({"value": signed(config.acc_width), "shift": range(SHIFT_MIN, SHIFT_MAX + 1)})


class TableUnit(wiring.Component):
    """Takes a channel of each lane out of a memory of planes, and puts what it makes of it into another one.

    Parameters
    ----------
    lanes
        channels at a time

    Members
    -------
    job : In(TableLayout)
        the job; stands still until ``ready``
    write, place, i : In
        write a plane of the lanes
    start : In(1)
        begin; only while ``ready``
    ready : Out(1, init=1)
        all lanes are made
    r_en, r_place : In
        read a plane, while ``ready``
    o : Out(array of words)
        the plane read last

    Timing
    ------
    ``o`` follows one cycle after ``r_en``.
    """

    def __init__(self, config: Config, lanes: int):
        self._config, self._lanes = config, lanes
        self._given = data.ArrayLayout(config.operand_width, lanes)
        self._made = data.ArrayLayout(_word(config), lanes)
        super().__init__({
            "job": In(TableLayout), "write": In(1), "place": In(PlaceLayout), "i": In(self._given),
            "start": In(1), "ready": Out(1, init=1),
            "r_en": In(1), "r_place": In(PlaceLayout), "o": Out(self._made),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        width = self._config.operand_width
        m.submodules.given = given = BlockMemory(self._given, IN_PLANES)
        m.submodules.made = made = BlockMemory(self._made, OUT_PLANES, granularity=1)
        m.submodules.constants = constants = ChannelConstants()
        lane, place = Signal(range(self._lanes)), Signal(PlaceLayout)
        arrives = Signal()
        digits = Signal(data.ArrayLayout(width, IN_PLANES), reset_less=True)
        m.d.comb += [
            given.w_en.eq(self.write), given.w_addr.eq(self.place), given.w_data.eq(self.i), given.r_addr.eq(place),
            made.r_en.eq(self.r_en), made.r_addr.eq(self.r_place), made.w_addr.eq(place), self.o.eq(made.r_data),
            constants.task.eq(self.job.task), constants.command.eq(self.job.command),
        ]  # fmt: skip
        m.d.sync += arrives.eq(given.r_en)
        with m.If(arrives):
            m.d.sync += digits.eq(Cat(digits.as_value()[width:], Array(given.r_data)[lane]))
        self._inputs(m, constants, digits)
        writes = Signal()
        m.d.comb += made.w_en.eq(Mux(writes, 1 << lane, 0))
        last = self._results(m, constants, place, made)
        self._control(m, constants, given, lane, place, writes, last)
        return m

    def _control(self, m, constants, given, lane, place, writes, last):
        """Read each lane's channel, start its task, write what it has made."""
        begin = Mux(self.job.task == Task.RUNNING, WEIGHTS_AT, 0)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [lane.eq(0), place.eq(begin)]
                with m.If(self.start):
                    m.d.sync += self.ready.eq(0)
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += given.r_en.eq(1)
                m.d.sync += place.eq(place + 1)
                with m.If(place == IN_PLANES - 1):
                    m.next = "ARRIVE"
            with m.State("ARRIVE"):
                m.next = "START"
            with m.State("START"):
                m.d.comb += constants.start.eq(1)
                m.d.sync += place.eq(0)
                m.next = "STARTED"
            with m.State("STARTED"), m.If(constants.ready):
                m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += writes.eq(1)
                m.d.sync += place.eq(place + 1)
                with m.If(place == last):
                    m.d.sync += place.eq(begin)
                    m.next = "READ"
                    if self._lanes > 1:
                        m.d.sync += lane.eq(lane + 1)
                    with m.If(lane == self._lanes - 1):
                        m.d.sync += self.ready.eq(1)
                        m.next = "IDLE"

    def _inputs(self, m, constants, digits):
        """Give the digits of a channel to ``constants``."""
        m.d.comb += [
            constants.first.eq(Mux(self.job.task == Task.RUNNING, 0, number(digits, SUMS_ROW, "first"))),
            constants.second.eq(number(digits, SUMS_ROW, "second")),
            constants.gamma.eq(digits[WEIGHTS_AT]), constants.beta.eq(digits[WEIGHTS_AT + 1]),
            *(constants.state[name].eq(number(digits, STATE_ROW, name, _STATES_AT)) for name in STATE_ROW),
            *(constants.row[name].eq(number(digits, FORWARD_ROW, name, _ROW_AT)) for name in FORWARD_ROW
              if name != "b"),
        ]  # fmt: skip

    def _results(self, m, constants, place, made):
        """Choose the element of plane ``place``; returns the last plane."""
        exponent, command = self.job.exponent, self.job.command
        forward = [
            *digits_of(FORWARD_ROW, {name: constants.forward[name] for name in FORWARD_ROW}),
            *digits_of(STATE_ROW, {name: constants.next_state[name] for name in STATE_ROW}),
        ]  # fmt: skip
        backward = [
            constants.backward.gradient, constants.first,
            *digits_of(BACKWARD_ROW, {name: constants.backward[name] for name in BACKWARD_ROW}),
        ]  # fmt: skip
        shifts = [clamped(exponent - constants.backward.gradient_exponent), clamped(exponent - command.g_exponent)]
        value, shift = Signal(signed(self._config.acc_width)), Signal(range(SHIFT_MIN, SHIFT_MAX + 1))
        of_g = self.job.task == Task.BACKWARD
        with m.Switch(place):
            for at in range(len(forward)):
                with m.Case(at):
                    m.d.comb += value.eq(Mux(of_g, backward[at], forward[at]) if at < len(backward) else forward[at])
                    if at < len(shifts):
                        m.d.comb += shift.eq(Mux(of_g, shifts[at], 0))
        for word in made.w_data:
            m.d.comb += [word.value.eq(value), word.shift.eq(shift)]
        running = self.job.task == Task.RUNNING
        return Mux(of_g, len(backward) - 1, Mux(running, planes(FORWARD_ROW) - 1, len(forward) - 1))
