"""A harness of four pins, so that a design with hundreds of ports can be placed and routed without a board."""

from amaranth import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["DESIGN", "PinHarness"]

DESIGN = "design"
"""Name of the submodule inside the harness; all cells outside it are the harness's own."""


class PinHarness(wiring.Component):
    """``component`` between registers.

    A shift register from ``si`` drives its inputs, and ``so`` is the parity of its outputs. Each output has a register,
    and so has every exclusive or of four. No path of the harness is therefore longer than a LUT, and all paths of the
    component lie between registers. No logic can be optimised away: every output is read, and no input is constant.
    """

    def __init__(self, component: wiring.Component):
        self.component = component
        super().__init__({"si": In(1), "so": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules[DESIGN] = self.component
        ports = list(self.component.signature.flatten(self.component))
        inputs = Cat(Value.cast(port) for _, member, port in ports if member.flow == In)
        outputs = Cat(Value.cast(port) for _, member, port in ports if member.flow == Out)
        chain = Signal(len(inputs), name="pins_in")
        level = Signal(len(outputs), name="pins_out")
        m.d.sync += [chain.eq(Cat(self.si, chain)), level.eq(outputs)]
        m.d.comb += inputs.eq(chain)
        while len(level) > 1:
            parity = Signal(-(-len(level) // 4), name="pins_parity")
            m.d.sync += [bit.eq(level[4 * i : 4 * i + 4].xor()) for i, bit in enumerate(parity)]
            level = parity
        m.d.comb += self.so.eq(level)
        return m
