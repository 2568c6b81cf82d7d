"""Register accesses and round trips of the host in each batch, over the simulated serial line of a board."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from adagp.host.devices import board as board_device
from adagp.host.devices.board import BoardDevice, Port
from adagp.host.training.data import Dataset
from adagp.host.training.network import Network
from adagp.host.training.settings import TrainSettings
from adagp.host.training.trainer import Trainer
from adagp.sim.board import Board
from adagp.spec.presets import preset
from adagp.spec.registers import COUNTERS
from simulated_line import SimulatedLine
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

TINY = preset("tiny")
BATCH, STEPS, CLASSES = 4, 6, 3
HYPER, START, RESUME, LOGITS, LOSS, STATUS = 3 * 2, 5, 1, 1 + 1, 2, 2
"""Accesses for SGD's three parameters, a start, a RESUME, the exponents of logits and loss, STATUS after two waits."""
POSITION, RING = 4, 1
"""Accesses for the place in the schedule with the gate, and for the ring's first entry."""
MEMORY = 3
"""Transfers: input, logits and gradient of the loss."""


class Counted(BoardDevice):
    """A board that counts what it is asked."""

    def __init__(self, *arguments):
        self.asked = Counter()
        super().__init__(*arguments)

    def read_register(self, name):
        self.asked["reads"] += 1
        return super().read_register(name)

    def write_register(self, name, value):
        self.asked["writes"] += 1
        super().write_register(name, value)

    def wait_for_interrupt(self):
        before = self.link.statistics.round_trips
        super().wait_for_interrupt()
        self.asked["waits"] += self.link.statistics.round_trips - before

    @property
    def so_far(self):
        return self.asked + Counter(round_trips=self.link.statistics.round_trips)


def accesses(found):
    return found["reads"] + found["writes"]


def data():
    rng = np.random.default_rng(4)
    x, y = rng.uniform(-1, 1, (BATCH * STEPS, 1, 3, 3)), rng.integers(0, CLASSES, BATCH * STEPS)
    return Dataset("random", x, y, x[:BATCH], y[:BATCH], CLASSES)


def traffic(monkeypatch, variant, **changes):
    """Requests of each start in two epochs, but for the first of an epoch, which comes after evaluation; progress."""
    board = Board(replace(TINY, variant=variant), memory_bytes=1 << 20)
    monkeypatch.setattr(board_device, "Line", lambda _: SimulatedLine(board))
    device = Counted(board.config, Port("simulated", TINY.clock_hz // 4, 0.002))
    chosen = TrainSettings(preset="tiny", variant=variant, batch=BATCH, epochs=2, **changes)
    source, ring = (chosen.gradient_source, 3) if chosen.predicts else (None, 1)
    module = nn.Sequential(nn.Flatten(), nn.Linear(9, CLASSES))
    network = Network(module, (1, 3, 3), BATCH, board.config, ring_entries=ring, source=source)
    network.load_state(device, module.state_dict())
    trainer = Trainer(chosen, network, device, data())
    marks = []
    trainer.on_batch = lambda progress, loss: marks.append((progress.epoch, device.so_far))
    progress = trainer.run()
    device.close()
    board.close()
    within = [after - before for (epoch, before), (same, after) in pairwise(marks) if same == epoch]
    for found in within:
        print(f"{variant}: {accesses(found)} register accesses, {found['round_trips']} round trips: {dict(found)}")
    return within, progress


def test_a_batch_of_backpropagation(monkeypatch):
    """No counter and no ring: 18 accesses, of which 3 are answered."""
    within, progress = traffic(monkeypatch, "baseline")
    assert len(within) == 2 * (STEPS - 1)
    for found in within:
        assert accesses(found) == HYPER + START + RESUME + LOGITS + LOSS + STATUS == 18
        assert found["reads"] == STATUS + 1 == 3
        assert found["round_trips"] - found["waits"] == found["reads"] + MEMORY and found["waits"] >= 2
    assert progress.counters["cycles"] > 0 and set(progress.counters) == {name for name, _ in COUNTERS}


def test_a_run_of_predicted_batches(monkeypatch):
    """Two GP batches and the BP batch that follows: three inputs, one start, and the place in the schedule."""
    within, progress = traffic(monkeypatch, "max", phases="2:1")
    assert len(within) == STEPS and progress.batches == [6, 2, 4]
    for found in within[STEPS - 1 :]:
        assert accesses(found) == HYPER + START + RESUME + LOGITS + LOSS + STATUS + POSITION + RING == 23
        assert found["reads"] == STATUS + 1 + POSITION == 7
        assert found["round_trips"] - found["waits"] == found["reads"] + MEMORY + 2
