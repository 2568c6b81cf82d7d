"""Fixtures of the experiments' tests."""

from importlib.util import find_spec

import numpy as np
import pytest
from adagp.cli.main import main
from adagp.experiments import runs
from threads import one_thread

__all__ = ["one_thread"]  # for every test here


@pytest.fixture(scope="session")
def torchvision_imports():
    """A test that asks for this is skipped where torchvision or timm isn't installed: they are an optional extra."""
    if find_spec("timm") is None or find_spec("torchvision") is None:
        pytest.skip("torchvision and timm aren't installed (the extra models)")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def experiment(capsys, monkeypatch):
    """``adagp experiment`` in this process: returns exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["experiment", *map(str, arguments)])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err.strip("\n")

    return run


@pytest.fixture
def epochs_seen(monkeypatch):
    """Epochs that are trained, as state and number. What is in the second list: how many until an interrupt."""
    seen, stop, real = [], [], runs.save

    def save(path, parts, epoch, history):
        real(path, parts, epoch, history)
        seen.append((path.name, epoch))
        if len(seen) in stop:
            raise KeyboardInterrupt

    monkeypatch.setattr(runs, "save", save)
    return seen, stop
