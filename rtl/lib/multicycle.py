"""Pipelines whose stages each take several steps for a value, one a cycle."""

from amaranth import Module, Mux, Signal, Value

__all__ = ["Multicycle"]


class Multicycle:
    """When a pipeline takes values: in cycles with ``start``, which comes every ``fold`` cycles."""

    def __init__(self, m: Module, start: Value, fold: int):
        self._m, self._start, self._fold = m, start, fold
        self._since = Signal(range(fold + 1))
        m.d.sync += self._since.eq(Mux(start, 1, self._since + 1))

    def after(self, cycles: int) -> Value:
        """Whether this is so many cycles behind a ``start``, or any multiple of ``fold`` earlier or later."""
        return self._start if cycles % self._fold == 0 else self._since == cycles % self._fold

    def register(self, shape, name: str, given: Value) -> tuple[Signal, Signal]:
        """A register of a stage and what its step begins with: what is ``given`` with ``start``, else the register."""
        register, present = Signal(shape, name=name, reset_less=True), Signal(shape, name=f"{name}_present")
        self._m.d.comb += present.eq(Mux(self._start, given, register))
        return register, present
