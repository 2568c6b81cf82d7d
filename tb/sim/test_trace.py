"""Waveforms: what the FST file says about its times and names."""

import struct

import pytest
from adagp.sim import IDEAL
from adagp.spec.presets import preset
from copier import READ, simulation, start

HEADER, HIERARCHY_LZ4 = 0, 6


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
        start(device, 12, 16, phase=READ)  # bursts of 128 bytes, as commands are fetched
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


@pytest.mark.parametrize("commands, length", [((1, 1), 4), ((2, 4), 6)])
def test_window_of_commands(tmp_path, commands, length):
    # The copier asks for a burst a cycle: a command's fetch takes one.
    _, first, last, end = traced(tmp_path, trace_commands=commands)
    assert last - first + 1 == length
    assert last < end - 100
