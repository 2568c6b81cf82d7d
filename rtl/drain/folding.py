"""Folding: an epilogue of few lanes takes the groups of a vector one after the other."""

from functools import reduce
from operator import or_

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.delay import delayed
from ..memory.scratchpad import PingPong
from .epilogue import Epilogue, result_latency

__all__ = ["FoldedEpilogue", "Groups", "choose_sums", "fold", "of_banks", "of_group"]

PASSED_ON = (
    "x", "shift", "c", "bias", "c_mode", "shift_c", "relu", "plain", "bound", "bounded", "cut", "slope",
)  # fmt: skip
"""Inputs of the epilogue as far as there are, but its mask."""


def of_group(config: Config, values, group) -> list:
    """Those of the ``values`` of a vector's lanes that belong to its ``group``; all if that is None."""
    width = config.epilogue_width
    return list(values) if group is None else [Array(values[lane::width])[group] for lane in range(width)]


def of_banks(m, config: Config, port, en, passes, more) -> list:
    """Elements of C of the group at the epilogue, from a ``port`` whose data come in the order of banks.

    A group passes with ``passes``; with ``more`` the same vector's next one follows, else the pipeline moves on, with
    ``en``.
    """
    width, found = config.epilogue_width, []
    turn = delayed(m, port.rot, PingPong.READ_LATENCY - 1, en, reset=False)
    for lane in range(width):
        bank = Signal.like(port.rot, name=f"bank{lane}", reset_less=True)
        with m.If(passes):
            m.d.sync += bank.eq(Mux(more, bank + width, turn + lane))
        found.append(Array(port.data)[bank])
    return found


def choose_sums(m, config: Config, d, acc, pooled, groups) -> list:
    """Sums of the lanes of the vector at the epilogue, or of its group that :class:`Groups` gives, if that isn't None.

    They are ``pooled`` if ``d.vector``, 0 if ``d.zeros``, else those of the accumulator's half that is read, which
    stands until the last vector has passed. Of many lanes a bit for each choice makes fewer LUTs than multiplexers one
    after the other. ``d`` has stood for long; what is made of it are registers, so that each has fewer loads.
    """
    halves, lanes = list(acc.data), range(config.result_lanes)
    if groups is None:
        vector, zeros, half = (delayed(m, bit, 1) for bit in (d.vector, d.zeros, acc.half))
        psums = acc.data[0].shape()(Mux(half, halves[1].as_value(), halves[0].as_value()))
        added = [psums[lane] if lane < config.cols else 0 for lane in lanes]
        given = [pooled[lane] if lane < config.rows else 0 for lane in lanes]
        return [Mux(zeros, 0, Mux(vector, *pair)) for pair in zip(given, added, strict=True)]
    pools, sums = [], []  # whether a group, or a half's group, is chosen
    for here in groups.next_group:
        pools.append(delayed(m, here & d.vector & ~d.zeros, 1))
        sums.append([delayed(m, here & ~d.vector & ~d.zeros & (acc.half == half), 1) for half in range(2)])
    found = []
    for first in range(config.epilogue_width):
        terms = []
        for number, lane in enumerate(lanes[first :: config.epilogue_width]):
            if lane < config.rows:
                terms.append(Mux(pools[number], pooled[lane].as_unsigned(), 0))
            if lane < config.cols:
                terms += [Mux(sums[number][half], words[lane].as_unsigned(), 0) for half, words in enumerate(halves)]
        found.append(reduce(or_, terms))
    return found


class Groups(wiring.Component):
    """Counts the groups of ``config.epilogue_width`` lanes in which the vector at the epilogue passes.

    Members
    -------
    full, tail : In(config.result_lanes)
        lanes of a full vector and of a short one; stand still from two cycles before the first ``take``
    take : In(1)
        in the next cycle a vector is at the epilogue, or none
    valid, short : In(1)
        with ``take``: there is one, and it is a short one
    step : In(1)
        the group passes; only with ``more``
    group : Out
        the group to pass
    more : Out(1)
        the vector has groups after this one
    next_group : Out
        bit k: ``group`` of the next cycle is k
    next_more : Out(1)
        ``more`` of the next cycle

    Timing
    ------
    ``group`` and ``more`` are registers.
    """

    def __init__(self, config: Config):
        self._config = config
        self._last = config.folds(config.result_lanes) - 1
        super().__init__({
            "full": In(config.result_lanes), "tail": In(config.result_lanes),
            "take": In(1), "valid": In(1), "short": In(1), "step": In(1),
            "group": Out(range(self._last + 1)), "more": Out(1),
            "next_group": Out(self._last + 1), "next_more": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        last_of = {}
        for name in ("full", "tail"):
            last_of[name] = Signal.like(self.group, name=f"last_of_{name}")
            m.d.sync += last_of[name].eq(0)
            for group in range(1, self._last + 1):
                with m.If(getattr(self, name)[group * self._config.epilogue_width :].any()):
                    m.d.sync += last_of[name].eq(group)
        left, coming = Signal.like(self.group), Signal.like(self.group)
        m.d.comb += coming.eq(Mux(self.short, last_of["tail"], last_of["full"]))
        here = Signal(self._last + 1, init=1)  # a bit for each group
        m.d.comb += [self.next_group.eq(here), self.next_more.eq(self.more)]
        m.d.sync += [here.eq(self.next_group), self.more.eq(self.next_more)]
        with m.If(self.take):
            m.d.comb += [self.next_group.eq(1), self.next_more.eq(self.valid & (coming != 0))]
            m.d.sync += [self.group.eq(0), left.eq(coming)]
        with m.Elif(self.step):
            m.d.comb += [self.next_group.eq(here << 1), self.next_more.eq(left != 1)]
            m.d.sync += [self.group.eq(self.group + 1), left.eq(left - 1)]
        return m


class FoldedEpilogue(wiring.Component):
    """Takes vectors through an :class:`.epilogue.Epilogue` that has fewer lanes, a group a cycle.

    Members
    -------
    x, shift, c, plain, bias, c_mode, shift_c, relu, bound, bounded, cut, slope : In
        of the group that passes, as the epilogue has them
    mask : In(n)
        lanes of the vector that hold something; 0 while no group passes
    group : In
        the group that passes
    final : In(1)
        it is the vector's last one, which the sums for the predictor wait for: only where there are any
    o, o_mask : Out
        results of a group at the places of its lanes
    o_group, o_final : Out
        number of the group of the results; it is the vector's last one
    magnitudes, saturations : Out
        those of a group

    Timing
    ------
    As that of the epilogue, from the cycle in which a group passes.
    """

    def __init__(self, config: Config):
        self._config = config
        self.inner = Epilogue(config)
        self._groups = config.folds(config.result_lanes)
        lanes, ports = config.result_lanes, self.inner.signature.members
        operands = ports["o"].shape.elem_shape
        super().__init__({
            "mask": In(lanes), "group": In(range(self._groups)),
            **{name: ports[name] for name in PASSED_ON if name in ports},
            "o": Out(data.ArrayLayout(operands, lanes)), "o_mask": Out(lanes),
            "o_group": Out(range(self._groups)),
            **({"final": In(1), "o_final": Out(1)} if config.reorganises else {}),
            "magnitudes": ports["magnitudes"], "saturations": ports["saturations"],
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = self.inner
        width = self._config.epilogue_width
        for name in PASSED_ON:
            if hasattr(inner, name):
                m.d.comb += getattr(inner, name).eq(getattr(self, name))
        for lane in range(width):
            places = range(lane, self._config.result_lanes, width)
            held = [self.mask[place] for place in places] + [0] * (self._groups - len(places))
            m.d.comb += inner.mask[lane].eq(Array(held)[self.group])
        self._results(m)
        m.d.comb += [self.magnitudes.eq(inner.magnitudes), self.saturations.eq(inner.saturations)]
        return m

    def _results(self, m):
        """Put the results of a group at their places."""
        latency, width = result_latency(self._config), self._config.epilogue_width
        m.d.comb += self.o_group.eq(delayed(m, self.group, latency, reset=False))
        if self._config.reorganises:
            m.d.comb += self.o_final.eq(delayed(m, self.final, latency))
        for lane in range(self._config.result_lanes):
            m.d.comb += [
                self.o[lane].eq(self.inner.o[lane % width]),
                self.o_mask[lane].eq((self.o_group == lane // width) & self.inner.o_mask[lane % width]),
            ]  # fmt: skip


def fold(m, config: Config, masks, before, en, passes) -> Groups:
    """Let the groups of a vector pass one after the other, while the pipeline before them waits.

    ``masks`` are the lanes of a full vector and of a short one, ``before`` is the walk's step a cycle before the
    epilogue. With ``passes`` a group passes. The pipeline moves on, with ``en``, as the vector's last group passes.
    """
    m.submodules.groups = groups = Groups(config)
    m.d.comb += [
        groups.full.eq(masks[0]), groups.tail.eq(masks[1]),
        groups.take.eq(en), groups.valid.eq(before.valid), groups.short.eq(before.tail), groups.step.eq(passes),
    ]  # fmt: skip
    return groups
