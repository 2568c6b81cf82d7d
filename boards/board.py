"""A board around the accelerator: its parts, its limits, and the design that joins them on its pins."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from amaranth import Cat, ClockDomain, Elaboratable, Instance, Module, Mux, Signal
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In

from ..gen.description import MODULE
from ..spec.config import Config
from ..synth.target import Part, Target
from .dram import Dram
from .errors import BoardError
from .litedram_core import DramPhy

__all__ = ["Board", "BoardTop"]

DDR3_PINS = {
    "ddram_clk": "clk", "ddram_a": "a", "ddram_ba": "ba", "ddram_dq": "dq", "ddram_dqs": "dqs", "ddram_dm": "dm",
    "ddram_odt": "odt", "ddram_cke": "clk_en", "ddram_ras_n": "ras", "ddram_cas_n": "cas", "ddram_we_n": "we",
    "ddram_cs_n": "cs", "ddram_reset_n": "rst",
}  # fmt: skip
"""Ports of LiteDRAM's core and subsignals of the board's DDR3; those that a board hasn't got are left open."""

MULTIPLIERS = ("multiplier", "dsp48")
"""Names of the resource on the targets."""

BLINK_BITS = 25
"""The heartbeat's period is 2^25 clocks, about a third of a second at 100 MHz."""

AFTERGLOW_BITS = 22
"""For how many clocks the busy light shows a burst."""


@dataclass(frozen=True)
class Board:
    """The parts of a board.

    ``platform`` makes the Amaranth platform that knows its pins; ``lights``: resources of the lights heartbeat,
    calibrated, busy; ``pairs``: whether both pins of a differential pair are ports of the design; ``clocks``: slowest
    and fastest clock of the accelerator in Hz, which the memory's clock follows; ``part`` of ``target``: the device;
    ``flow``: the tools; ``place``: nextpnr's options for the device; ``overrides`` of the platform's templates.
    """

    name: str
    title: str
    platform: Callable[[], Any]
    input_hz: int
    clocks: tuple[int, int]
    memory: DramPhy
    lights: tuple[tuple[str, int, str | None], ...]
    pairs: bool
    target: Target
    part: Part
    flow: str
    place: tuple[str, ...] = ()
    overrides: tuple[tuple[str, str], ...] = ()

    def configure(self, config: Config, clock_hz: int | None = None) -> Config:
        """``config`` at a clock that the board can have: ``clock_hz``, or the one nearest to the configuration's own.

        Raises BoardError if the board can't have that clock, or can't hold such an accelerator.
        """
        slowest, fastest = self.clocks
        if clock_hz is None:
            clock_hz = min(max(config.clock_hz, slowest), fastest)
        if not slowest <= clock_hz <= fastest:
            raise BoardError(
                f"{self.name}: the clock must be between {slowest / 1e6:g} and {fastest / 1e6:g} MHz, the memory's "
                f"being {self.memory.rate} times as fast, not {clock_hz / 1e6:g}"
            )
        if config.port_width > self.memory.width:
            raise BoardError(
                f"{self.name}: the memory port has {config.port_width} bits, the controller's {self.memory.width}"
            )
        multipliers = sum(self.part.has.get(name, 0) for name in MULTIPLIERS)
        if config.n_pes > multipliers:
            raise BoardError(
                f"{self.name}: {config.rows} x {config.cols} PEs need {config.n_pes} multipliers, "
                f"there are {multipliers}"
            )
        return replace(config, clock_hz=clock_hz)


class BoardTop(Elaboratable):
    """The accelerator's and the DRAM controller's Verilog, joined, on a board's pins.

    ``component`` is what the accelerator's Verilog was made of, for the names of its ports: ``rx``, ``tx``, ``m_axi``
    and ``dram_csr``, as :class:`adagp.rtl.top_with_link.TopWithLink` has them. Both run on the clock that the
    controller makes.
    """

    def __init__(self, board: Board, component: wiring.Component, memory_bytes: int):
        self.board, self.component, self.memory_bytes = board, component, memory_bytes

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain("sync")
        calibrated, failed = Signal(), Signal()
        clk, rst = (platform.request(name, 0, dir="-") for name in (platform.default_clk, platform.default_rst))
        uart = platform.request("uart", 0, dir={"rx": "-", "tx": "-"})
        m.submodules.clk_pin = clk_pin = io.Buffer("i", clk)
        m.submodules.rst_pin = rst_pin = io.Buffer("i", rst)
        m.submodules.rx_pin = rx_pin = io.Buffer("i", uart.rx)
        m.submodules.tx_pin = tx_pin = io.Buffer("o", uart.tx)
        others = {
            "i_clk": clk_pin.i, "i_rst": rst_pin.i, "o_user_clk": sync.clk, "o_user_rst": sync.rst,
            "o_init_done": calibrated, "o_init_error": failed, **self._pins(platform),
        }  # fmt: skip
        m.submodules.dram = dram = Dram(
            self.component.m_axi.signature, self.board.memory.width, self.memory_bytes, others
        )
        ports = self._accelerator(m, sync, rx_pin.i, tx_pin.o)
        for prefix, slave in (("m_axi", dram.axi), ("dram_csr", dram.csr)):
            for name, member in getattr(self.component, prefix).signature.members.items():
                ours, its = ports[f"{prefix}_{name}"], getattr(slave, name)
                m.d.comb += ours.eq(its) if member.flow == In else its.eq(ours)
        self._lights(m, platform, calibrated & ~failed, ports["m_axi_arvalid"] | ports["m_axi_awvalid"])
        return m

    def _accelerator(self, m, sync, rx, tx):
        """Signals on all ports of the accelerator's buses, by name."""
        signals, connections = {}, {}
        for path, member, _ in self.component.signature.flatten(self.component):
            name = "_".join(map(str, path))
            signals[name] = Signal(member.shape, name=name)
            connections[f"{'i' if member.flow == In else 'o'}_{name}"] = signals[name]
        m.submodules.accelerator = Instance(MODULE, i_clk=sync.clk, i_rst=sync.rst, **connections)
        line = Signal(2, init=0b11)  # against metastability
        m.d.sync += line.eq(Cat(rx, line))
        m.d.comb += [signals["rx"].eq(line[1]), tx.eq(signals["tx"])]
        return signals

    def _pins(self, platform):
        """The DDR3's pins as they are: the controller has its own buffers and its own negations."""
        resource = platform.lookup("ddr3", 0)
        names = [subsignal.name for subsignal in resource.ios]
        memory = platform.request("ddr3", 0, dir=dict.fromkeys(names, "-"))
        connections: dict[str, object] = {}
        for port, name in DDR3_PINS.items():
            if name not in names:
                continue
            pins = getattr(memory, name)
            if isinstance(pins, io.DifferentialPort):
                connections |= {f"io_{port}_p": pins.p} | ({f"io_{port}_n": pins.n} if self.board.pairs else {})
            else:
                connections[f"io_{port}"] = pins.io
        return connections

    def _lights(self, m, platform, calibrated, busy):
        """Heartbeat, calibrated, busy."""
        beat, glow = Signal(BLINK_BITS), Signal(AFTERGLOW_BITS)
        m.d.sync += [beat.eq(beat + 1), glow.eq(Mux(busy, ~0, Mux(glow.any(), glow - 1, 0)))]
        for place, (light, value) in enumerate(zip(self.board.lights, (beat[-1], calibrated, glow.any()), strict=True)):
            name, number, part = light
            parts = {subsignal.name for subsignal in platform.lookup(name, number).ios if hasattr(subsignal, "name")}
            port = platform.request(name, number, dir=dict.fromkeys(parts, "-") if part else "-")
            for each in sorted(parts) if part else [None]:
                m.submodules[f"light{place}_{each or 'pin'}"] = pin = io.Buffer(
                    "o", getattr(port, each) if each else port
                )
                m.d.comb += pin.o.eq(value if each == part else 0)
