"""The sequencer against the tile program run as Python; engines that take their descriptors now and then."""

import cocotb
import pytest
from adagp.rtl.lib.interfaces import TaskLayout
from adagp.rtl.sequencer.sequencer import Sequencer
from adagp.spec.commands import FIELDS, Opcode
from adagp.spec.microcode.descriptors import ENGINES
from adagp.spec.microcode.machine import descriptors, task
from adagp.spec.microcode.program import tile_program
from adagp.spec.presets import preset
from cocotb.triggers import Combine
from harness import Bench, parameters
from runner import SIMULATORS, run

SEED = 24
CONVOLUTION = {
    "n": 2, "c": 3, "h": 6, "w": 5, "q": 5, "r": 3, "s": 3, "stride": 2, "oh": 3, "ow": 3, "pad_y": 1, "pad_x": 1,
    "nb": 1, "yb": 2, "cb": 3, "qb": 4, "bias": 1, "track": 1,
}  # fmt: skip
POOLING = CONVOLUTION | {"c": 5, "cb": 5, "bias": 0, "const_mantissa": 3}
TASKS = [
    {**CONVOLUTION, "opcode": Opcode.FORWARD, "relu": 1}, {**CONVOLUTION, "opcode": Opcode.BACKWARD_DATA, "bias": 0},
    {**CONVOLUTION, "opcode": Opcode.BACKWARD_WEIGHT, "swap": 1}, {**POOLING, "opcode": Opcode.MAXPOOL},
    {**POOLING, "opcode": Opcode.AVGPOOL_BACKWARD},
]  # fmt: skip


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("name", ["tiny", pytest.param("paper", marks=pytest.mark.slow)])  # tb/unit/sequencer has it
def test_sequencer(name, simulator, tmp_path):
    config = preset(name)
    run("test_sequencer", Sequencer(config), config, tmp_path, simulator=simulator, seed=SEED)


def random_task(rng, fields):
    addresses = {name: 2 * rng.randrange(1 << 20) for name in ("a_addr", "b_addr", "c_addr", "out_addr")}
    exponents = {name: rng.randint(-20, 20) for name in ("exp_a", "exp_b", "exp_c", "exp_out")}
    return task({**fields, **addresses, "out_id": rng.randrange(16)}, index=rng.getrandbits(16), **exponents)


def payload(t):
    others = {name: getattr(t, name) for name in TaskLayout.members if name != "command"}
    return {"command": {field.name: getattr(t, field.name) for field in FIELDS}, **others}


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def issues_the_tile_program(dut):
    """Each engine gets its descriptors, all fields right and in order."""
    config, _ = parameters()
    bench = Bench(dut, Sequencer(config))
    await bench.start()
    tasks = [random_task(bench.rng, fields) for fields in TASKS]
    expected = {name: [] for name in ENGINES}
    for engine, fields in descriptors(tile_program, config, tasks):
        expected[engine].append(fields)
    seen = 0

    def see():
        assert not bench.get("error_valid")

    async def engine(name):
        nonlocal seen
        for got, want in zip(await bench.take(name, len(expected[name]), 0.5), expected[name], strict=True):
            fields = {bits.name: getattr(got, bits.name) for bits in ENGINES[name]}
            assert fields == want, name
            seen += 1

    bench.watch(see)
    given = cocotb.start_soon(bench.send("i", map(payload, tasks), 0.3))
    await Combine(given, *(cocotb.start_soon(engine(name)) for name in ENGINES))
    assert seen == sum(map(len, expected.values())) > 4 * len(TASKS)
