"""The whole accelerator: what a host did is repeated over AXI with pauses everywhere, against the golden model."""

import cocotb
import numpy as np
import pytest
from adagp.gen.generated import generated
from adagp.rtl.control.supervisor import RESET_CYCLES
from adagp.rtl.top import Top
from adagp.spec.commands import Command, Opcode
from adagp.spec.config import VERSION
from adagp.spec.errors import ErrorCode
from adagp.spec.presets import preset
from adagp.spec.registers import COUNTERS, DEVICE_ID, Status, register
from axi import Registers, axi_ram, axil_master
from harness import Bench, parameters
from runner import SIMULATORS, run

TINY = preset("tiny")
SEED = 5
STALL = 0.3
MEMORY_BYTES = 1 << 16
COUNTER_NAMES = [name for name, _ in COUNTERS]


def record(recorder):
    """A calibrating training batch, a program for another accelerator, CLEAR, and one more batch."""
    import torch
    from adagp.host.devices.device import DeviceError
    from adagp.host.program import Line, Program
    from adagp.host.training.loss import softmax_cross_entropy
    from adagp.host.training.network import Network
    from torch import nn

    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    module = nn.Sequential(
        nn.Conv2d(2, 5, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(20, 3)
    )
    network = Network(module, (2, 8, 8), 3, recorder.config)
    assert network.compiled.plan.n_bytes <= recorder.memory_size
    network.load_state(recorder, module.state_dict())
    network.set_hyper(recorder, 0.05, 0.9, 5e-4)

    def batch(calibrate):
        network.write_input(recorder, rng.random((3, 2, 8, 8)))
        network.start(recorder, 1, calibrate=calibrate)
        assert recorder.wait() & Status.HOST
        logits_NK = network.read_logits(recorder)
        labels_N = rng.integers(0, logits_NK.shape[1], len(logits_NK))
        network.write_loss_gradient(recorder, softmax_cross_entropy(logits_NK, labels_N)[1])
        recorder.resume()
        assert recorder.wait() & Status.DONE

    batch(calibrate=True)
    lines = network.program.lines
    other = Command(Opcode.HEADER, {**lines[0].command.fields, "config_hash": recorder.config.config_hash ^ 1})
    wrong = Program([Line(other), *lines[1:]], network.program.address)
    recorder.write(wrong.address, wrong.words())
    recorder.start(wrong, 1)
    with pytest.raises(DeviceError) as error:
        recorder.wait()
    assert error.value.code == ErrorCode.CONFIG_MISMATCH
    recorder.write(network.program.address, network.program.words())
    batch(calibrate=False)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("simulator", SIMULATORS)
def test_training_batches(simulator, tmp_path):
    from recorder import Recorder

    recorder = Recorder(TINY, MEMORY_BYTES)
    record(recorder)
    recorder.save(tmp_path / "events.npy")
    path = str(tmp_path / "events.npy")
    run("test_top", generated(TINY), TINY, tmp_path, simulator=simulator, seed=SEED, testcase="repeat", events=path)


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def repeat(dut):
    """Do what was recorded; at each wait compare status, error, memory, exponents and counters."""
    config, given = parameters()
    bench = Bench(dut, Top(config))
    await bench.start()
    registers = Registers(axil_master(bench, "s_axil", STALL))
    ram = axi_ram(bench, "m_axi", MEMORY_BYTES, STALL)
    for name, value in {"ID": DEVICE_ID, "VERSION": VERSION, "CONFIG_HASH": config.config_hash}.items():
        assert await registers.read(name) == value
    statuses = [await registers.read("STATUS") for _ in range(2 * RESET_CYCLES)]
    assert statuses[-1] == 0 and set(statuses) <= {0, Status.BUSY}  # the reset goes through the machine
    await registers.write("IRQ_ENABLE", 1)
    waits = 0
    for kind, *event in np.load(given["events"], allow_pickle=True):
        if kind == "memory":
            ram.write(*event)
        elif kind == "register":
            await registers.write(*event)
        else:
            while not bench.get("irq"):
                await bench.edge
            await compare(registers, ram, *event)
            waits += 1
    assert waits == 5


async def compare(registers, ram, expected):
    """Assert that the accelerator and its memory are as the golden model's."""
    assert Status(await registers.read("STATUS")) == expected["status"]
    assert (await registers.read("ERROR"), await registers.read("ERROR_INDEX")) == expected["error"]
    memory = np.frombuffer(ram.read(0, len(expected["memory"])), np.uint8)
    assert not np.flatnonzero(memory != np.frombuffer(expected["memory"], np.uint8)).tolist()
    for tensor, (current, following) in expected["exponents"].items():
        await registers.write("TENSOR", tensor)
        found = register("EXPONENT").unpack(await registers.read("EXPONENT"))
        assert (found["cur"], found["has_next"]) == (current, following is not None)
        assert following is None or found["next"] == following
    for name, value in expected["counters"].items():
        number = {"phase": expected["phase"], "place": COUNTER_NAMES.index(name)}
        await registers.write("COUNTER", register("COUNTER").pack(**number))
        low = await registers.read("COUNTER_LOW")
        assert await registers.read("COUNTER_HIGH") << 32 | low == value, name
        assert value > 0 or name == "saturations"
