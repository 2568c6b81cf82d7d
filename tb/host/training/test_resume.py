"""A run that is killed again and again ends with the bits of one that isn't."""

import multiprocessing
import random
import signal

import pytest
from adagp.cli.main import main
from adagp.gen.files import write_atomically
from adagp.host.training.run_folder import RunFolder
from adagp.host.training.timeline import read_trace
from crash_injection import train_and_die, write_and_die

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

SEED = 8
LIMIT = 600.0
"""Seconds after which a run counts as hung."""
EPOCHS = {"golden": "4", "sim": "2"}
CALLS = {"golden": 28_000, "sim": 11_000}
"""Calls and returns of functions between two checkpoints, about."""
WRITING = 40
"""Those that write three of a run's files, about: a checkpoint, and behind an epoch the log's."""
PREDICTED = ("--warmup-epochs", "1", "--phases", "2:1", "--timeline", "3:7")
"""Options of runs with GP batches: the last batch of the warm-up, and a run of GP with the BP batch behind."""
EXACT = (
    "epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy",
    "macs", "write_bytes", "saturations", "commands",
)  # fmt: skip
"""Columns of the log that don't depend on time (commands are read ahead, so bytes read do)."""

_context = multiprocessing.get_context("forkserver")  # so that only one process has to import torch
_context.set_forkserver_preload([
    "adagp.cli.main", "adagp.host.training.session", "adagp.host.training.trainer",
    "matplotlib.pyplot", "sklearn.datasets",
])  # fmt: skip


def begin(folder, options, target=main, *more):
    """Start ``adagp train`` in a process of its own."""
    process = _context.Process(target=target, args=(["train", "-o", str(folder), *options], *more))
    process.start()
    return process


def exit_code(process):
    """With which it exits; none is left running."""
    try:
        process.join(LIMIT)
        assert not process.is_alive()
        return process.exitcode
    finally:
        process.kill()
        process.join()


def kill_once(folder, options, *moment):
    """Run until that moment (see :func:`train_and_die`), which must come before the run's end."""
    assert exit_code(begin(folder, options, train_and_die, *moment)) == -signal.SIGKILL, f"not killed at {moment}"


def finish(folder, options):
    """Let the run end by itself; returns hash, and the log without times."""
    assert exit_code(begin(folder, options)) == 0
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
    [
        ("golden", "digits-cnn", "baseline", 4),
        ("sim", "mlp", "max", 2),
        pytest.param("sim", "mlp", "baseline", 2, marks=pytest.mark.slow),  # of max's course the warm-up alone
    ],
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
    # The first comes before there is a checkpoint, and the last before the last of 20 (10 with a simulator).
    for n_checkpoints in (0, *rng.sample(range(1, n_kills), n_kills - 1)):
        kill_once(folder, options, n_checkpoints, rng.randrange(CALLS[device]), False)
        kill_once(folder, options, 0, rng.randrange(WRITING), True)
    assert not RunFolder(folder).finished
    before, _ = RunFolder(folder).read_checkpoint()
    assert before["progress"]["epoch"] + before["progress"]["step"] > 0
    assert finish(folder, options) == expected
    if variant != "baseline":
        phases, units = reported(adagp, folder)
        assert phases == {"warm-up", "GP", "BP"} and {"array", "predictor array", "update"} <= units


def test_a_file_is_old_or_new_wherever_its_writing_is_killed(tmp_path):
    path, contents = tmp_path / "file", (b"old" * 5000, b"new" * 7000)
    seen = []
    for n_calls in range(100):
        write_atomically(path, contents[0])
        process = _context.Process(target=write_and_die, args=(path, contents[1], n_calls))
        process.start()
        ended = exit_code(process)
        seen.append(contents.index(path.read_bytes()))
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
    # Old until it is replaced, then new; and the kills came before and after.
    assert seen == sorted(seen) and seen.count(0) > 5 and seen.count(1) > 1
    write_atomically(path, contents[0])
    assert path.read_bytes() == contents[0] and [path] == list(tmp_path.iterdir())


def test_checkpoints_do_not_matter(tmp_path):
    options = ["--device", "golden", "--preset", "tiny", "--epochs", "1", "--train-images", "96", "--test-images", "8"]
    often = finish(tmp_path / "often", [*options, "--checkpoint-every", "1"])
    assert often == finish(tmp_path / "seldom", [*options, "--checkpoint-every", "1000"])
