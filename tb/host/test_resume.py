"""A run that is killed again and again ends with the bits of one that isn't."""

import multiprocessing
import random
import time

import pytest
from adagp.host.cli import main
from adagp.host.run_folder import RunFolder
from adagp.host.timeline import read_trace

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

SEED = 8
LIMIT = 600.0
"""Seconds after which a run counts as hung."""
EPOCHS = {"golden": "4", "sim": "2"}
PREDICTED = ("--warmup-epochs", "1", "--phases", "2:1", "--timeline", "3:7")
"""Options of runs with GP batches: the last batch of the warm-up, and a run of GP with the BP batch behind."""
EXACT = (
    "epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy",
    "macs", "write_bytes", "saturations", "commands",
)  # fmt: skip
"""Columns of the log that don't depend on time (commands are read ahead, so bytes read do)."""

_context = multiprocessing.get_context("forkserver")  # so that only one process has to import torch
_context.set_forkserver_preload([
    "adagp.host.cli", "adagp.host.session", "adagp.host.trainer", "matplotlib.pyplot", "sklearn.datasets",
])  # fmt: skip


def begin(folder, options):
    """Start ``adagp train`` in a process of its own."""
    process = _context.Process(target=main, args=(["train", "-o", str(folder), *options],))
    process.start()
    return process


def version(folder):
    """Something that changes with every checkpoint."""
    path = folder / "checkpoint.npz"
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def kill_once(folder, options, rng):
    """Run until a random moment after a random number of new checkpoints; False if the run ended before."""
    process = begin(folder, options)
    deadline = time.monotonic() + LIMIT
    for _ in range(rng.randrange(4)):
        old = version(folder)
        while version(folder) == old and process.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.0005)
    time.sleep(rng.random() * 0.1)
    alive = process.is_alive()
    process.kill()
    process.join()
    return alive


def finish(folder, options):
    """Let the run end by itself; returns hash, and the log without times."""
    process = begin(folder, options)
    process.join(LIMIT)
    assert process.exitcode == 0
    run = RunFolder(folder)
    log = [{name: row[name] for name in EXACT} for row in run.log]
    n_rows = len((folder / "log.csv").read_text().splitlines()) - 1
    assert n_rows == len(log) > 0 and not list(folder.glob("*.partial"))
    return run.summary["weights_hash"], log


def reported(adagp, folder):
    """Phases and units of the run's timeline, once its report is drawn."""
    drawn = [folder / "report.png", folder / "timeline.png"]
    for path in drawn:
        path.unlink()
    code, out, _ = adagp("report", folder)
    assert code == 0 and "PEs multiply in" in out
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)
    found = read_trace(folder / "timeline.json")
    return {each.phase for each in found}, {each.unit for each in found}


@pytest.mark.parametrize(
    ("device", "model", "variant", "n_kills"),
    [("golden", "digits-cnn", "baseline", 5), ("sim", "mlp", "baseline", 2), ("sim", "mlp", "max", 2)],
)
def test_killed_and_resumed(adagp, tmp_path, device, model, variant, n_kills):
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    options = [
        "--device", device, "--model", model, "--preset", "tiny", "--batch", "4", "--epochs", EPOCHS[device],
        "--momentum", "0.8", "--train-images", "18", "--test-images", "6", "--checkpoint-every", "1",
    ]  # fmt: skip
    if variant != "baseline":
        options += ["--variant", variant, *PREDICTED]
    expected = finish(tmp_path / "undisturbed", options)
    folder = tmp_path / "disturbed"
    kills = [kill_once(folder, options, rng) for _ in range(n_kills)]
    assert all(kills) and version(folder) and not RunFolder(folder).finished
    before, _ = RunFolder(folder).read_checkpoint()
    assert before["progress"]["epoch"] + before["progress"]["step"] > 0
    assert finish(folder, options) == expected
    if variant != "baseline":
        phases, units = reported(adagp, folder)
        assert phases == {"warm-up", "GP", "BP"} and {"array", "predictor array", "update"} <= units


def test_checkpoints_do_not_matter(tmp_path):
    options = ["--device", "golden", "--preset", "tiny", "--epochs", "1", "--train-images", "96", "--test-images", "8"]
    often = finish(tmp_path / "often", [*options, "--checkpoint-every", "1"])
    assert often == finish(tmp_path / "seldom", [*options, "--checkpoint-every", "1000"])
