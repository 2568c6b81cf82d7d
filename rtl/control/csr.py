"""AXI4-Lite slave with the host's registers of :mod:`adagp.spec.registers`."""

from functools import reduce
from operator import or_

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...spec.config import VERSION, Config
from ...spec.layout import Access, Register
from ...spec.registers import AS_SCHEDULED, DEVICE_ID, N_PHASES, REGISTERS
from ..lib.delay import delayed

__all__ = ["AxiLite", "Csr", "registers", "stored_registers"]

ADDR_WIDTH = 12
DATA_WIDTH = 32
GROUP = 8
OKAY, SLVERR = 0b00, 0b10

KEPT_ELSEWHERE = (
    "BATCH", "RING_INDEX", "EXPONENT", "HYPER_VALUE", "ENTRY_EPOCHS", "ENTRY_LENGTHS", "POSITION_EPOCH",
    "POSITION_BATCH", "POSITION_RUN", "GATE", "ADAM_POWER1", "ADAM_POWER2",
)  # fmt: skip
"""Read-write registers whose value another block keeps."""


def registers(config: Config) -> tuple[Register, ...]:
    """Registers that this variant has."""
    return tuple(r for r in REGISTERS if config.predicts or not r.predicts or (r.name == "SEED" and config.drops))


def stored_registers(config: Config) -> dict[str, int]:
    """Shape of each register that holds just the value written to it; higher bits are dropped."""
    shapes = {
        "PHASE": range(AS_SCHEDULED + 1 if config.predicts else N_PHASES),
        "TENSOR": range(config.n_tensors), "HYPER": range(config.n_hyper),
    }  # fmt: skip
    used = {"PREDICTOR": config.predictor_on_chip, "SEED": config.has_seed}
    elsewhere = (*KEPT_ELSEWHERE, *(name for name, there in used.items() if not there))
    stored = [r for r in registers(config) if r.access == Access.RW and r.name not in elsewhere]
    return {r.name: shapes.get(r.name, r.width) for r in stored}


class AxiLite(wiring.Signature):
    """AXI4-Lite with 32 bits of data and 12 of address, seen from the master; it has no protection bits."""

    def __init__(self):
        super().__init__({
            "awaddr": Out(ADDR_WIDTH), "awvalid": Out(1), "awready": In(1),
            "wdata": Out(DATA_WIDTH), "wstrb": Out(DATA_WIDTH // 8), "wvalid": Out(1), "wready": In(1),
            "bresp": In(2), "bvalid": In(1), "bready": Out(1),
            "araddr": Out(ADDR_WIDTH), "arvalid": Out(1), "arready": In(1),
            "rdata": In(DATA_WIDTH), "rresp": In(2), "rvalid": In(1), "rready": Out(1),
        })  # fmt: skip


class Csr(wiring.Component):
    """The register file.

    Registers are members by their names in lower case.

    Parameters
    ----------
    config : Config
        decides which registers there are

    Members
    -------
    bus : In(AxiLite())
        the host
    REGISTER : Out(shape)
        value of each of :func:`stored_registers`
    REGISTER : In(32)
        value to read of each of ``shown``: registers kept in other blocks
    counter_value : In(64)
        value to read as COUNTER_LOW and COUNTER_HIGH
    look : Out(1)
        a read has come: other blocks look up their values
    written : Out(struct of 1 bit each)
        for each of ``effects``, CONTROL and registers kept elsewhere: ``write_data`` is written to it in this cycle
    write_data : Out(32)
        the value written
    writing : Out(1), where ``config.predicts``
        a register, any, is written in this cycle

    Timing
    ------
    Inputs are sampled LOOK_CYCLES after ``look``. Registers that don't exist read as 0 and ignore writes. A write
    without all its strobes isn't done and is answered by SLVERR.
    """

    LOOK_CYCLES = 4

    def __init__(self, config: Config):
        self.config = config
        self.registers = registers(config)
        kept = [r.name for r in self.registers if r.name in KEPT_ELSEWHERE]
        self.effects = ("CONTROL", *kept)
        self.shown = ("STATUS", "ERROR", "ERROR_INDEX", *kept, *["PHASE_NOW"] * config.predicts)
        super().__init__({
            "bus": In(AxiLite()),
            **{name.lower(): Out(shape) for name, shape in stored_registers(config).items()},
            **{name.lower(): In(DATA_WIDTH) for name in self.shown},
            "counter_value": In(2 * DATA_WIDTH), "look": Out(1),
            "written": Out(data.StructLayout({name.lower(): 1 for name in self.effects})),
            "write_data": Out(DATA_WIDTH), **({"writing": Out(1)} if config.predicts else {}),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        self._write_channel(m)
        self._read_channel(m)
        return m

    def _write_channel(self, m):
        """Hold address and data until both are there, write two cycles later, answer once the write has had its effect.

        One of the two cycles is for each register to compare the address with its own.
        """
        bus = self.bus
        addr_held = Signal()
        data_held = Signal()
        full = Signal()
        index = Signal(ADDR_WIDTH - 2)
        do = Signal()
        done = delayed(m, do, 1)
        answer = delayed(m, done, 1)
        writes = Signal()  # ``do``, with all strobes
        begins = addr_held & data_held & ~Cat(bus.bvalid, do, done, answer).any()
        m.d.sync += [do.eq(begins), writes.eq(begins & full)]
        m.d.comb += [bus.awready.eq(~addr_held), bus.wready.eq(~data_held)]
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [addr_held.eq(1), index.eq(bus.awaddr[2:])]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [data_held.eq(1), self.write_data.eq(bus.wdata), full.eq(bus.wstrb.all())]
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(done):
            m.d.sync += [addr_held.eq(0), data_held.eq(0)]
        with m.If(answer):
            m.d.sync += [bus.bvalid.eq(1), bus.bresp.eq(Mux(full, OKAY, SLVERR))]

        stored = stored_registers(self.config)
        if self.config.predicts:
            m.d.comb += self.writing.eq(delayed(m, writes, 1))
        for written in self.registers:
            name = written.name.lower()
            meant = delayed(m, writes & delayed(m, index == written.offset // 4, 1), 1)
            if written.name in stored:
                with m.If(meant):
                    m.d.sync += getattr(self, name).eq(self.write_data)
            elif written.name in self.effects:
                m.d.comb += self.written[name].eq(meant)

    def _read_channel(self, m):
        """Take an address, let other blocks look up their values, sample, answer a cycle later.

        The register is chosen in two steps: within each group of GROUP, then among the groups. Each register compares
        the address with its own in the cycle after it, long before values are sampled.
        """
        bus = self.bus
        free = Signal(init=1)
        sample = delayed(m, self.look, self.LOOK_CYCLES)
        index = Signal(ADDR_WIDTH - 2)
        counter_high = Signal(DATA_WIDTH)
        values = {
            "ID": DEVICE_ID,
            "VERSION": VERSION,
            "CONFIG_HASH": self.config.config_hash,
            "COUNTER_LOW": self.counter_value[:DATA_WIDTH],
            "COUNTER_HIGH": counter_high,
        }
        m.d.comb += [bus.arready.eq(free), bus.rresp.eq(OKAY)]
        m.d.sync += self.look.eq(bus.arvalid & free)
        with m.If(bus.arvalid & free):
            m.d.sync += [free.eq(0), index.eq(bus.araddr[2:])]
        numbers = {r.name: r.offset // 4 for r in self.registers if r.access != Access.WO}
        meant = {name: delayed(m, index == number, 1) for name, number in numbers.items()}
        chosen = []
        for group in sorted({number // GROUP for number in numbers.values()}):
            chosen.append(Signal(DATA_WIDTH, name=f"chosen{group}", reset_less=True))
            m.d.sync += chosen[-1].eq(reduce(or_, (
                Mux(meant[name], values.get(name, getattr(self, name.lower(), 0)), 0)
                for name, number in numbers.items() if number // GROUP == group
            )))  # fmt: skip
        with m.If(sample & meant["COUNTER_LOW"]):
            m.d.sync += counter_high.eq(self.counter_value[DATA_WIDTH:])
        with m.If(delayed(m, sample, 1)):
            m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(reduce(or_, chosen))]
        with m.If(bus.rvalid & bus.rready):
            m.d.sync += [bus.rvalid.eq(0), free.eq(1)]
