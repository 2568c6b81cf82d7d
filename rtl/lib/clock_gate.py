"""Clock gates for idle blocks, and clock domains without ``rst`` for blocks that another block resets."""

from collections.abc import Callable

from amaranth import ClockDomain, ClockSignal, DomainRenamer, Instance, Module, ResetSignal, Signal

__all__ = ["CELL", "clock_gate", "without_reset"]

CELL = "adagp_clock_gate"
"""Name of the gate cell: output ``o`` is ``clk`` without the pulses for which ``open`` was 0 when ``clk`` rose."""


def without_reset(m: Module, platform, name: str) -> Callable:
    """Return a transformer that puts a component into a copy of ``sync`` without reset.

    It is for components that a block inside ``sync`` resets. A register with both resets would have an OR gate of its
    own, and ``rst`` would go to every corner of the chip in a cycle. In Amaranth's simulator, to which two names of one
    clock are two clocks, components stay in ``sync``.
    """
    if platform is None:
        return lambda component: component
    domain = ClockDomain(f"{name}_domain", local=True, reset_less=True)
    m.domains += domain
    m.d.comb += domain.clk.eq(ClockSignal())
    return DomainRenamer(domain.name)


def clock_gate(m: Module, platform, name: str, wanted, hold: int, reset: bool = True) -> Callable:
    """Add a gate to the ``sync`` clock; return a transformer that puts a component onto the gated clock.

    The clock ticks while ``wanted``, and ``hold`` cycles longer. ``wanted`` must be 1 in each cycle at whose end one of
    the component's registers could change in a way that matters, except for those that settle within ``hold`` cycles,
    and in cycles in which it is reset. Without ``reset`` the gated domain has none. No block may rely on a closed gate:
    where ``platform`` has no ``clock_gates``, and in cells that pass every pulse, the clock simply continues.
    """
    if not getattr(platform, "clock_gates", False):
        return (lambda component: component) if reset else without_reset(m, platform, name)
    domain = ClockDomain(f"{name}_gated", local=True, reset_less=not reset)
    recent = Signal(hold, name=f"{name}_recent")
    now = Signal(name=f"{name}_wanted")
    rst = ResetSignal(allow_reset_less=True)
    m.domains += domain
    m.d.comb += now.eq(wanted | rst)
    if reset:
        m.d.comb += domain.rst.eq(rst)
    m.d.sync += recent.eq(now.replicate(hold) | recent >> 1)
    m.submodules[f"{name}_gate"] = Instance(CELL, i_clk=ClockSignal(), i_open=now | recent.any(), o_o=domain.clk)
    return DomainRenamer(domain.name)
