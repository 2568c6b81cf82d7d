"""The watch over a pipeline's processes: a call that hangs after one has ended doesn't hang for ever."""

import os
import threading

import pytest
from adagp.host.pipelines.watch import watched

SECONDS = 0.1
PATIENCE = 20 * SECONDS


class Ends:
    """A process that ends with exit code 1 as soon as anybody looks, or lives on."""

    def __init__(self, code):
        self.code, self.seen = code, threading.Event()

    def poll(self):
        self.seen.set()
        return self.code


@pytest.fixture
def ended(monkeypatch):
    """The exit codes with which this process would have ended, and an event that tells of the first."""
    codes, told = [], threading.Event()

    def end(code):
        codes.append(code)
        told.set()

    monkeypatch.setattr(os, "_exit", end)
    return codes, told


def test_a_call_that_hangs_after_a_process_has_ended_is_told_and_ended(ended, capsys):
    codes, told = ended
    with watched([Ends(None), Ends(1)], lambda: "rank 2 was killed", SECONDS):
        assert told.wait(PATIENCE)
    assert codes == [1] and capsys.readouterr().err == "error: rank 2 was killed\n"


@pytest.mark.parametrize("code", [None, 1])
def test_a_call_that_ends_in_time_goes_on(ended, capsys, code):
    """All processes live, or one has ended and the call returns before the time is over."""
    codes, told = ended
    process = Ends(code)
    with watched([process], lambda: "never", SECONDS):
        assert process.seen.wait(PATIENCE)
        if code is None:
            assert not told.wait(4 * SECONDS)
    assert not told.wait(4 * SECONDS) and not codes and capsys.readouterr().err == ""
