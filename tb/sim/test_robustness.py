"""Samples of the robustness campaigns on faults and resets, and that they see what is wrong."""

import numpy as np
import pytest
from adagp.host.sim_device import SimDevice
from adagp.sim import Simulation
from adagp.spec.registers import register
from robustness import conditions
from robustness.campaign import Campaign
from robustness.faults import FAULTS, PREDICTED_FAULTS
from robustness.observe import Run
from robustness.resets import PREDICTED_RESETS, RESETS

SEED = 2
REFUSED_WRITE = 9
"""A case of the faults: one write of a compute command is refused."""


@pytest.mark.parametrize(
    ("kind", "count"),
    [(FAULTS, 120), (RESETS, 30), (PREDICTED_FAULTS, 30), (PREDICTED_RESETS, 60)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_sample(kind, count, tmp_path, monkeypatch):
    print(f"seed {SEED}")
    if len(kind.presets) > 1:
        monkeypatch.setattr(conditions, "UNGATED", 0)  # three more simulators
    records = Campaign(kind, SEED, tmp_path).run(count, quiet=True)
    failures = [(record.index, record.outcome) for record in records if record.failed]
    assert not failures
    assert len(records) == count and len({record.outcome for record in records}) > 4


def _wrong_index(monkeypatch):
    read = SimDevice.read_register
    monkeypatch.setattr(SimDevice, "read_register", lambda self, name: read(self, name) + (name == "ERROR_INDEX"))


def _stray_write(monkeypatch):
    def close(self):
        self.device.simulation.memory[-1] ^= 1
        original(self)

    original = Run.close
    monkeypatch.setattr(Run, "close", close)


def _late_burst(monkeypatch):
    def close(self):
        original(self)
        self.bursts["offered"][np.flatnonzero(self.bursts["response"])] = self.stopped

    original = Run.close
    monkeypatch.setattr(Run, "close", close)


def _cut_short(monkeypatch):
    def close(self):
        original(self)
        self.bursts["last"][np.flatnonzero(self.owner == 0)[-1]] = 0

    original = Run.close
    monkeypatch.setattr(Run, "close", close)


def _register_kept(monkeypatch):
    reset = Simulation.reset

    def keep(self, cycles):
        value = self.read_register(register("PROGRAM").offset)
        reset(self, cycles)
        self.write_register(register("PROGRAM").offset, value | 128)

    monkeypatch.setattr(Simulation, "reset", keep)


@pytest.mark.parametrize(
    ("kind", "misbehave", "reason"),
    [
        (FAULTS, _wrong_index, "reported as .* at"), (FAULTS, _stray_write, "memory isn't what was written"),
        (FAULTS, _late_burst, "goes on to write .* after its error"), (FAULTS, _cut_short, "isn't complete"),
        (RESETS, _stray_write, "memory isn't what was written"),
        (RESETS, _register_kept, "registers after reset"),
        (PREDICTED_FAULTS, _wrong_index, "reported as .* at"),
        (PREDICTED_RESETS, _register_kept, "registers after reset"),
    ],
)  # fmt: skip
def test_misbehaviour_is_seen(kind, misbehave, reason, tmp_path, monkeypatch):
    misbehave(monkeypatch)
    monkeypatch.setattr(conditions, "UNGATED", 0)  # a simulator less
    with pytest.raises(AssertionError, match=reason):
        Campaign(kind, SEED, tmp_path).replay(REFUSED_WRITE)
