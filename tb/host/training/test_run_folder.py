"""A run's folder: whose it is, who is at work in it, and a checkpoint in which any damage is seen."""

import io
import json
import multiprocessing
import os
import random

import numpy as np
import pytest
from adagp.host.training.owned_folder import MARKER, VERSION
from adagp.host.training.run_folder import RunError, RunFolder
from adagp.host.training.settings import TrainSettings
from folder_holder import hold

SEED = 5
N_FLIPS = 1500
SETTINGS = TrainSettings().to_dict()
ARRAYS = {"weight": np.arange(300, dtype=np.int32).reshape(20, 15), "exponents": np.array([[1, -2]], np.int16)}
PROGRESS = {"epoch": 3, "log": [{"epoch": 1, "train_loss": 0.5}]}


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- whose folder it is -----------------------------------------------------------------------


FOREIGN = {
    "notes": ({"notes.txt": "mine"}, "holds notes.txt but no run"),
    "settings": ({"settings.json": '{"editor": "mine"}', "weights.pt": "mine"}, "holds settings.json but no run"),
    "some fields": ({"settings.json": json.dumps({"model": "mlp", "epochs": 3})}, "holds settings.json but no run"),
    "settings in another form": ({"settings.json": "[1, 2]"}, "holds settings.json but no run"),
    "settings in no form": ({"settings.json": "\udcff"}, "holds settings.json but no run"),
    "lock": ({"lock": "mine"}, "holds lock but no run"),
    "experiment": ({MARKER: '{"kind": "experiment", "version": 1}'}, "is of kind 'experiment', not 'run'"),
    "newer": ({MARKER: json.dumps({"kind": "run", "version": VERSION + 1})}, f"has version {VERSION + 1}; this adagp"),
    "no version": ({MARKER: '{"kind": "run"}'}, "has version None"),
    "other marker": ({MARKER: "mine"}, f"can't read .*{MARKER}"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_folders_of_others_are_refused_and_left_alone(tmp_path, name):
    content, why = FOREIGN[name]
    for file, text in content.items():
        (tmp_path / file).write_bytes(os.fsencode(text))
    before, folder = files(tmp_path), RunFolder(tmp_path)
    with pytest.raises(RunError, match=why):
        folder.begin(SETTINGS)
    with pytest.raises(RunError, match=why), folder.in_use():
        pytest.fail("it was taken")
    assert files(tmp_path) == before


@pytest.mark.parametrize("place", ["empty", "new/run"])
def test_a_new_or_empty_folder_becomes_a_run(tmp_path, place):
    (tmp_path / "empty").mkdir()
    path = tmp_path / place
    RunFolder(path).begin(SETTINGS)
    assert json.loads((path / MARKER).read_text()) == {"kind": "run", "version": VERSION}
    (path / "notes.txt").write_text("mine")
    RunFolder(path).begin(SETTINGS)
    assert (path / "notes.txt").read_text() == "mine"  # files beside a run's stay


def test_a_run_of_an_earlier_version_gets_the_marker(tmp_path):
    (tmp_path / "settings.json").write_text(json.dumps(SETTINGS))
    (tmp_path / "weights.pt").write_text("earlier")
    with RunFolder(tmp_path).in_use():
        assert json.loads((tmp_path / MARKER).read_text())["kind"] == "run"
    assert (tmp_path / "weights.pt").read_text() == "earlier"


def test_a_marker_whose_writing_was_killed_is_no_stranger(tmp_path):
    (tmp_path / f"{MARKER}.partial").write_text("{")
    RunFolder(tmp_path).begin(SETTINGS)
    assert (tmp_path / MARKER).exists()


def test_a_folder_in_which_nothing_was_begun_goes_again(tmp_path):
    with pytest.raises(ZeroDivisionError), RunFolder(tmp_path / "run").in_use():
        raise ZeroDivisionError
    assert not (tmp_path / "run").exists()
    with RunFolder(tmp_path).in_use():
        pass
    assert tmp_path.exists() and not list(tmp_path.iterdir())


# --- who is at work in it ---------------------------------------------------------------------


def test_one_process_at_a_time_which_others_are_told(tmp_path):
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    process = context.Process(target=hold, args=(tmp_path, SETTINGS, theirs))
    process.start()
    try:
        assert ours.poll(120) and ours.recv() == "held"
        before = files(tmp_path)
        with (
            pytest.raises(RunError, match=f"another command is at work in {tmp_path}: process {process.pid}$"),
            RunFolder(tmp_path).in_use(),
        ):
            pytest.fail("it was taken")
        assert files(tmp_path) == before
    finally:
        process.kill()
        process.join()
    with RunFolder(tmp_path).in_use():  # the lock has died with its holder
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


# --- checkpoints ------------------------------------------------------------------------------


def same(found):
    progress, arrays = found
    return (
        progress == PROGRESS
        and arrays.keys() == ARRAYS.keys()
        and all(arrays[name].dtype == ARRAYS[name].dtype and (arrays[name] == ARRAYS[name]).all() for name in ARRAYS)
    )


def test_a_checkpoint_is_read_as_it_was_written(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert not folder.has_checkpoint()
    with pytest.raises(RunError, match=r"no settings\.json"):
        _ = folder.settings
    folder.write_checkpoint(PROGRESS, ARRAYS)
    (folder.path / "checkpoint.npz.partial").write_bytes(b"a write that was killed")
    assert same(folder.read_checkpoint())
    content = np.load(folder.path / "checkpoint.npz")  # other programs read it as any archive of numpy's
    np.testing.assert_array_equal(content["weight"], ARRAYS["weight"])


def test_any_flipped_bit_of_a_checkpoint_is_told(tmp_path):
    print(f"seed {SEED}")
    rng, folder = random.Random(SEED), RunFolder(tmp_path)
    folder.write_checkpoint(PROGRESS, ARRAYS)
    path = tmp_path / "checkpoint.npz"
    whole = path.read_bytes()
    last = [8 * len(whole) - 1 - n for n in range(8 * 90)]  # every bit of the checksum, and some before it
    flips = [*rng.sample(range(8 * len(whole)), N_FLIPS), *last]
    for flip in flips:
        broken = bytearray(whole)
        broken[flip // 8] ^= 1 << flip % 8
        path.write_bytes(broken)
        with pytest.raises(RunError, match=r"can't resume from .*checkpoint\.npz: its checksum doesn't fit"):
            folder.read_checkpoint()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(RunError, match="can't resume from"):
            folder.read_checkpoint()
    path.write_bytes(whole)
    assert same(folder.read_checkpoint()) and len(flips) > N_FLIPS


def test_a_flipped_bit_of_a_checkpoint_without_checksum_gets_a_line_or_does_not_matter(tmp_path):
    """Earlier versions wrote no checksum: an archive's own sees what is in its arrays, and numpy stumbles elsewhere."""
    print(f"seed {SEED}")
    rng, folder, buffer = random.Random(SEED), RunFolder(tmp_path), io.BytesIO()
    np.savez(buffer, progress=np.array(json.dumps(PROGRESS)), **ARRAYS)
    whole, path = buffer.getvalue(), tmp_path / "checkpoint.npz"
    path.write_bytes(whole)
    assert same(folder.read_checkpoint())
    refused = 0
    for flip in rng.sample(range(8 * len(whole)), N_FLIPS):
        broken = bytearray(whole)
        broken[flip // 8] ^= 1 << flip % 8
        path.write_bytes(broken)
        try:
            folder.read_checkpoint()
        except RunError:
            refused += 1
    assert refused > N_FLIPS / 2


# --- files of other shapes --------------------------------------------------------------------


ROW = {
    "epoch": 1, "train_loss": None, "train_accuracy": None, "test_loss": 1.0, "test_accuracy": 0.5, "cycles": 0,
    "macs": 0, "read_bytes": 0, "write_bytes": 0, "saturations": 0,
}  # fmt: skip
SHAPES = {
    "not UTF-8": (b"\xff\xfe{}", "can't read"),
    "not JSON": (b"{", "can't read"),
    "deep": (b"[" * 100_000, "can't read"),
    "a number": (b"7", "holds a int"),
    "an object": (b"{}", "holds a dict; a list is expected"),
    "no rows": (b"[7]", "epoch = 'missing' must be a number"),
    "a column missing": (json.dumps([{**ROW, "cycles": None}]).encode(), "cycles = None must be a number"),
    "a text": (json.dumps([{**ROW, "test_loss": "low"}]).encode(), "test_loss = 'low' must be a number"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_log_of_another_shape_is_told(tmp_path, shape):
    content, why = SHAPES[shape]
    (tmp_path / "log.json").write_bytes(json.dumps([ROW]).encode())
    assert RunFolder(tmp_path).log == [ROW]
    (tmp_path / "log.json").write_bytes(content)
    with pytest.raises(RunError, match=why) as error:
        _ = RunFolder(tmp_path).log
    assert "log.json" in str(error.value)


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b"{", b"[]", b"7"])
def test_settings_and_summaries_of_another_shape_are_told(tmp_path, content):
    for name in ("settings", "summary"):
        (tmp_path / f"{name}.json").write_bytes(content)
        with pytest.raises(RunError, match=f"can't read .*{name}.json"):
            getattr(RunFolder(tmp_path), name)
