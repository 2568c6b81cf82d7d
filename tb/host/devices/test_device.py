"""Devices with registers: what they write and read, refusals, failed programs."""

import subprocess
import sys
from dataclasses import replace

import pytest
from adagp.host.devices.device import DeviceError, RegisterDevice
from adagp.host.devices.golden import GoldenDevice
from adagp.host.program import Program, header
from adagp.spec.commands import Command, Opcode
from adagp.spec.config import VERSION
from adagp.spec.errors import ErrorCode
from adagp.spec.presets import preset
from adagp.spec.registers import AS_SCHEDULED, COUNTERS, DEVICE_ID, Control, Status
from adagp.spec.schedule import ENTRIES, Entry, Schedule, State

TINY = preset("tiny")
LOW = replace(TINY, variant="low")
MEMORY = 1 << 20


class Registers(RegisterDevice):
    """Registers that remember, and that behave as far as the tests need."""

    def __init__(self, config=TINY, **values):
        self.config = config
        self.values = {"ID": DEVICE_ID, "VERSION": VERSION, "CONFIG_HASH": TINY.config_hash, **values}
        self.written, self.exponent_table, self.waits = [], {}, 0
        self.connect()

    def read_register(self, name):
        if name == "EXPONENT":
            return self.exponent_table.get(self.values["TENSOR"], 0)
        if name in ("COUNTER_LOW", "COUNTER_HIGH"):
            return self.values["COUNTER"] + (0x100 if name == "COUNTER_HIGH" else 0)
        return self.values[name]

    def write_register(self, name, value):
        self.written.append((name, int(value)))
        self.values[name] = value
        if name == "EXPONENT":
            self.exponent_table[self.values["TENSOR"]] = value

    def wait_for_interrupt(self):
        self.waits += 1


def test_a_device_of_another_configuration_is_refused():
    with pytest.raises(DeviceError, match=f"CONFIG_HASH reads 00000007, for tiny it must be {TINY.config_hash:08x}"):
        Registers(CONFIG_HASH=7)
    with pytest.raises(DeviceError, match="ID reads"):
        Registers(ID=0)


@pytest.mark.parametrize("pair", ((-128, None), (127, None), (-1, -128), (5, 127), (0, 0), (-128, -1)))
def test_exponents_through_registers(pair):
    device = Registers()
    device.set_exponents(9, *pair)
    device.set_exponents(8, 1, 1)
    assert device.exponents(9) == pair


@pytest.mark.parametrize("make", (lambda: Registers(LOW), lambda: GoldenDevice(LOW, MEMORY)))
def test_scales_powers_and_positions_are_kept(make):
    device = make()
    device.set_exponents(4, 7, -3)
    for tensor, pair in ((4, (-128, 255)), (5, (127, 0)), (6, (-1, 128))):
        device.set_scale(tensor, *pair)
        assert device.scale(tensor) == pair
    assert device.exponents(4) == (-128, None)
    device.set_exponents(4, 5)
    assert device.exponents(4) == (5, None)
    device.set_adam_powers(0xFFFF_FFFF, 12)
    assert device.adam_powers() == (0xFFFF_FFFF, 12)
    for state, is_open in ((State(3, 2, True, 4), False), (State(), True), (State(70000, 1 << 31, False, 65535), True)):
        device.set_position(state, is_open)
        assert device.position() == (state, is_open)


def test_a_schedule_through_registers():
    device = Registers(LOW)
    device.set_schedule(Schedule(3, 77, (Entry(1, 2, 3), Entry(65535, 0, 65535))), (0x8000, -16))
    assert ("ENTRY", 1) in device.written and ("ENTRY_LENGTHS", 2 | 3 << 16) in device.written
    settings = dict(device.written)
    expected = {
        "WARMUP_EPOCHS": 3, "EPOCH_BATCHES": 77, "ENTRIES": 2, "ENTRY": 1, "ENTRY_EPOCHS": 65535,
        "ENTRY_LENGTHS": 65535 << 16, "GATE_THRESHOLD": 0x80F0_8000,
    }  # fmt: skip
    assert {name: settings[name] for name in expected} == expected
    device.set_schedule(Schedule(0, 1))
    assert dict(device.written)["GATE_THRESHOLD"] == 0
    device.start(Program([], 0x80), None)
    assert dict(device.written)["PHASE"] == AS_SCHEDULED


@pytest.mark.parametrize(("what", "values"), [
    ("at most 8 entries, not 9", (0, 1, (Entry(1, 1, 1),) * (ENTRIES + 1))), ("not 65536", (65536, 1)),
    ("not -1", (0, 1, (Entry(1, -1, 1),))), ("not 65537", (0, 1, (Entry(1, 1, 65537),))),
    ("not 4294967296", (0, 1 << 32)),
])  # fmt: skip
def test_schedules_beyond_the_registers_are_refused(what, values):
    with pytest.raises(ValueError, match=what):
        Schedule(*values)


def test_start_regions_ring_and_counters_through_registers():
    device = Registers(STATUS=Status.BUSY | Status.HOST)
    device.set_regions([(64, 128), (256, 512)])
    device.set_ring(0x1000, 64, 3, 2)
    device.set_hyper(4, 0xFFFF, -3)
    device.start(Program([], 0x80), 1, batches=7, calibrate=True)
    settings = dict(device.written)
    assert [settings[f"REGION{i}_END"] for i in range(4)] == [128, 512, 0, 0]
    assert [settings[f"RING_{n}"] for n in ("BASE", "STRIDE", "COUNT", "INDEX")] == [0x1000, 64, 3, 2]
    assert settings["HYPER"] == 4 and settings["HYPER_VALUE"] == 0xFDFFFF
    assert [settings[n] for n in ("PROGRAM", "PHASE", "BATCHES", "CALIBRATE")] == [0x80, 1, 7, 1]
    assert device.written[-1] == ("CONTROL", Control.START)
    assert device.wait() == Status.BUSY | Status.HOST and device.waits == 1
    counters = device.counters(2)
    assert list(counters) == [name for name, _ in COUNTERS]
    assert counters["commands"] == (0x100 + 32 + 11) << 32 | 32 + 11


@pytest.mark.parametrize("make", (Registers, lambda: GoldenDevice(TINY, MEMORY)))
@pytest.mark.parametrize("regions", ([(1 << 32, 1 << 32)], [(64, 1 << 32)], [(128, 64)], [(-8, 64)], [(0, 8)] * 5))
def test_regions_beyond_the_registers_are_refused(make, regions):
    with pytest.raises(ValueError, match="write region"):
        make().set_regions(regions)


def test_a_failed_program_is_reported_with_its_command_and_cleared():
    program = Program()
    program.append(header(TINY))
    program.append(Command(Opcode.FORWARD, {"n": 3}), "conv7")
    device = Registers(STATUS=Status.ERROR, ERROR=int(ErrorCode.A_OVERFLOW), ERROR_INDEX=1)
    device.start(program, 0)
    with pytest.raises(DeviceError, match=r"A_OVERFLOW at command 1  forward +conv7") as caught:
        device.wait()
    assert (caught.value.code, caught.value.index) == (ErrorCode.A_OVERFLOW, 1)
    assert device.written[-1] == ("CONTROL", Control.CLEAR)


def test_the_simulated_device_needs_neither_torch_nor_the_golden_model():
    code = "import sys, adagp.host.devices.simulated; print([m for m in sys.modules if m == 'torch' or 'golden' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
