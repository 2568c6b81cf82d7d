"""Pipelines whose stages take several cycles for each value, one step a cycle."""

from amaranth import Module, Mux, Signal, Value

__all__ = ["Multicycle"]


class Multicycle:
    """Timing of a pipeline that takes a value in cycles with ``start``, which comes every ``fold`` cycles."""

    def __init__(self, m: Module, start: Value, fold: int):
        self._m, self._start, self._fold = m, start, fold
        self._since = Signal(range(fold + 1))
        m.d.sync += self._since.eq(Mux(start, 1, self._since + 1))

    def after(self, cycles: int) -> Value:
        """High ``cycles`` cycles after a ``start``, and any multiple of ``fold`` earlier or later."""
        return self._start if cycles % self._fold == 0 else self._since == cycles % self._fold

    def register(self, shape, name: str, given: Value) -> tuple[Signal, Signal]:
        """A stage's register, and its value as a step begins: ``given`` in cycles with ``start``, else the register."""
        register, present = Signal(shape, name=name, reset_less=True), Signal(shape, name=f"{name}_present")
        self._m.d.comb += present.eq(Mux(self._start, given, register))
        return register, present
