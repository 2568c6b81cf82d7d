"""Waveforms: what the FST file says about its times and names."""

import struct

import numpy as np
import pytest
from adagp.sim import IDEAL, Simulation, SimulationError
from adagp.spec.commands import Command, Opcode
from adagp.spec.config import VERSION
from adagp.spec.presets import preset
from adagp.spec.registers import Control, register
from memory_traffic_dut import READ, simulation, start

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

HEADER, HIERARCHY_LZ4, VALUES_LZ4 = 0, 6, 8
CONFIG = preset("tiny")
OUT = 0x8000


def blocks(path):
    """The blocks of an FST file: (type, content without the length)."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        (length,) = struct.unpack_from(">Q", data, at + 1)
        yield data[at], data[at + 9 : at + 1 + length]
        at += 1 + length


def unpack_lz4(data, size):
    """The bytes of an LZ4 block, after the format's description."""
    out, at = bytearray(), 0

    def length(start):
        nonlocal at
        total = start
        while start == 15 or (start == 255):
            start = data[at]
            total += start
            at += 1
        return total

    while at < len(data):
        token = data[at]
        at += 1
        literals = length(token >> 4)
        out += data[at : at + literals]
        at += literals
        if at == len(data):
            break
        offset = int.from_bytes(data[at : at + 2], "little")
        at += 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-offset])
    assert len(out) == size
    return bytes(out)


def traced(tmp_path, **options):
    """Run the copier with waveforms; the path of the file and its first and last cycle."""
    path = tmp_path / "wave.fst"
    with simulation(preset("tiny"), tmp_path, IDEAL, trace=path, **options) as device:
        start(device, 12, 16, phase=READ)
        device.run_until_irq(10_000)
        end = device.cycles
    ((_, header),) = [block for block in blocks(path) if block[0] == HEADER]
    first, last = struct.unpack_from(">QQ", header)
    return path, first // 2, last // 2, end


def test_whole_run(tmp_path):
    path, first, last, end = traced(tmp_path)
    assert (first, last) == (0, end - 1)
    ((_, content),) = [block for block in blocks(path) if block[0] == HIERARCHY_LZ4]
    (size,) = struct.unpack_from(">Q", content)
    names = unpack_lz4(content[8:], size)
    assert b"m_axi_araddr" in names and b"s_axil_wdata" in names


def test_window_of_cycles(tmp_path):
    _, first, last, _ = traced(tmp_path, trace_window=(40, 59))
    assert (first, last) == (40, 59)


def test_commands_of_another_design(tmp_path):
    with pytest.raises(SimulationError, match=r"no waveforms of commands: the design has no issue\.given"):
        traced(tmp_path, trace_commands=(1, 1))


def copy(place):
    """An AVGPOOL that copies 16 operands."""
    ones = dict.fromkeys(("n", "h", "w", "oh", "ow", "r", "s", "stride", "nb", "yb", "qb", "const_mantissa"), 1)
    more = {"c": 16, "q": 16, "cb": 16, "a_addr": 0x7000, "out_addr": OUT + 32 * place, "phase_mask": 15}
    return Command(Opcode.AVGPOOL, {**ones, **more})


WEIGHTS = {"count": 4000, "a_addr": 0x14000, "b_addr": 0xA000, "c_addr": 0xC000, "out_addr": 0xE000}
PROGRAM = [
    Command(Opcode.HEADER, {"config_hash": CONFIG.config_hash, "version": VERSION}), copy(1), copy(2),
    Command(Opcode.UPDATE, {**WEIGHTS, "b_id": 1, "out_id": 2, "phase_mask": 15}),
    *(copy(place) for place in range(4, 11)),
    Command(Opcode.COMMIT, {"phase_mask": 15}), copy(12), Command(Opcode.END, {"phase_mask": 15}),
]  # fmt: skip
"""The update is still at work when copies after it are complete."""


def run_batches(device, batches):
    """Run PROGRAM on 1s, copies zeroed as they appear: for each batch, the cycles in which each command wrote."""
    for index, word in enumerate(word for command in PROGRAM for word in command.encode()):
        device.memory[4 * index : 4 * index + 4].view(np.uint32)[0] = word
    device.memory[0x7000:] = 1
    written = [(OUT + 32 * i, OUT + 32 * (i + 1)) for i in range(len(PROGRAM))]
    written[3] = 0xA000, 0x14000
    rate = register("HYPER_VALUE").pack(mantissa=0x100, exponent=-8)
    settings = {"HYPER": 0, "HYPER_VALUE": rate, "REGION0_END": 0x14000, "BATCHES": batches}
    for name, value in {**settings, "IRQ_ENABLE": 1, "CONTROL": Control.START}.items():
        device.write_register(register(name).offset, value)
    seen, cycle = [{}], -1
    while device.cycles != cycle:  # until the interrupt
        before, cycle = device.memory[OUT:].copy(), device.cycles
        device.step(1)
        changed = OUT + np.flatnonzero(before != device.memory[OUT:])
        for index in (i for i, (at, end) in enumerate(written) if ((at <= changed) & (changed < end)).any()):
            if seen[-1].keys() >= {3, 12}:  # the last to write was the last of a batch
                seen.append({})
            seen[-1].setdefault(index, []).append(cycle)
        device.memory[OUT:0xA000] = 0
    return seen


def times(path):
    """The number of moments in an FST file."""
    data = [content for kind, content in blocks(path) if kind == VALUES_LZ4]
    return sum(struct.unpack(">Q", content[-8:])[0] for content in data)


@pytest.mark.parametrize("commands, batch", [((1, 1), 0), ((3, 3), 1), ((2, 4), 0), ((9, 10), 2), ((11, 13), 1)])
def test_window_of_commands(tmp_path, commands, batch):
    path = tmp_path / "wave.fst"
    options = {"trace": path, "trace_commands": commands, "trace_batch": batch, "memory_bytes": 0x18000}
    with Simulation(CONFIG, IDEAL, **options) as device:
        seen = run_batches(device, 3)
        end = device.cycles
    assert [sorted(writes) for writes in seen] == [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]] * 3
    assert seen[0][3][-1] > seen[0][7][0]
    ((_, header),) = [block for block in blocks(path) if block[0] == HEADER]
    first, last = (half // 2 for half in struct.unpack_from(">QQ", header))
    assert times(path) == 2 * (last + 1 - first)  # without a gap
    writes = [cycle for index, cycles in seen[batch].items() if commands[0] <= index <= commands[1] for cycle in cycles]
    assert first < min(writes) and max(writes) < last < max(writes) + 100  # momentum is written last and stays
    assert last < end - 1
    queued = 4  # commands handed out and not complete, at most, besides the update
    earlier = [seen[batch][i][-1] for i in range(1, commands[0] - queued) if i != 3]
    assert first > max(earlier, default=0)
