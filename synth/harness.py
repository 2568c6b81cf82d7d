"""Four pins for a design of hundreds of ports: what place and route needs, where no board gives the ports a place."""

from amaranth import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["DESIGN", "PinHarness"]

DESIGN = "design"
"""The submodule inside the harness; whatever isn't in it is the harness' own."""


class PinHarness(wiring.Component):
    """``component`` between registers: its inputs are a shift register behind ``si``, the parity of its outputs is
    ``so``.

    Each output has a register, and there is one behind every exclusive or of four: so no path of the harness is longer
    than a LUT, and all of the component's are between registers. Nothing of it can be optimised away, since every
    output is seen and no input is constant.
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
