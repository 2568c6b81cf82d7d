"""A memory that fails once in training: one line says where, and the run ends with the bits of an undisturbed one."""

import re

import numpy as np
import pytest
from adagp.host import session
from adagp.host.models import build_model
from adagp.host.network import Network
from adagp.host.run_folder import RunFolder
from adagp.host.sim_device import SimDevice
from adagp.sim import Fault
from adagp.spec.commands import Opcode
from adagp.spec.presets import preset

pytestmark = pytest.mark.timeout(900)  # the simulator may have to be built first

CONFIG = preset("tiny")
MODEL = """
from torch import nn

def net(shape, n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, n_classes))
"""
LAYER = "3.Linear"
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
    """The index of an UPDATE and, by error code, faults that it meets when a part of the weights may be written."""
    network = Network(build_model(model, (1, 8, 8), 10, 0), (1, 8, 8), 4, CONFIG)
    lines = [(line.command.opcode, line.name) for line in network.program]

    def fault(write, name, nth):  # of the bursts that touch the tensor's last byte
        tensor = network.tensors[f"{LAYER}.{name}"]
        last = tensor.address + tensor.n_bytes - 1
        found = bursts[bursts["write"] == write]
        touching = (found["addr"] <= last) & (last < found["addr"] + found["beats"] * CONFIG.beat_bytes)
        return Fault(write, nth=int(np.flatnonzero(touching)[nth]))

    return lines.index((Opcode.UPDATE, LAYER)), {
        "WRITE_FAULT": fault(True, "weight", STEP),
        "READ_FAULT": fault(False, "weight_gradient", STEP + 1),  # calibration in the first batch reads it twice
    }


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
    index, injected = faults(model, devices[0].bursts)
    for name, fault in injected.items():
        code, _, err, folder = train(name, fault)
        line = err.splitlines()[-1]
        wanted = rf"failed: {name} at command {index} update {re.escape(LAYER)} .*; the same command goes on from .*"
        assert code == 1 and re.fullmatch(wanted, line) and "Traceback" not in err
        assert folder.has_checkpoint() and not folder.finished
        code, _, err, folder = train(name)
        assert code == 0 and "going on from epoch 2, batch 0" in err
        assert folder.summary["weights_hash"] == undisturbed.summary["weights_hash"]
        assert [row["train_loss"] for row in folder.log] == [row["train_loss"] for row in undisturbed.log]
    assert len(devices) == 1 + 2 * 2
