"""Store with its scratchpad, writing to cocotbext-axi's memory: random descriptors, alignments and pauses."""

import cocotb
import pytest
from adagp.rtl.dma.store import Store
from adagp.rtl.lib.interfaces import PadWrite
from adagp.rtl.memory.scratchpad import PingPong
from adagp.spec.registers import N_REGIONS
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from axi import OnAxi, axi_ram
from dma_bench import CONFIGS, loops
from harness import Bench, parameters
from runner import SIMULATORS, run
from unit.dma.test_store import DRAM_BYTES, LEVELS, random_store

SEED = 26
COUNT = 30
STALL = 0.3


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("name", ["tiny", pytest.param("port128", marks=pytest.mark.slow)])  # tb/unit/dma has it
def test_store(name, simulator, tmp_path):
    run("test_store", design(CONFIGS[name]), CONFIGS[name], tmp_path, simulator=simulator, seed=SEED)


class StoreOfPad(wiring.Component):
    """Store with a scratchpad that the bench writes."""

    def __init__(self, config):
        self.config, self.store = config, Store(config)
        others = {name: member for name, member in self.store.signature.members.items() if name != "c"}
        super().__init__({**others, "pad": In(PadWrite(config, 2 * config.c_depth))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = self.store
        m.submodules.pad = pad = PingPong(self.config, self.config.c_depth)
        wiring.connect(m, self.store.c, pad.read1)
        wiring.connect(m, wiring.flipped(self.pad), pad.write0)
        for name in ("i", "client", "drained"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(self.store, name))
        m.d.comb += self.store.regions.eq(self.regions)
        for name in ("c_free", "main_done", "fault", "fault_code", "fault_command"):
            m.d.comb += getattr(self, name).eq(getattr(self.store, name))
        return m


def design(config):
    return OnAxi(config, StoreOfPad(config), write="client")


def long_store(rng, config):
    """A row nearly as long as a half of the scratchpad, which is read beyond its end from its beginning again."""
    d = random_store(rng, config) | dict.fromkeys(("n0", "n1", "n2"), 1) | {"dry": 0}
    length = rng.randrange(3 * config.c_elements // 4, config.c_elements)
    dram = rng.randrange(DRAM_BYTES // config.operand_bytes - length) * config.operand_bytes
    return d | {"sp": rng.randrange(config.c_elements), "length": length, "dram": dram}


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def random_descriptors(dut):
    """Memory is as the descriptors say, to the byte, when the last of them has been announced as done."""
    config, _ = parameters()
    bench = Bench(dut, design(config))
    await bench.start()
    ram = axi_ram(bench, "w_axi", DRAM_BYTES, STALL, read=False)
    rng, unit, limit = bench.rng, config.operand_bytes, 1 << (config.operand_width - 1)
    pad = [[rng.randrange(-limit, limit) for _ in range(config.c_elements)] for _ in range(2)]
    before = rng.randbytes(DRAM_BYTES)
    ram.write(0, before)
    bench.set("regions", [{"start": 0, "end": DRAM_BYTES}] * N_REGIONS)
    for word in range(2 * config.c_depth):
        half, place = divmod(word, config.c_depth)
        bench.set("pad_mask", (1 << config.banks) - 1)
        bench.set("pad_addr", [word] * config.banks)
        bench.set("pad_data", pad[half][place * config.banks : (place + 1) * config.banks])
        await bench.edge
    bench.set("pad_mask", 0)

    program, expected = [], bytearray(before)
    for n in range(COUNT):
        d = random_store(rng, config) if n else long_store(rng, config)
        d |= {"half": n % 2, "begin": 1, "close": 1, "done": n % 2}
        program.append(d)
        for address, element in () if d["dry"] else loops(d, LEVELS):
            for e in range(d["length"]):
                value = pad[d["half"]][(element + e) % config.c_elements].to_bytes(unit, "little", signed=True)
                expected[address + e * unit : address + (e + 1) * unit] = value
    pulses = {"c_free": 0, "main_done": 0}

    def see():
        assert not bench.get("fault")
        for name in pulses:
            pulses[name] += bench.get(name)

    bench.watch(see)
    bench.tokens("drained", COUNT)
    await bench.send("i", program, STALL)
    while pulses["main_done"] < COUNT // 2:
        await bench.edge
    assert ram.read(0, DRAM_BYTES) == expected != before
    assert pulses["c_free"] == COUNT
