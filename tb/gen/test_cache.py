"""The cache of builds: a place that can't be one is named, and nothing half made stays in it."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
from adagp.gen import cache

PATIENCE = 120
"""Seconds that a process may take until it builds."""
TRAIN = ("train", "--preset", "tiny", "--epochs", "1")


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_cache_that_cannot_be_a_folder_is_named(adagp, tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("mine")
    chosen = str(tmp_path / place)
    monkeypatch.setenv("ADAGP_CACHE", chosen)
    with pytest.raises(cache.CacheError, match=r"^ADAGP_CACHE = .* can't be a folder to write to: "):
        cache.cache_directory()
    code, _, err = adagp(*TRAIN, "-o", tmp_path / "run")
    assert code == 2 and err.count("\n") == 1 and f"error: ADAGP_CACHE = {chosen!r} can't be a folder" in err
    assert not (tmp_path / "run").exists()


def test_a_cache_that_may_not_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(cache.CacheError, match=f"^ADAGP_CACHE = '{tmp_path}' can't be .*: Permission denied$"):
        cache.cache_directory()
    monkeypatch.delenv("ADAGP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(cache.CacheError, match=f"^the cache {tmp_path}/adagp can't be"):
        cache.cache_directory()


def _build(told):
    with cache.entry("thing-1") as (_, scratch):
        (scratch / "half").write_text("half made")
        told.send("building")
        signal.pause()


def test_what_a_killed_build_leaves_goes_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path))
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_build, args=(theirs,))
    process.start()
    assert ours.poll(PATIENCE) and ours.recv() == "building"
    process.kill()
    process.join()
    (left,) = tmp_path.glob("build-*")
    (tmp_path / "build-other-1-abc").mkdir()  # another entry's, which may be under way
    with cache.entry("thing-1") as (path, scratch):
        assert not left.exists() and scratch.exists()
        (scratch / "out").write_text("made")
        (scratch / "out").rename(path)
    assert path.read_text() == "made" and [each.name for each in tmp_path.glob("build-*")] == ["build-other-1-abc"]


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("delay", [0, 2])
def test_a_build_that_is_ended_leaves_nothing_and_says_little(tmp_path, number, code, delay):
    """It is ended while the hardware is loaded or elaborated, from which components are left over."""
    environment = {**os.environ, "ADAGP_CACHE": str(tmp_path / "cache"), "PYTHONWARNINGS": "default"}
    process = subprocess.Popen(
        [sys.executable, "-m", "adagp", *TRAIN, "-o", tmp_path / "run"], env=environment, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    until = time.monotonic() + PATIENCE
    while not list(tmp_path.glob("cache/build-*")) and time.monotonic() < until:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    time.sleep(delay)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    # As a shell reports it: seldom, an interrupt ends Python by the signal itself.
    reported = process.returncode if process.returncode >= 0 else 128 - process.returncode
    assert reported == code and "Traceback" not in said and "UnusedElaboratable" not in said
    assert not list(tmp_path.glob("cache/build-*")) and (tmp_path / "cache").exists()
    assert not (tmp_path / "run").exists()
