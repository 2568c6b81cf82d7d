"""Benches of tb/unit on generated Verilog: cocotb in the place of Amaranth's simulator."""

import importlib.util
from pathlib import Path

import cocotb
from amaranth import Const, ShapeCastable, Signal, Value
from amaranth.hdl import _ast
from cocotb.clock import Clock
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, FallingEdge, Timer, with_timeout
from harness import PERIOD_NS

__all__ = ["Context", "unit_module", "unit_path", "unit_test"]

UNIT = Path(__file__).parents[1] / "unit"


class _Tick:
    """An awaitable that waits for the clock once, or ``repeat`` times, or ``until`` a port is high before it."""

    def __init__(self, context, times=1, sampled=()):
        self._context, self._times, self._sampled = context, times, sampled

    def repeat(self, times):
        return _Tick(self._context, times)

    def sample(self, *values):
        return _Tick(self._context, sampled=values)

    async def until(self, condition):
        while True:
            await self._context.delay(1e-12)
            met, found = self._context.get(condition), [self._context.get(value) for value in self._sampled]
            await FallingEdge(self._context.dut.clk)
            if met:
                return found

    def __await__(self):
        async def wait():
            for _ in range(self._times):
                await FallingEdge(self._context.dut.clk)

        return wait().__await__()


class Context:
    """The context of a bench of Amaranth's simulator: ports of ``component`` are read and set by their signals.

    A tick ends between two edges, so that what is set counts at the next one, and what is read is what the last one
    made. What depends on a port without a clock is there after a ``delay``.
    """

    def __init__(self, dut, component):
        self.dut = dut
        self._ports = {
            id(Value.cast(value)): "_".join(map(str, path))
            for path, _, value in component.signature.flatten(component)
        }  # fmt: skip
        self._written = dict.fromkeys(self._ports.values(), 0)

    def _place(self, value):
        """The name of the port that ``value`` is bits of, and where they begin."""
        value = Value.cast(value)
        if isinstance(value, Signal):
            return self._ports[id(value)], 0
        if isinstance(value, _ast.Slice):
            port, start = self._place(value.value)
            return port, start + value.start
        if isinstance(value, _ast.Operator) and value.operator in ("s", "u"):
            return self._place(*value.operands)
        raise TypeError(f"neither a port nor a part of one: {value!r}")

    def get(self, value):
        port, start = self._place(value)
        bits = int(getattr(self.dut, port).value) >> start & ((1 << len(Value.cast(value))) - 1)
        shape = value.shape()
        if isinstance(shape, ShapeCastable):
            return shape.from_bits(bits)
        return bits - (1 << shape.width) if shape.signed and bits >> (shape.width - 1) else bits

    def set(self, value, to) -> None:
        port, start = self._place(value)
        shape, mask = value.shape(), (1 << len(Value.cast(value))) - 1
        bits = Const.cast(shape.const(to)).value if isinstance(shape, ShapeCastable) else int(to) & mask
        self._written[port] = self._written[port] & ~(mask << start) | (bits & mask) << start
        getattr(self.dut, port).value = self._written[port]

    def tick(self) -> _Tick:
        return _Tick(self)

    def delay(self, seconds: float) -> Timer:
        return Timer(round(seconds * 1e12), "ps")


def unit_path(name: str) -> Path:
    """The file of a module of tb/unit, in whichever of its folders."""
    (path,) = UNIT.rglob(f"{name}.py")
    return path


def unit_module(name: str):
    """A module of tb/unit, whatever tb/cocotb has of that name."""
    spec = importlib.util.spec_from_file_location(f"unit_{name}", unit_path(name))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def unit_test(dut, module: str, name: str, *arguments) -> int:
    """Run test ``name`` of ``module`` in tb/unit on ``dut``; returns how many benches it has run."""
    benches = 0

    async def run(component, bench, limit):
        context = Context(dut, component)
        for path, member, _ in component.signature.flatten(component):
            if member.flow.name == "In":
                getattr(dut, "_".join(map(str, path))).value = 0
        dut.rst.value = 1
        await ClockCycles(dut.clk, 4)
        dut.rst.value = 0
        await ClockCycles(dut.clk, 2)  # the design's own reset lasts a cycle longer
        await FallingEdge(dut.clk)
        await with_timeout(cocotb.start_soon(bench(context)), limit * PERIOD_NS, "ns")

    def simulate(component, bench, limit=100_000):
        nonlocal benches
        resume(run)(component, bench, limit)
        benches += 1

    unit = unit_module(module)
    unit.simulate = simulate
    clock = Clock(dut.clk, PERIOD_NS, "ns")
    clock.start()
    await bridge(getattr(unit, name))(*arguments)
    clock.stop()
    return benches
