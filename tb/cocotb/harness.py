"""Tools of the cocotb benches: clock and reset, ports packed by their layouts, streams that stall."""

import json
import os
import random

import cocotb
from adagp.spec.config import Config
from amaranth import Shape, ShapeCastable
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

__all__ = ["Bench", "Token", "parameters", "pauses"]

PERIOD_NS = 10


def parameters() -> tuple[Config, dict]:
    """The configuration and the parameters that :func:`runner.run` was given."""
    values = json.loads(os.environ["ADAGP_BENCH"])
    return Config.from_dict(values.pop("config")), values


def pauses(rng: random.Random, stall: float):
    """A pause generator for cocotbext-axi: pause in a cycle with probability ``stall``."""
    while True:
        yield rng.random() < stall


class Bench:
    """The design under test, its ports by the names and shapes of ``component``, the same that was made Verilog.

    Values are read at the clock's edge, as they were before it, and set for the cycle after it.
    """

    def __init__(self, dut, component):
        self.dut = dut
        self.rng = random.Random(cocotb.RANDOM_SEED)
        dut._log.info("seed %d", cocotb.RANDOM_SEED)
        self.edge = RisingEdge(dut.clk)
        ports = {"_".join(map(str, path)): member for path, member, _ in component.signature.flatten(component)}
        self._shapes = {name: member.shape for name, member in ports.items()}
        self._inputs = [name for name, member in ports.items() if member.flow.name == "In"]

    async def start(self):
        """Set all inputs to 0, start the clock, reset."""
        for name in self._inputs:
            getattr(self.dut, name).value = 0
        self.dut.rst.value = 1
        Clock(self.dut.clk, PERIOD_NS, "ns").start()
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 2)  # the design's own reset lasts a cycle longer

    def set(self, name: str, value) -> None:
        """Set a port to a value of its shape: an integer, or whatever its layout's ``const`` takes."""
        shape = self._shapes[name]
        packed = isinstance(shape, ShapeCastable)
        bits = shape.const(value).as_bits() if packed else value & ((1 << Shape.cast(shape).width) - 1)
        getattr(self.dut, name).value = bits

    def get(self, name: str):
        """A port's value by its shape."""
        return self._unpack(name, self._bits(name))

    def _bits(self, name):
        return int(getattr(self.dut, name).value)

    def _unpack(self, name, bits):
        shape = self._shapes[name]
        if isinstance(shape, ShapeCastable):
            return shape.from_bits(bits)
        shape = Shape.cast(shape)
        return bits - (1 << shape.width) if shape.signed and bits >> (shape.width - 1) else bits

    async def pause(self, stall: float) -> None:
        while self.rng.random() < stall:
            await self.edge

    async def send(self, name: str, payloads, stall: float) -> None:
        """Offer ``payloads`` on a stream into the design, with random pauses."""
        for payload in payloads:
            await self.pause(stall)
            self.set(f"{name}_payload", payload)
            self.set(f"{name}_valid", 1)
            await self.edge
            while not self.get(f"{name}_ready"):
                await self.edge
            self.set(f"{name}_valid", 0)

    async def take(self, name: str, count: int, stall: float) -> list:
        """Take ``count`` payloads from a stream out of the design, with random pauses; they must stay until taken."""
        taken, offered = [], None
        while len(taken) < count:
            ready = self.rng.random() >= stall
            self.set(f"{name}_ready", ready)
            await self.edge
            bits = self._bits(f"{name}_payload") if self.get(f"{name}_valid") else None
            assert offered is None or bits == offered, f"{name} changed before it was taken"
            offered = None if ready else bits
            if ready and bits is not None:
                taken.append(self._unpack(f"{name}_payload", bits))
        self.set(f"{name}_ready", 0)
        return taken

    def watch(self, see) -> None:
        """Call ``see()`` at every edge from now on; what it raises fails the test."""

        async def loop():
            while True:
                await self.edge
                see()

        cocotb.start_soon(loop())

    def tokens(self, name: str, count: int, chance: float = 0.1) -> None:
        """Hand out ``count`` tokens, each after a random while."""
        token = Token(self, name)

        def see():
            token.given += token.given < count and self.rng.random() < chance

        self.watch(see)


class Token:
    """The counter behind a token port: ``given`` is the bench's to raise; none is taken that isn't there."""

    def __init__(self, bench: Bench, name: str, given: int = 0):
        self.bench, self.name = bench, name
        self.given, self.taken = given, 0
        bench.watch(self._see)

    def _see(self):
        take = self.bench.get(f"{self.name}_take")
        assert take <= self.bench.get(f"{self.name}_avail"), f"{self.name} taken before it was given"
        self.taken += take
        self.bench.set(f"{self.name}_avail", self.given > self.taken)
