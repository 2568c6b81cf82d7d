"""Fill behind its arbiter, reading cocotbext-axi's memory: random descriptors, alignments and pauses."""

from fractions import Fraction

import cocotb
import pytest
from adagp.rtl.dma.fill import Fill
from adagp.spec.microcode.descriptors import Target
from adagp.spec.numerics import operand_max
from axi import OnAxi, axi_ram
from dma_bench import CONFIGS, LEAST, loops
from harness import Bench, parameters
from runner import SIMULATORS, run
from unit.dma.test_fill import DRAM_BYTES, LEVELS, random_fill, random_memory

SEED = 25
COUNT = 30
STALL = 0.3
PADS = {Target.A: ("a", "a_full"), Target.B: ("b", "b_full"), Target.C: ("c", "c_ready")}


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("name", ["tiny", pytest.param("port128", marks=pytest.mark.slow)])  # tb/unit/dma has it
def test_fill(name, simulator, tmp_path):
    config = CONFIGS[name]
    run("test_fill", OnAxi(config, Fill(config), read="client"), config, tmp_path, simulator=simulator, seed=SEED)


def pad_of(d):
    return min(d["target"], Target.C)  # biases belong to the C scratchpad's tokens


class Meaning:
    """A plain Python model of the scratchpads under descriptors: lists of elements by target and half."""

    def __init__(self, config, dram):
        self.config, self.dram = config, dram
        sizes = (config.a_elements, config.b_elements, config.c_elements)
        self.pads = {(target, half): [0] * size for target, size in zip(PADS, sizes, strict=True) for half in range(2)}
        self.biases = []

    def operand(self, address):
        return int.from_bytes(self.dram[address : address + self.config.operand_bytes], "little", signed=True)

    def apply(self, d):
        """Do what ``d`` asks; returns the half of the scratchpad as it is then."""
        image = self.pads[pad_of(d), d["half"]]
        segments = list(loops(d, LEVELS))
        if d["target"] == Target.BIAS:
            limit = operand_max(self.config.acc_width)
            scaled = (round(self.operand(address) / Fraction(2) ** d["shift"]) for address, _ in segments)
            self.biases += [(d["half"], i == 0, max(-limit, min(limit, x))) for i, x in enumerate(scaled)]
            return list(image)
        cleared = -(-d["clear"] // self.config.banks) * self.config.banks
        image[:cleared] = [LEAST[self.config.operand_width] if d["clear_min"] else 0] * cleared
        for address, element in segments:
            for e in range(d["length"]):
                value = self.operand(address + e * self.config.operand_bytes)
                if not d["mark"] or value <= 0:
                    image[element + e * d["step"]] = -(1 << self.config.operand_width - 1) if d["mark"] else value
        return list(image)


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def random_descriptors(dut):
    """When a half is announced it holds what its descriptor says; biases come in order."""
    config, _ = parameters()
    bench = Bench(dut, OnAxi(config, Fill(config), read="client"))
    await bench.start()
    ram = axi_ram(bench, "r_axi", DRAM_BYTES, STALL, write=False)
    dram = random_memory(bench.rng, config)
    ram.write(0, dram)
    meaning, program, halves, expected = Meaning(config, dram), [], dict.fromkeys(PADS, 0), {pad: [] for pad in PADS}
    for n in range(COUNT):
        d = random_fill(bench.rng, config, Target(n % len(Target)))
        pad = pad_of(d)
        d |= {"open": 1, "ready": 1, "half": halves[pad]}
        halves[pad] ^= 1
        program.append(d)
        expected[pad].append((d["half"], meaning.apply(d)))
    images = {key: [0] * len(image) for key, image in meaning.pads.items()}
    biases, seen = [], 0

    def write(pad, name):
        mask = bench.get(f"{name}_mask")
        if not mask:
            return
        rot, words, values = (bench.get(f"{name}_{field}") for field in ("rot", "addr", "data"))
        depth = len(images[pad, 0]) // config.banks
        for lane in range(config.banks):
            if mask >> lane & 1:
                half, word = divmod(words[lane], depth)
                images[pad, half][word * config.banks + (rot + lane) % config.banks] = values[lane]

    def see():
        nonlocal seen
        assert not bench.get("fault")
        if bench.get("bias_valid"):
            biases.append((bench.get("bias_half"), bench.get("bias_start"), bench.get("bias_data")))
        for pad, (name, pulse) in PADS.items():
            if bench.get(pulse):
                half, image = expected[pad].pop(0)
                assert images[pad, half] == image, f"{name}, half {half}"
                seen += 1
            write(pad, name)

    bench.watch(see)
    for pad, (name, _) in PADS.items():
        bench.tokens(f"{name}_free", len(expected[pad]))
    await bench.send("i", program, STALL)
    while any(expected.values()):
        await bench.edge
    assert biases == meaning.biases
    assert seen == COUNT and biases
