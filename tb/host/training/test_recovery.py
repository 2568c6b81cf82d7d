"""A memory that fails once in training: one line says where, and the run ends with the bits of an undisturbed one."""

import re

import numpy as np
import pytest
from adagp.host.devices.simulated import SimDevice
from adagp.host.training import session
from adagp.host.training.models import build_model
from adagp.host.training.network import Network
from adagp.host.training.run_folder import RunFolder
from adagp.sim import Fault
from adagp.sim.native_types import DECERR, SLVERR
from adagp.spec.commands import COMMAND_BYTES, Opcode
from adagp.spec.presets import preset

pytestmark = pytest.mark.timeout(900)  # the simulator may have to be built first

CONFIG = preset("tiny")
MODEL = """
from torch import nn

def net(shape, n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, n_classes))
"""
FIRST, LAYER = "1.Linear", "3.Linear"
OPTIONS = (
    "--preset", "tiny", "--batch", "4", "--train-images", "12", "--test-images", "4", "--epochs", "2",
    "--momentum", "0.8", "--checkpoint-every", "2",
)  # fmt: skip
STEP = 4
"""The batch in which the memory fails: the second of epoch 2, whose last checkpoint is from the end of epoch 1."""
BURSTS = 1 << 18
"""More than there are in a run."""


class Observed(SimDevice):
    """A device that notes its bursts; ``bursts`` once it is closed."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.simulation.log_bursts(BURSTS)

    def close(self):
        self.bursts = self.simulation.bursts.copy()
        super().close()


def faults(model, bursts):
    """Faults in batch STEP, when a part of the weights may have been written: (fault, error code, what fails)."""
    network = Network(build_model(model, (1, 8, 8), 10, 0), (1, 8, 8), 4, CONFIG)
    lines = [(line.command.opcode, line.name) for line in network.program]

    def touching(write, last):
        found = bursts[bursts["write"] == write]
        return found, np.flatnonzero(
            (found["addr"] <= last) & (last < found["addr"] + found["beats"] * CONFIG.beat_bytes)
        )

    def end(name):
        return network.tensors[name].address + network.tensors[name].n_bytes - 1

    written, places = touching(True, end(f"{LAYER}.weight"))
    update = places[STEP]

    def before(write, last):  # the last burst before that, of those that touch a byte
        found, places = touching(write, last)
        return int(places[found["accepted"][places] < written["accepted"][update]][-1])

    index = lines.index((Opcode.UPDATE, LAYER))
    command = network.program.address + index * COMMAND_BYTES + COMMAND_BYTES - 1
    first, forward = f"{FIRST}.weight", f"forward {FIRST}"
    return {
        "store of an update": (Fault(True, SLVERR, int(update)), "WRITE_FAULT", f"update {LAYER}"),
        "read of an update": (
            Fault(False, DECERR, before(False, end(f"{LAYER}.weight_gradient"))), "READ_FAULT", f"update {LAYER}"
        ),
        "fill": (Fault(False, SLVERR, before(False, end(first))), "READ_FAULT", forward),
        "store": (Fault(True, DECERR, before(True, end(f"{FIRST}.output"))), "WRITE_FAULT", forward),
        "fetch": (Fault(False, DECERR, before(False, command)), "READ_FAULT", f"update {LAYER}"),
    }  # fmt: skip


def test_goes_on_after_a_memory_fault(adagp, tmp_path, monkeypatch):
    model = f"{tmp_path / 'net.py'}:net"
    (tmp_path / "net.py").write_text(MODEL)
    devices = []

    def train(name, *injected):
        def open_device(_, config):
            devices.append(Observed(config, faults=injected))
            return devices[-1]

        monkeypatch.setattr(session, "open_device", open_device)
        return *adagp("train", "--model", model, "-o", tmp_path / name, *OPTIONS), RunFolder(tmp_path / name)

    code, _, _, undisturbed = train("undisturbed")
    assert code == 0 and 0 < len(devices[0].bursts) < BURSTS
    injected = faults(model, devices[0].bursts)
    for name, (fault, code_name, what) in injected.items():
        code, _, err, folder = train(name, fault)
        line = " ".join(err.splitlines()[-1].split())
        wanted = rf"failed: {code_name} at command \d+ {re.escape(what)} .*; the same command goes on from .*"
        assert code == 1 and re.fullmatch(wanted, line) and "Traceback" not in err
        assert folder.has_checkpoint() and not folder.finished
        code, _, err, folder = train(name)
        assert code == 0 and "going on from epoch 2, batch 0" in err
        assert folder.summary["weights_hash"] == undisturbed.summary["weights_hash"]
        assert [row["train_loss"] for row in folder.log] == [row["train_loss"] for row in undisturbed.log]
    assert len(devices) == 1 + 2 * len(injected) > 2
