"""Timelines as files: which batches, what is no timeline, runs that go on."""

import itertools

import numpy as np
import pytest
from adagp.host.training.network import Network
from adagp.host.training.run_folder import RunError, RunFolder
from adagp.host.training.settings import SettingsError
from adagp.host.training.timeline import Timeline, batches, check_window, read_trace, window
from adagp.host.training.trainer import Trainer
from adagp.sim.native_types import EVENT, UNITS
from adagp.spec.presets import preset
from command_line import SMALL
from torch import nn

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

CONFIG = preset("tiny")
CORE = ("fill", "array", "drain", "store")


def test_a_file_that_is_no_timeline(tmp_path):
    for text in ("{", "{}", '{"traceEvents": [{"ph": "X", "args": {}}]}'):
        (tmp_path / "timeline.json").write_text(text)
        with pytest.raises(RunError, match=r"timeline\.json isn't a timeline of this version"):
            read_trace(tmp_path / "timeline.json")


@pytest.mark.parametrize("text", ["", "3", "3:", ":3", "2:1", "0:6", "-1:2", "a:b"])
def test_windows_refused(text):
    with pytest.raises(SettingsError, match=f"timeline = '{text}'(: the run has batches 0 to 5| must be FIRST:LAST)"):
        window(text, 6)
    if text != "0:6":
        with pytest.raises(SettingsError, match="with FIRST <= LAST, numbers of batches"):
            check_window(text)


def test_windows():
    assert window("0:5", 6) == (0, 5) and window("3:3", 6) == (3, 3)


class Canned:
    """A device that makes one array slice per batch; cycles go on from start to start."""

    config = CONFIG

    def __init__(self, cycle):
        self.cycle, self.recording = cycle, False

    def record_events(self, on=True):
        self.recording = on
        self.events = np.zeros(0, EVENT)

    def run(self, count):
        if self.recording:
            self.events = np.array(
                [
                    (UNITS.index(unit), 0, 0, 0, n, self.cycle + 10 * n, self.cycle + 10 * n + 10, 10)
                    for n in range(count) for unit in ("array", "batch")
                ], EVENT,
            )  # fmt: skip
        self.cycle += 10 * count + 5


def test_a_timeline_that_goes_on(tmp_path):
    program = Network(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), (1, 2, 2), 2, CONFIG).program
    path = tmp_path / "timeline.json"

    def go(device, starts, first=None, save=True):
        timeline = Timeline(device, program, path, 2, 7)
        if first is not None:
            timeline.resume(first)
        for number, count in starts:
            timeline.begin(number, count)
            assert device.recording == (number <= 7 and number + count > 2)
            device.run(count)
            timeline.end()
            assert not device.recording
        if save:
            timeline.save()
        return [(s.batch, s.begin, s.end) for s in batches(timeline.slices)]

    device = Canned(1000)
    go(device, [(0, 1), (1, 1)])
    assert not path.exists()
    expected = [(2, 0, 10), (3, 15, 25), (4, 25, 35)]
    assert go(device, [(1, 2), (3, 2)]) == expected
    assert [(s.batch, s.begin, s.end) for s in batches(read_trace(path))] == expected
    assert go(Canned(77), [(4, 1)], first=4, save=False) == [(2, 0, 10), (3, 15, 25), (4, 25, 35)]
    expected = [*expected[:2], (4, 25, 35), (5, 40, 50), (6, 50, 60), (7, 60, 70)]
    assert go(Canned(7), [(4, 1), (5, 4), (9, 1)], first=4) == expected
    assert [(s.batch, s.begin, s.end) for s in batches(read_trace(path))] == expected


def test_train_is_interrupted_and_goes_on(adagp, tmp_path, monkeypatch):
    folder, checkpoint, calls = RunFolder(tmp_path / "run"), Trainer.checkpoint, []

    def interrupted(self):
        calls.append(None)
        if len(calls) == 3:
            self.timeline.save()  # the last thing before the checkpoint
            raise KeyboardInterrupt
        checkpoint(self)

    options = ("train", "-o", folder.path, *SMALL, "--checkpoint-every", "1", "--timeline", "1:4")
    monkeypatch.setattr(Trainer, "checkpoint", interrupted)
    assert adagp(*options)[0] == 130
    before = read_trace(folder.timeline)
    assert [s.batch for s in batches(before)] == [1, 2]
    monkeypatch.setattr(Trainer, "checkpoint", checkpoint)
    assert adagp(*options)[0] == 0
    found = read_trace(folder.timeline)
    assert [s.batch for s in batches(found)] == [1, 2, 3, 4]
    assert [s for s in found if s.batch == 1] == [s for s in before if s.batch == 1]
    for unit in CORE:
        track = [s for s in found if s.unit == unit]
        assert track and all(a.end <= b.begin for a, b in itertools.pairwise(track))
    folder.timeline.with_suffix(".png").unlink()
    code, out, _ = adagp("report", folder.path)
    assert code == 0 and "timeline.png" in out
    assert folder.timeline.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert adagp(*options[:-2])[0] == 0  # the finished run is replaced
    assert not folder.timeline.exists() and not folder.timeline.with_suffix(".png").exists()
