"""Devices and networks on them: register logic, errors, training against torch in float64."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from adagp.host.compiler.quantise import constant, exponent_for, join_master, quantise, split_master
from adagp.host.devices.device import DeviceError, RegisterDevice
from adagp.host.devices.golden import GoldenDevice
from adagp.host.program import Program, header
from adagp.host.training.loss import softmax_cross_entropy
from adagp.host.training.network import Network
from adagp.spec.commands import Command, Opcode
from adagp.spec.config import VERSION
from adagp.spec.errors import ErrorCode
from adagp.spec.presets import preset
from adagp.spec.registers import AS_SCHEDULED, COUNTERS, DEVICE_ID, Control, Status
from adagp.spec.schedule import ENTRIES, Entry, Schedule, State
from torch import nn

TINY = preset("tiny")
LOW = replace(TINY, variant="low")
MEMORY = 1 << 20
SEED = 3
EVALUATION = 3


# --- devices with registers -------------------------------------------------------------------


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


# --- numbers ----------------------------------------------------------------------------------


def test_quantisation_by_hand():
    assert exponent_for(1.0, 16) == -14 and exponent_for(0.99, 16) == -15 and exponent_for(0.0, 16) == 0
    assert exponent_for(0.99, 16, headroom=1) == -14 and exponent_for(1e-300, 16) == -128
    assert quantise(np.array([0.5, 1.5, 2.5, -2.5, 1e9, -1e9]), 0, 16).tolist() == [0, 2, 2, -2, 32767, -32767]
    assert quantise(np.array([300.0]), 0, 8).tolist() == [127]
    assert constant(0.25) == (1, -2) and constant(0) == (0, 0) and constant(3.0) == (3, 0)
    mantissa, exponent = constant(1 / 9)
    assert mantissa < 1 << 16 and mantissa * 2.0**exponent == pytest.approx(1 / 9, rel=2**-17)
    for refused in (-1.0, float("nan"), float("inf"), 1e60):
        with pytest.raises(ValueError):
            constant(refused)


def test_master_weights_split_and_join():
    print(f"seed {SEED}")
    weights = np.random.default_rng(SEED).normal(size=1000)
    high, low = split_master(weights, -13, 16)
    joined = join_master(high, low, -13)
    assert np.abs(joined - weights).max() <= 2.0 ** (-13 - 17)
    assert np.abs(np.ldexp(high.astype(float), -13) - weights).max() <= 2.0**-14
    limit, rest = split_master(np.array([100.0, -100.0]), -13, 16)
    assert limit.tolist() == [32767, -32767] and rest.tolist() == [32767, -32767]


# --- networks ---------------------------------------------------------------------------------

NETWORKS = {
    "plain": ((2, 8, 8), lambda: nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(5, 6, (3, 2), padding=(1, 0), bias=False),
        nn.AvgPool2d(3, 2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 3),
    )),
    "strided": ((3, 9, 7), lambda: nn.Sequential(
        nn.ReLU(), nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.MaxPool2d(3, 2, padding=1), nn.ReLU(),
        nn.Conv2d(6, 3, (3, 2)), nn.Flatten(),
    )),
    "features": ((7,), lambda: nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 3), nn.ReLU())),
}  # fmt: skip


def setting(name, batch=16):
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    shape, build = NETWORKS[name]
    module = build().double()
    images = np.random.default_rng(SEED).uniform(-1, 1, (batch, *shape))
    return module, Network(module, shape, batch, TINY), images, np.arange(batch) % 3


def train_batch(network, device, images, labels, calibrate=False):
    network.write_input(device, images)
    network.start(device, 0, calibrate=calibrate)
    assert device.wait() & Status.HOST
    logits = network.read_logits(device)
    loss, gradient = softmax_cross_entropy(logits, labels)
    network.write_loss_gradient(device, gradient)
    device.resume()
    assert device.wait() & Status.DONE
    return loss, logits


@pytest.mark.parametrize("name", NETWORKS)
def test_training_on_the_golden_model_follows_torch(name):
    module, network, images, labels = setting(name)
    device = GoldenDevice(TINY, MEMORY)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 0.05, 0.9, 0.01)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    losses = []
    for step in range(8):
        loss, logits = train_batch(network, device, images, labels, calibrate=step == 0)
        expected = module(torch.from_numpy(images))
        np.testing.assert_allclose(logits, expected.detach().numpy(), atol=2e-4)
        optimiser.zero_grad()
        nn.functional.cross_entropy(expected, torch.from_numpy(labels)).backward()
        optimiser.step()
        losses.append(loss)
    state = network.state_dict(device)
    assert state.keys() == module.state_dict().keys()
    for key, value in module.state_dict().items():
        assert state[key].shape == value.shape
        np.testing.assert_allclose(state[key], value, atol=2e-4)
    assert losses[-1] < losses[0]
    counters = device.counters(0)
    assert counters["saturations"] == 0 < counters["macs"]
    assert counters["commands"] == 8 * len(network.program)


def test_weights_survive_load_and_state_dict():
    module, network, *_ = setting("plain")
    device = GoldenDevice(TINY, MEMORY)
    network.load_state(device, module.state_dict())
    for key, value in network.state_dict(device).items():
        np.testing.assert_allclose(value, module.state_dict()[key], atol=2.0**-30)


def test_a_snapshot_goes_on_with_the_same_bits():
    module, network, images, labels = setting("plain")
    one, other = GoldenDevice(TINY, MEMORY), GoldenDevice(TINY, MEMORY)
    network.load_state(one, module.state_dict())
    network.set_hyper(one, 0.1, 0.9, 0)
    train_batch(network, one, images, labels, calibrate=True)
    network.restore(other, network.snapshot(one))
    network.set_hyper(other, 0.1, 0.9, 0)
    before = network.weights_hash(one)
    assert before == network.weights_hash(other)
    for device in (one, other):
        for _ in range(3):
            train_batch(network, device, images, labels)
    assert network.weights_hash(one) == network.weights_hash(other) != before


def test_evaluation_changes_neither_weights_nor_exponents():
    module, network, images, labels = setting("plain")
    device = GoldenDevice(TINY, MEMORY)
    network.load_state(device, module.state_dict())
    network.set_hyper(device, 0.1, 0.9, 0)
    train_batch(network, device, images, labels, calibrate=True)
    before = network.snapshot(device)
    network.write_input(device, images / 100)
    network.start(device, EVALUATION)
    device.wait()
    expected = network.read_logits(device)
    device.resume()
    assert device.wait() & Status.DONE
    after = network.snapshot(device)
    assert all(np.array_equal(before[name], after[name]) for name in before) and len(before) > 0
    assert np.ptp(expected) > 0


def test_errors_name_the_layer():
    module, network, images, _ = setting("plain")
    device = GoldenDevice(TINY, MEMORY)
    network.load_state(device, module.state_dict())
    device.set_regions([])
    network.write_input(device, images)
    network.start(device, 0)
    with pytest.raises(DeviceError, match=r"WRITE_REGION at command 1  forward +0\.Conv2d"):
        device.wait()


def test_refused_inputs_and_devices():
    _, network, images, _ = setting("plain")
    device = GoldenDevice(TINY, MEMORY)
    with pytest.raises(ValueError, match=r"must have the shape \(16, 2, 8, 8\), not \(5, 2, 8, 8\)"):
        network.write_input(device, images[:5])
    with pytest.raises(ValueError, match="exceeds input_max = 1"):
        network.write_input(device, images * 3)
    with pytest.raises(ValueError, match="no number 1"):
        network.write_input(device, images, entry=1)
    with pytest.raises(DeviceError, match="bytes of memory, the device has 1024"):
        network.install(GoldenDevice(TINY, 1024))
    with pytest.raises(DeviceError, match="compiled for tiny, the device is paper"):
        network.install(GoldenDevice(preset("paper"), MEMORY))
