"""Epilogue: turns a sum into an operand of the next layer."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.commands import CMode
from ...spec.config import Config
from ...spec.numerics import SHIFT_MAX, SHIFT_MIN, SLOPE_BITS
from ..lib.delay import delayed
from ..lib.requantise import Requantise, beyond, saturated
from .activation import Activation

__all__ = ["SHIFT_C_MAX", "Epilogue", "EpilogueLane", "result_latency", "sum_width"]

SHIFT_C_MAX = 31
"""Range of the shift that aligns the C operand and the bias: -31..31."""


def sum_width(config: Config) -> int:
    """Width of a result before it saturates: three terms of acc_width."""
    return config.acc_width + 2


def result_latency(config: Config) -> int:
    """Cycles from a sum to its result: with ``Config.clamps``, some more than to its maximum."""
    return EpilogueLane.LATENCY + (Activation.LATENCY - 1 if config.clamps else 0)


def _clamp_ports(config):
    """Ports of bounds and slopes, which stand still."""
    if not config.clamps:
        return {}
    return {"bound": In(config.operand_width - 1), "bounded": In(1), "cut": In(1), "slope": In(SLOPE_BITS)}


class EpilogueLane(wiring.Component):
    """Takes one element a cycle through steps 1 to 6 of docs/machine.md, and those of a bound and a slope.

    Members
    -------
    x, shift : In
        the sum, and its shift to the right
    c : In(signed(config.operand_width))
        element of C
    shift_c : In(range(-SHIFT_C_MAX, SHIFT_C_MAX + 1))
        shift that aligns C; stands still
    bias : In(signed(config.acc_width))
        the bias, ``BIAS_LATENCY`` cycles after ``x``
    add : In(1)
        add C, or subtract it
    subtract : In(1)
        subtract C; stands still; where gradients are predicted (the baseline only adds)
    masked : In(1)
        give zero where C <= 0; with ``add``, where C is the mark of a masked element, the least value
    relu : In(1)
        give zero for negative results; stands still
    bound, slope : In(config.operand_width - 1), In(SLOPE_BITS)
        bound of results or C, slope in place of zero (if it isn't 0); stand still; with ``Config.clamps``
    cut : In(1)
        with ``masked``, give zero where C is not below the bound; stands still; with ``Config.clamps``
    bounded : In(1)
        results are at most the bound; ``LATENCY - 1`` cycles after ``x``; with ``Config.clamps``
    o : Out(signed(config.operand_width))
        the result, ``result_latency(config)`` cycles after ``x``
    magnitude : Out(sum_width(config))
        its magnitude before it saturates
    saturated : Out(1)
        it did not fit

    Timing
    ------
    Free-running: ``magnitude`` and ``saturated`` follow ``LATENCY`` cycles after ``x``.
    """

    LATENCY = Requantise.LATENCY + 4
    BIAS_LATENCY = Requantise.LATENCY

    def __init__(self, config: Config):
        self._config = config
        self._acc_width = config.acc_width
        self._operand_width = config.operand_width
        self._predicts = config.predicts
        super().__init__({
            "x": In(signed(config.acc_width)), "shift": In(range(SHIFT_MIN, SHIFT_MAX + 1)),
            "c": In(signed(config.operand_width)), "shift_c": In(range(-SHIFT_C_MAX, SHIFT_C_MAX + 1)),
            "bias": In(signed(config.acc_width)),
            "add": In(1), "masked": In(1), "relu": In(1), **({"subtract": In(1)} if config.predicts else {}),
            **_clamp_ports(config),
            "o": Out(signed(config.operand_width)), "magnitude": Out(sum_width(config)), "saturated": Out(1),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        m.submodules.scale_x = scale_x = Requantise(
            self._acc_width, self._acc_width, shift_min=SHIFT_MIN, shift_max=SHIFT_MAX
        )
        m.submodules.scale_c = scale_c = Requantise(
            self._operand_width, self._acc_width, shift_min=-SHIFT_C_MAX, shift_max=SHIFT_C_MAX, negates=self._predicts
        )
        m.d.comb += [
            scale_x.i.eq(self.x),
            scale_x.shift.eq(self.shift),
            scale_c.i.eq(Mux(self.add, self.c, 0)),
            scale_c.shift.eq(self.shift_c),
        ]
        if self._predicts:
            m.d.comb += scale_c.negate.eq(self.subtract)
        s4_drop = self._dropped(m)
        s3_sum = Signal(signed(self._acc_width + 1), reset_less=True)
        s3_c = Signal.like(scale_c.o, reset_less=True)
        s4_sum = Signal(signed(len(self.magnitude)), reset_less=True)
        s5_sum = Signal.like(s4_sum)
        dropped, s5_over = Signal(), Signal(reset_less=True)  # each comes a cycle before the value that it selects
        m.d.sync += [
            s3_sum.eq(scale_x.o + self.bias),
            s3_c.eq(scale_c.o),
            s4_sum.eq(s3_sum + s3_c),
            s5_sum.eq(Mux(dropped, 0, s4_sum)),
            s5_over.eq(~dropped & beyond(s4_sum, self._operand_width)),
        ]
        low = s4_drop | (self.relu & (s4_sum < 0))

        operand, over = saturated(s5_sum, self._operand_width, over=s5_over)
        sign = s5_sum[-1]
        magnitude = (s5_sum ^ sign.replicate(len(s5_sum))).as_unsigned() + sign
        results = {"o": operand, "saturated": over, "magnitude": magnitude}
        if self._config.clamps:
            m.d.comb += dropped.eq(self._activate(m, low, results.pop("o")))
            results["saturated"] = over & (sign | ~self.bounded)
        else:
            m.d.comb += dropped.eq(low)
        for name, value in results.items():
            s6 = Signal.like(getattr(self, name), name=f"s6_{name}", reset_less=True)
            m.d.sync += s6.eq(value)
            m.d.comb += getattr(self, name).eq(s6)
        return m

    def _dropped(self, m):
        """1 for elements that C masks, in stage 4."""
        drop = Signal()
        rest = self.c[:-1].any()  # the least value has its sign only
        m.d.comb += drop.eq(self.masked & Mux(self.add, self.c[-1] & ~rest, self.c[-1] | ~rest))
        return delayed(m, drop, Requantise.LATENCY + 2, reset=False)

    def _activate(self, m, low, operand):
        """Give ``operand`` its bound or slope; 1 if the sum in stage 4, which is ``low`` or not, becomes 0."""
        m.submodules.activation = activation = Activation(self._config)
        s1_c, s1_cut = (delayed(m, each, 1, reset=False) for each in (self.c, self.masked & self.cut))
        s2_cut, leaky = Signal(reset_less=True), Signal(reset_less=True)
        m.d.sync += [s2_cut.eq(s1_cut & ~s1_c[-1] & (s1_c[:-1] >= self.bound)), leaky.eq(self.slope != 0)]
        m.d.comb += [
            activation.i.eq(operand), activation.low.eq(delayed(m, low & leaky, 1, reset=False)),
            activation.bounded.eq(self.bounded), activation.bound.eq(self.bound), activation.slope.eq(self.slope),
            self.o.eq(activation.o),
        ]  # fmt: skip
        return (low & ~leaky) | delayed(m, s2_cut, Requantise.LATENCY, reset=False)


class Epilogue(wiring.Component):
    """``config.epilogue_width`` lanes and their common parts, one vector a cycle.

    Members
    -------
    x, shift, c : In
        a vector: sums, shifts, elements of C
    mask : In(n)
        lanes that hold something
    plain : In(1)
        the vector is only shifted and written
    bias : In(sums)
        the biases, ``BIAS_LATENCY`` cycles after ``x``
    c_mode, shift_c, relu : In
        stand still
    bound, bounded, cut, slope : In
        stand still, see :class:`EpilogueLane`; with ``Config.clamps``
    o, o_mask : Out
        results and their lanes
    magnitudes : Out(sum_width(config))
        OR of the magnitudes in lanes that count
    saturations : Out(range(n + 1))
        number of results that saturated

    Timing
    ------
    Free-running: ``magnitudes`` and ``saturations`` follow ``LATENCY + 1`` cycles after ``x``, ``o`` and ``o_mask``
    ``result_latency(config)`` cycles.
    """

    LATENCY = EpilogueLane.LATENCY
    BIAS_LATENCY = EpilogueLane.BIAS_LATENCY

    def __init__(self, config: Config):
        self._config = config
        n = config.epilogue_width
        sums = data.ArrayLayout(signed(config.acc_width), n)
        operands = data.ArrayLayout(signed(config.operand_width), n)
        super().__init__({
            "x": In(sums), "shift": In(data.ArrayLayout(range(SHIFT_MIN, SHIFT_MAX + 1), n)), "c": In(operands),
            "mask": In(n), "plain": In(1), "bias": In(sums),
            "c_mode": In(CMode), "shift_c": In(range(-SHIFT_C_MAX, SHIFT_C_MAX + 1)), "relu": In(1),
            **_clamp_ports(config),
            "o": Out(operands), "o_mask": Out(n),
            "magnitudes": Out(sum_width(config)), "saturations": Out(range(n + 1)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        add = Signal()
        masked = Signal()
        added = (self.c_mode == CMode.ADD) | (self.c_mode == CMode.ADD_MASK)
        if self._config.predicts:
            added |= self.c_mode == CMode.SUB
        m.d.comb += [
            add.eq(added & ~self.plain),
            masked.eq(((self.c_mode == CMode.MASK) | (self.c_mode == CMode.ADD_MASK)) & ~self.plain),
        ]
        tracked = delayed(m, Mux(self.plain, 0, self.mask), self.LATENCY)
        m.d.comb += self.o_mask.eq(delayed(m, self.mask, result_latency(self._config)))
        if self._config.clamps:
            bounded = delayed(m, self.bounded & ~self.plain, self.LATENCY - 1)

        magnitudes = 0
        saturations = 0
        for n in range(len(self.mask)):
            m.submodules[f"lane{n}"] = lane = EpilogueLane(self._config)
            m.d.comb += [
                lane.x.eq(self.x[n]),
                lane.shift.eq(self.shift[n]),
                lane.c.eq(self.c[n]),
                lane.shift_c.eq(self.shift_c),
                lane.bias.eq(self.bias[n]),
                lane.add.eq(add),
                lane.masked.eq(masked),
                lane.relu.eq(self.relu),
                self.o[n].eq(lane.o),
            ]
            if self._config.predicts:
                m.d.comb += lane.subtract.eq(self.c_mode == CMode.SUB)
            if self._config.clamps:
                m.d.comb += [
                    lane.bound.eq(self.bound), lane.slope.eq(self.slope), lane.cut.eq(self.cut),
                    lane.bounded.eq(bounded),
                ]  # fmt: skip
            magnitudes |= Mux(tracked[n], lane.magnitude, 0)
            saturations += tracked[n] & lane.saturated
        m.d.sync += [self.magnitudes.eq(magnitudes), self.saturations.eq(saturations)]
        return m
