"""Counters that are read once an epoch add up to those read after each batch, and go on from a checkpoint."""

import pytest
import torch
from adagp.host.training.run_folder import RunFolder
from adagp.host.training.session import open_session
from adagp.host.training.settings import TrainSettings
from adagp.host.training.trainer import Trainer
from adagp.sim.native_types import IDEAL
from adagp.spec.registers import COUNTERS

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

SETTINGS = {"preset": "tiny", "model": "mlp", "batch": 4, "epochs": 2, "train_images": 20, "test_images": 4}
VARIANTS = {"baseline": {}, "max": {"variant": "max", "phases": "1:1"}}


class Stopped(Exception):
    pass


def log(folder, variant, on_batch=None, device="sim"):
    """The log without seconds of a run that goes on from its last checkpoint, if there is one: one every two batches.

    The memory is one without refresh, so that cycles don't depend on when a program is started.
    """
    chosen = TrainSettings(**SETTINGS, **VARIANTS[variant])
    torch.set_num_threads(1)
    with open_session(chosen, device, options={"part": IDEAL} if device == "sim" else {}) as session:
        run = RunFolder(folder)
        trainer = Trainer(chosen, session.network, session.device, session.dataset, run, checkpoint_every=2)
        if run.has_checkpoint():
            trainer.restore()
        if on_batch is not None:
            trainer.on_batch = lambda progress, _: on_batch(trainer, progress)
        rows = trainer.run().log
    return [{name: value for name, value in row.items() if not name.endswith("_seconds")} for row in rows]


@pytest.mark.parametrize("variant", VARIANTS)
def test_whenever_they_are_read(tmp_path, variant):
    read = []

    def at_once(trainer, progress):
        trainer.read_counters()
        read.append(progress.counters["cycles"])

    often = log(tmp_path / "often", variant, at_once)
    seldom = log(tmp_path / "seldom", variant)
    assert len(often) == len(seldom) == 2 and {name for name, _ in COUNTERS} <= often[0].keys()
    for a, b in zip(often, seldom, strict=True):
        assert {name: (a[name], b[name]) for name in a.keys() | b.keys() if a[name] != b[name]} == {}
    assert len(read) > 4 and read == sorted(set(read)) and 0 < often[0]["cycles"] < often[1]["cycles"] == read[-1]


@pytest.mark.parametrize(("device", "variant"), [("golden", "baseline"), ("golden", "max"), ("sim", "baseline")])
def test_a_run_stopped_within_an_epoch(tmp_path, device, variant):
    """Once between two checkpoints: what was counted since the last one is counted again, not twice."""

    def stop(_, progress):
        if progress.epoch == 1 and progress.step > 2:
            raise Stopped

    undisturbed = log(tmp_path / "undisturbed", variant, device=device)
    with pytest.raises(Stopped):
        log(tmp_path / "stopped", variant, stop, device=device)
    state, _ = RunFolder(tmp_path / "stopped").read_checkpoint()
    assert (state["progress"]["epoch"], state["progress"]["step"]) == (1, 2)
    assert log(tmp_path / "stopped", variant, device=device) == undisturbed
    assert undisturbed[-1]["macs"] > state["progress"]["counters"]["macs"] > undisturbed[0]["macs"] > 0
