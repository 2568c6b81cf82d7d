"""A value some cycles later."""

from amaranth import Module, Signal, Value

__all__ = ["delayed"]


def delayed(m: Module, value, cycles: int, en: Value | int = 1):
    """``value`` as it was ``cycles`` cycles ago (of those with ``en``): that many registers, 0 at reset."""
    for _ in range(cycles):
        stage = Signal.like(value)
        with m.If(en):
            m.d.sync += stage.eq(value)
        value = stage
    return value
