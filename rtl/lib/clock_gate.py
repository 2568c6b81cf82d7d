"""Clocks: a block that has nothing to do has none, and one that is reset by another block isn't by ``rst`` too."""

from collections.abc import Callable

from amaranth import ClockDomain, ClockSignal, DomainRenamer, Instance, Module, ResetSignal, Signal

__all__ = ["CELL", "clock_gate", "without_reset"]

CELL = "adagp_clock_gate"
"""The cell: output ``o`` is ``clk``, without the pulses for which ``open`` was 0 when ``clk`` rose."""


def without_reset(m: Module, platform, name: str) -> Callable:
    """What it returns puts components into ``sync`` without its reset: they get theirs from a block that is in it.

    A register with both would have an OR of the two of its own, and ``rst`` would go to every corner of the chip in a
    cycle. In Amaranth's simulator, to which two names of one clock are two clocks, they stay where they are.
    """
    if platform is None:
        return lambda component: component
    domain = ClockDomain(f"{name}_domain", local=True, reset_less=True)
    m.domains += domain
    m.d.comb += domain.clk.eq(ClockSignal())
    return DomainRenamer(domain.name)


def clock_gate(m: Module, platform, name: str, wanted, hold: int, reset: bool = True) -> Callable:
    """A gate for the ``sync`` clock: what it returns puts components behind it, without ``reset`` without its reset.

    They tick while ``wanted``, and ``hold`` cycles longer. ``wanted`` must be 1 in each cycle at whose end one of
    their registers could change in a way that matters, except for what settles within ``hold`` cycles, and in
    cycles in which they are reset. Nothing may depend on a gate's being closed: where ``platform`` has no
    ``clock_gates``, and in cells that pass every pulse, the clock just goes on.
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
