"""``adagp experiment`` interrupted, killed and begun again."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from adagp.experiments import runs
from adagp.experiments.run_state import restore
from adagp.host.training.run_folder import RunError
from small_experiments import COMMAND, TINY, outcomes, rows_of

MIXED = ("--methods", "bp-1,ada-gp", "--epochs", "2")


def test_an_interrupted_experiment_goes_on_and_does_nothing_twice(experiment, tmp_path, epochs_seen):
    assert experiment(*TINY, *MIXED, "--run", tmp_path / "whole")[0] == 0
    seen, stop = epochs_seen
    seen.clear()
    stop.append(3)
    code, out, err = experiment(*TINY, *MIXED, "--run", tmp_path / "cut")
    assert code == 130 and "the same command goes on" in err and not out and len(seen) == 3
    stop.clear()
    code, out, err = experiment(*TINY, *MIXED, "--run", tmp_path / "cut")
    assert code == 0 and "1 of 2 runs have ended before" in err and [epoch for _, epoch in seen] == [1, 2, 1, 2]
    for name in ("outcomes.json", "metrics.csv"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    # More seeds and methods join; what there is stays.
    code, out, _ = experiment(*TINY[:2], "--lr", 0.1, "--seeds", "0,1", *MIXED, "--run", tmp_path / "cut")
    assert code == 0 and len(seen) == 8 and outcomes(tmp_path / "cut")[::2] == outcomes(tmp_path / "whole")


def _alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _killed(options, folder):
    """The command's workers; it is killed when it has left a state."""
    command = [sys.executable, "-c", COMMAND, *options, "--run", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while process.poll() is None and not list(folder.glob("states/*.pt")) and time.monotonic() < until:
        time.sleep(0.005)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers = children.read_text().split() if children.exists() else []
    process.kill()
    process.wait()
    return workers


@pytest.mark.parametrize("jobs", [pytest.param("1", marks=pytest.mark.slow), "2"])  # one process is the easier case
def test_a_killed_experiment_goes_on(jobs, experiment, tmp_path):
    options = (*TINY, "--methods", "bp-1,ada-gp,mean-1:1", "--epochs", "30")
    assert experiment(*options, "--run", tmp_path / "whole")[0] == 0
    for number in range(5):
        folder = tmp_path / f"cut{number}"
        workers = _killed((*options, "--jobs", jobs), folder)
        # Its processes end by themselves, before the runs do: one that stays would wait for more work behind them.
        until = time.monotonic() + 30
        while any(_alive(worker) for worker in workers):
            assert time.monotonic() < until, "processes of a killed command live on"
            time.sleep(0.05)
        if list(folder.glob("states/*.pt")):
            break  # otherwise all runs had ended before the kill, as they may on a busy machine
    else:
        pytest.fail("never killed before its end")
    assert len(workers) >= (jobs == "2") * 2 and len(list(folder.glob("outcomes/*.json"))) < 3
    assert experiment(*options, "--jobs", jobs, "--run", folder)[0] == 0
    for name in ("outcomes.json", "metrics.json"):
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_that_diverged_goes_on_as_diverged(experiment, tmp_path, monkeypatch, epochs_seen):
    options = ("--images", 128, "--seeds", 0, "--lr", 1000, "--methods", "bp-1", "--epochs", 5)
    seen, _ = epochs_seen
    code, out, err = experiment(*options, "--run", tmp_path / "whole")
    n_epochs = len(seen)
    assert code == 0 and n_epochs < 5 and rows_of(out)["bp-1"][0] == "0.00" and "diverged" in err
    assert outcomes(tmp_path / "whole")[0]["test"] is None
    real = runs._Training.outcome

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs._Training, "outcome", interrupted)
    assert experiment(*options, "--run", tmp_path / "cut")[0] == 130
    monkeypatch.setattr(runs._Training, "outcome", real)
    assert experiment(*options, "--run", tmp_path / "cut")[0] == 0 and len(seen) == 2 * n_epochs
    assert (tmp_path / "cut/outcomes.json").read_bytes() == (tmp_path / "whole/outcomes.json").read_bytes()


def test_a_broken_state_is_named(experiment, tmp_path, epochs_seen):
    seen, stop = epochs_seen
    stop.append(3)
    options = (*TINY, "--methods", "bp-1", "--epochs", 4, "--run", tmp_path)
    assert experiment(*options)[0] == 130
    (state,) = (tmp_path / "states").glob("*.pt")
    state.write_bytes(state.read_bytes()[:1000])
    code, _, err = experiment(*options)
    assert code == 2 and f"can't go on from {state}" in err and "starts over" in err and "\n" not in err
    state.unlink()
    assert experiment(*options)[0] == 0 and [epoch for _, epoch in seen] == [1, 2, 3, 1, 2, 3, 4]


class Bomb:
    """A state that runs a function when it is loaded."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


def test_a_state_cannot_run_code(tmp_path):
    torch.save({"epoch": 1, "history": Bomb(tmp_path / "exploded")}, tmp_path / "state.pt")
    with pytest.raises(
        RunError, match=r"can't go on from .*state\.pt: .*without this file the run starts over"
    ) as error:
        restore(tmp_path / "state.pt", {})
    assert not (tmp_path / "exploded").exists() and "\n" not in str(error.value)
