"""A scratchpad against a plain list, with every rotation and a reader that stalls."""

import cocotb
import pytest
from adagp.rtl.memory.scratchpad import Scratchpad
from adagp.spec.presets import preset
from harness import Bench, parameters
from runner import SIMULATORS, run

DEPTH = 16
ROUNDS, READS = 15, 10


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("name", ["tiny", pytest.param("paper", marks=pytest.mark.slow)])  # tb/unit/memory has it
def test_scratchpad(name, simulator, tmp_path):
    config = preset(name)
    run("test_scratchpad", Scratchpad(config, DEPTH), config, tmp_path, simulator=simulator, seed=22)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reads_see_writes(dut):
    """Words written lane by lane come back READ_LATENCY enabled cycles after their addresses."""
    config, _ = parameters()
    bench = Bench(dut, Scratchpad(config, DEPTH))
    await bench.start()
    rng, banks = bench.rng, config.banks
    image = [0] * (DEPTH * banks)
    limit = 1 << (config.operand_width - 1)

    def lanes():
        """A rotation, a word for each lane, and the elements they mean."""
        rot, words = rng.randrange(banks), [rng.randrange(DEPTH) for _ in range(banks)]
        return rot, words, [word * banks + (rot + lane) % banks for lane, word in enumerate(words)]

    async def write():
        rot, words, elements = lanes()
        mask, values = rng.getrandbits(banks), [rng.randrange(-limit, limit) for _ in range(banks)]
        for name, value in {"mask": mask, "rot": rot, "addr": words, "data": values}.items():
            bench.set(f"write_{name}", value)
        await bench.edge
        bench.set("write_mask", 0)
        for lane, element in enumerate(elements):
            if mask >> lane & 1:
                image[element] = values[lane]

    async def read(count):
        """Read ``count`` vectors in a pipeline that stalls; returns how many were compared."""
        expected, seen, none = [], 0, 0
        while seen < count:
            move, (rot, words, elements), zeros = rng.random() < 0.6, lanes(), rng.getrandbits(banks)
            for name, value in {"en": move, "valid": 1, "rot": rot, "addr": words, "zeros": zeros}.items():
                bench.set(f"read_{name}", value)
            await bench.edge
            if len(expected) >= Scratchpad.READ_LATENCY:  # what the enabled edges before this one made
                operands = enumerate(expected[-Scratchpad.READ_LATENCY])
                wanted = [0 if none >> lane & 1 else operand for lane, operand in operands]
                assert list(bench.get("read_data")) == wanted
                seen += move
            if move:
                none = zeros
                expected.append([image[element] for element in elements])
        bench.set("read_en", 0)
        return seen

    seen = 0
    for _ in range(ROUNDS):
        for _ in range(DEPTH):
            await write()
        seen += await read(READS)
    assert seen == ROUNDS * READS > 0
