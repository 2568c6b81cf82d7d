"""Samples of the robustness campaigns on faults and resets, and that they see what is wrong."""

import numpy as np
import pytest
from adagp.host.devices.simulated import SimDevice
from adagp.rtl.lib.skid import Skid
from adagp.sim import Simulation
from adagp.spec.commands import Opcode
from adagp.spec.registers import register
from robustness import conditions, faults
from robustness.campaign import Campaign, configured
from robustness.faults import FAULTS, PREDICTED_FAULTS, SEEN_CYCLES, STOP_CYCLES
from robustness.observe import Run
from robustness.resets import PREDICTED_RESETS, RESETS
from robustness.workloads import workload

SEED = 2
REFUSED_WRITE = 9
"""A case of the faults: one write of a compute command is refused."""
MANY_WRITES = 49
"""One of those with predictions: a write of a command with 25 is refused, without predictor's memory on chip."""
WRITES = 3
"""Bursts of a command behind that one."""


@pytest.mark.parametrize(
    ("kind", "count"),
    [(FAULTS, 60), (RESETS, 30), (PREDICTED_FAULTS, 30), (PREDICTED_RESETS, 30)],
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


def _goes_on(monkeypatch):
    """One burst more than can be on its way is offered when all is over, of the command that has failed."""

    def close(self):
        original(self)
        [failed] = np.flatnonzero(self.bursts["failed"])
        mine = np.flatnonzero((self.owner == self.owner[failed]) & (self.bursts["write"] == 1))
        self.bursts["offered"][mine[-Skid.ITEMS - 1 :]] = self.stopped

    original = Run.close
    monkeypatch.setattr(Run, "close", close)


def _of_another(count):
    """The last bursts are of a command of ``WRITES`` behind the one that has failed, when no more is on its way."""

    def misbehave(monkeypatch):
        def close(self):
            original(self)
            [failed] = np.flatnonzero(self.bursts["failed"])
            first = self.owner[failed]
            mine = np.flatnonzero((self.owner == first) & (self.bursts["write"] == 1))
            works = self.load.works
            behind = [n for n, work in enumerate(works) if work.place > works[first].place and n not in self.owner]
            self.owner[mine[-count:]] = next(n for n in behind if len(works[n].writes) == WRITES)
            self.bursts["offered"][mine[-Skid.ITEMS - count :]] = self.stopped

        original = Run.close
        monkeypatch.setattr(Run, "close", close)

    return misbehave


def _cut_short(monkeypatch):
    def close(self):
        original(self)
        self.bursts["last"][np.flatnonzero(self.owner == 0)[-1]] = 0

    original = Run.close
    monkeypatch.setattr(Run, "close", close)


def _late_stop(monkeypatch):
    def close(self):
        original(self)
        self.stopped += 2 * STOP_CYCLES

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
    ("kind", "case", "misbehave", "reason"),
    [
        (FAULTS, REFUSED_WRITE, _wrong_index, "reported as .* at"),
        (FAULTS, REFUSED_WRITE, _stray_write, "memory isn't what was written"),
        (FAULTS, REFUSED_WRITE, _cut_short, "isn't complete"),
        (FAULTS, REFUSED_WRITE, _late_stop, "stopped .* cycles later"),
        (RESETS, REFUSED_WRITE, _stray_write, "memory isn't what was written"),
        (RESETS, REFUSED_WRITE, _register_kept, "registers after reset"),
        (PREDICTED_FAULTS, REFUSED_WRITE, _wrong_index, "reported as .* at"),
        (PREDICTED_FAULTS, MANY_WRITES, _goes_on, "goes on to write .* after its error"),
        (PREDICTED_FAULTS, MANY_WRITES, _of_another(WRITES), "begins to write .* after the error"),
        (PREDICTED_FAULTS, MANY_WRITES, _of_another(WRITES - 1), "is written by half"),
        (PREDICTED_RESETS, REFUSED_WRITE, _register_kept, "registers after reset"),
    ],
)  # fmt: skip
def test_misbehaviour_is_seen(kind, case, misbehave, reason, tmp_path, monkeypatch):
    misbehave(monkeypatch)
    monkeypatch.setattr(conditions, "UNGATED", 0)  # a simulator less
    with pytest.raises(AssertionError, match=reason):
        Campaign(kind, SEED, tmp_path).replay(case)


@pytest.mark.parametrize(
    ("name", "excused"),
    [
        ("tiny low", [(0, 2), (1, 2)]), ("tiny efficient", [(0, 5), (1, 2)]), ("tiny max", [(0, 5), (1, 2), (2, 2)]),
        ("wide max", [(2, 9), (0, 2), (1, 2)]),
    ],
)  # fmt: skip
def test_bursts_on_their_way(name, excused):
    """As many as there are places between a writer and the port: three of them, behind the arbiter, for all writers."""
    n, cycle = 20, 100
    bursts = np.zeros(n * len(excused), [("write", int), ("id", int), ("offered", int)])
    bursts["write"], bursts["id"] = 1, np.repeat([client for client, _ in excused], n)
    bursts["offered"] = cycle + SEEN_CYCLES + np.arange(len(bursts))
    waited = faults._waited(bursts, cycle, configured(name))
    assert [(client, int(waited[bursts["id"] == client].sum())) for client, _ in excused] == excused
    for client, number in excused:
        assert waited[np.flatnonzero(bursts["id"] == client)[:number]].all()
    early = bursts.copy()
    early["offered"] -= SEEN_CYCLES  # those before it are seen need no excuse, and take no place
    assert faults._waited(early, cycle, configured(name)).sum() == waited.sum()
    early["write"] = 0
    assert not faults._waited(early, cycle, configured(name)).any()


def test_beats_wait_while_pads_are_cleared():
    """A word of four elements a cycle: 3 images of 7 x 6 with their padding and 2 channels; 3 of 1 x 3 with 4, for A
    and for B."""
    clears = {work.place: (work.command.opcode, work.clears) for work in workload("pools").works}
    assert clears[0, 1] == (Opcode.FORWARD, 3 * 7 * 6 * 2 // 4)
    assert clears[0, 14] == (Opcode.MAXPOOL_BACKWARD, 2 * (3 * 3 * 4 // 4))
    assert clears[0, 3] == (Opcode.FORWARD, 0) and clears[0, 10] == (Opcode.UPDATE, 0)
