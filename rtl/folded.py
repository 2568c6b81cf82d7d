"""What folded pipelines share, whose stages each take several cycles for a value."""

from amaranth import Module, Mux, Signal, Value

__all__ = ["captured"]


def captured(m: Module, value: Value, start: Value, cycles: int, fold: int) -> Value:
    """A register with ``value`` of ``cycles`` cycles behind ``start``, which comes every ``fold`` cycles."""
    behind = Signal(range(fold + 1))
    o = Signal.like(value, name="captured", reset_less=True)
    m.d.sync += behind.eq(Mux(start, 1, behind + 1))
    with m.If(start if cycles % fold == 0 else behind == cycles % fold):
        m.d.sync += o.eq(value)
    return o
