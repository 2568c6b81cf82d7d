"""Clock gates: a block that has nothing to do has no clock."""

from collections.abc import Callable

from amaranth import ClockDomain, ClockSignal, DomainRenamer, Instance, Module, ResetSignal, Signal

__all__ = ["CELL", "clock_gate"]

CELL = "adagp_clock_gate"
"""The cell: output ``o`` is ``clk``, without the pulses for which ``open`` was 0 when ``clk`` rose."""


def clock_gate(m: Module, platform, name: str, wanted, hold: int) -> Callable:
    """A gate for the ``sync`` clock: what it returns puts components behind it.

    They tick while ``wanted``, and ``hold`` cycles longer. ``wanted`` must be 1 in each cycle at whose end one of
    their registers could change in a way that matters, except for what settles within ``hold`` cycles, and in
    cycles in which they are reset. Nothing may depend on a gate's being closed: where ``platform`` has no
    ``clock_gates``, and in cells that pass every pulse, the clock just goes on.
    """
    if not getattr(platform, "clock_gates", False):
        return lambda component: component
    domain = ClockDomain(f"{name}_gated", local=True)
    recent = Signal(hold, name=f"{name}_recent")
    now = Signal(name=f"{name}_wanted")
    m.domains += domain
    m.d.comb += [now.eq(wanted | ResetSignal()), domain.rst.eq(ResetSignal())]
    m.d.sync += recent.eq(now.replicate(hold) | recent >> 1)
    m.submodules[f"{name}_gate"] = Instance(CELL, i_clk=ClockSignal(), i_open=now | recent.any(), o_o=domain.clk)
    return DomainRenamer(domain.name)
