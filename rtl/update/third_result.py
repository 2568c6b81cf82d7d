"""The third result of an update: second moments, or the quality of a prediction."""

from amaranth import Module, Mux, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import Config
from ..lib.bit_length import BitLength
from ..lib.interfaces import QualityLayout, ResultLayout, UpdateLayout
from ..lib.maximum import Maximum
from .adam_factors import ROOT_LOW_BITS
from .quality import QualitySums, sums_latency
from .sgd_lane import ROUNDED_WIDTH

__all__ = ["ThirdResult"]


class ThirdResult(wiring.Component):
    """Gathers the third result: from ADAM the maximum of the moments' roots, from UPDATE with quality a layer's scale.

    Members
    -------
    clear : In(1)
        forget what was gathered
    task : In(UpdateLayout(config))
        the command; passes to the results directly
    mask, e, g : In
        errors and gradients
    s_magnitude : In(ROUNDED_WIDTH // 2)
        magnitudes of roots; 0 where there is none
    result : Out(ResultLayout(config))
        the result
    quality : Out(QualityLayout)
        the quality sums

    Attributes
    ----------
    latency
        cycles from operands to ``result`` and ``quality``
    """

    def __init__(self, config: Config):
        self._config = config
        self.latency = sums_latency(config) + BitLength.LATENCY
        operands = data.ArrayLayout(signed(config.operand_width), config.update_lanes)
        super().__init__({
            "clear": In(1), "task": In(UpdateLayout(config)), "mask": In(config.update_lanes),
            "e": In(operands), "g": In(operands), "s_magnitude": In(ROUNDED_WIDTH // 2),
            "result": Out(ResultLayout(config)), "quality": Out(QualityLayout),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        task = self.task
        m.submodules.sums = sums = QualitySums(self._config)
        m.submodules.tracker = tracker = Maximum(self._config, ROUNDED_WIDTH // 2)
        m.d.comb += [
            sums.clear.eq(self.clear), sums.mask.eq(self.mask), sums.e.eq(self.e), sums.t.eq(self.g),
            sums.id.eq(task.scale_id), sums.exponent.eq(task.eg),
            tracker.clear.eq(self.clear), tracker.i.eq(self.s_magnitude),
            tracker.id.eq(task.d_id), tracker.exponent.eq(task.ed_next - ROOT_LOW_BITS),
            self.result.eq(Mux(task.adam, tracker.result, sums.result)),
            self.quality.layer.eq(task.layer),
            *(self.quality[name].eq(sums.sums[name]) for name in sums.sums.shape().members),
            self.quality.e_exponent.eq(task.ed), self.quality.t_exponent.eq(task.eg - task.scale),
        ]  # fmt: skip
        return m
