"""The whole accelerator on a memory that answers SLVERR or DECERR: it stops, says why and where, and starts again."""

import cocotb
import pytest
from adagp.gen.generated import generated
from adagp.host.program import Line, Program, header
from adagp.rtl.top import Top
from adagp.spec.commands import COMMAND_BYTES, Command, Opcode, Phase
from adagp.spec.errors import ErrorCode
from adagp.spec.presets import preset
from adagp.spec.registers import Control, Status
from axi import FaultyMemory, Registers, axil_master
from cocotb.triggers import with_timeout
from cocotbext.axi import AxiResp
from harness import Bench, parameters
from runner import SIMULATORS, run

TINY = preset("tiny")
STALL = 0.3
PROGRAM, X, W, Y, GRADIENT, LOW, MOMENTUM = range(0, 0x1C00, 0x400)
MEMORY_BYTES = 0x1C00
N_CHANNELS = 4
N_WEIGHTS = N_CHANNELS * (N_CHANNELS + 1)
ALWAYS = {"phase_mask": int(Phase.ALL)}
LAYER = {
    **dict.fromkeys(("n", "h", "w", "oh", "ow", "r", "s", "stride", "nb", "yb"), 1),
    **dict.fromkeys(("c", "q", "cb", "qb"), N_CHANNELS),
}  # fmt: skip
COMMANDS = [
    header(TINY),
    Command(Opcode.FORWARD, {**ALWAYS, **LAYER, "a_addr": X, "b_addr": W, "out_addr": Y, "bias": 1}),
    Command(
        Opcode.UPDATE,
        {
            **ALWAYS, "a_addr": GRADIENT, "b_addr": W, "c_addr": LOW, "out_addr": MOMENTUM, "count": N_WEIGHTS,
            "wait_main": 1,
        },
    ),
    Command(Opcode.END, ALWAYS),
]  # fmt: skip
ACTS = {1: Y, 2: MOMENTUM}
"""The addresses that commands write to, by their index."""
FAULTS = [
    *(("reads", PROGRAM + index * COMMAND_BYTES, ErrorCode.READ_FAULT, index) for index in range(len(COMMANDS))),
    ("reads", X, ErrorCode.READ_FAULT, 1), ("reads", W + 2, ErrorCode.READ_FAULT, 1),
    *(("reads", place, ErrorCode.READ_FAULT, 2) for place in (GRADIENT, LOW, MOMENTUM + 8)),
    ("writes", Y + 6, ErrorCode.WRITE_FAULT, 1),
    *(("writes", place, ErrorCode.WRITE_FAULT, 2) for place in (W, LOW + 16, MOMENTUM)),
]  # fmt: skip
"""Faults: the transfer that fails, its byte, and the error and command that must be reported."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("simulator", SIMULATORS)
def test_faults(simulator, tmp_path):
    run("test_faults", generated(TINY), TINY, tmp_path, simulator=simulator, seed=30)


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def stops_and_starts_again(dut):
    """For each fault: interrupt, code and index are right, no later command acts; after CLEAR the program runs."""
    config, _ = parameters()
    bench = Bench(dut, Top(config))
    await bench.start()
    registers = Registers(axil_master(bench, "s_axil", STALL))
    memory = FaultyMemory(bench, "m_axi", MEMORY_BYTES, STALL)
    program = Program([Line(command) for command in COMMANDS], PROGRAM)
    image = bytearray(bench.rng.randbytes(MEMORY_BYTES))
    image[PROGRAM : PROGRAM + len(program.bytes())] = program.bytes()
    for name, value in {"IRQ_ENABLE": 1, "BATCHES": 1, "REGION0_START": X, "REGION0_END": MEMORY_BYTES}.items():
        await registers.write(name, value)
    seen = 0

    async def wait():
        while not bench.get("irq"):
            await bench.edge

    async def outcome():
        """Run the program on fresh data; status and error, and whether each command has written anything."""
        memory[:] = bytes(image)
        await registers.write("CONTROL", Control.START)
        await with_timeout(wait(), 100, "us")
        acted = {index: memory[place : place + 8] != bytes(image[place : place + 8]) for index, place in ACTS.items()}
        return tuple([await registers.read(name) for name in ("STATUS", "ERROR", "ERROR_INDEX")]), acted

    for direction, place, code, index in FAULTS:
        for response in (AxiResp.SLVERR, AxiResp.DECERR):
            setattr(memory, direction, range(place, place + 1))
            memory.response = response
            state, acted = await outcome()
            assert state == (Status.ERROR, code, index), (direction, place, response)
            assert not any(acted[later] for later in acted if later > index)
            assert all(acted[earlier] for earlier in acted if earlier < index)
            await registers.write("CONTROL", Control.CLEAR)
            setattr(memory, direction, range(0))
            seen += 1
    state, acted = await outcome()
    assert state == (Status.DONE, 0, 0) and all(acted.values())
    assert seen == 2 * len(FAULTS) > 0
