"""Delays: values some cycles later."""

from amaranth import Module, Signal, Value

__all__ = ["delayed", "registered"]


def delayed(m: Module, value, cycles: int, en: Value | int = 1, reset: bool = True):
    """``value`` as it was ``cycles`` cycles ago, counting only cycles with ``en``: a chain of registers.

    The registers are 0 at reset. Data whose validity is known beside them need no ``reset``.
    """
    for _ in range(cycles):
        stage = Signal.like(value, reset_less=not reset)
        with m.If(en):
            m.d.sync += stage.eq(value)
        value = stage
    return value


def registered(m: Module, port, value, en: Value | int = 1) -> None:
    """Drive ``port`` with the ``value`` of the last cycle with ``en``, from a register without reset (for data)."""
    register = Signal.like(port, name_suffix="_register", reset_less=True)
    with m.If(en):
        m.d.sync += register.eq(value)
    m.d.comb += port.eq(register)
