"""The script ``adagp`` of a checkout: when it makes an environment, and when it leaves one alone."""

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "adagp"


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    """The script's functions, for a checkout elsewhere; ``ran`` has the commands that it would have run."""
    loader = SourceFileLoader("launcher", str(SCRIPT))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = module_from_spec(spec_from_loader("launcher", loader))
    loader.exec_module(module)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text(name)
    venv = tmp_path / ".venv"
    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(module, "VENV", str(venv))
    module.ran, module.fails, real = [], False, subprocess.run

    def run(command, **options):
        if "-c" in command:
            return real(command, **options)
        module.ran.append(command)
        if "venv" in command:
            (venv / "bin").mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(command, int(module.fails))

    monkeypatch.setattr(module.subprocess, "run", run)
    return module


def environment(launcher, python=sys.executable):
    """One whose Python is another."""
    folder = Path(launcher.VENV) / "bin"
    folder.mkdir(parents=True)
    (folder / "python").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    (folder / "python").chmod(0o755)


def test_an_environment_that_works_is_kept_whoever_made_it(launcher):
    environment(launcher)
    launcher.ensure_environment(["synth"])
    [command] = launcher.ran
    assert "pip" in command and command[-3].endswith("[synth]")
    launcher.ran.clear()
    launcher.ensure_environment(["synth"])
    assert not launcher.ran  # nothing has changed
    Path(launcher.ROOT, "constraints.txt").write_text("other")
    launcher.fails = True
    with pytest.raises(SystemExit, match="packages could not be installed"):
        launcher.ensure_environment(["synth"])
    assert [("pip" in command) for command in launcher.ran] == [True]
    Path(launcher.ROOT, "constraints.txt").write_text("constraints.txt")  # as when it last was whole
    launcher.fails = False
    launcher.ensure_environment(["synth"])
    assert len(launcher.ran) == 2


@pytest.mark.parametrize("python", [None, "/nowhere/python", "/bin/false"])
def test_none_or_a_broken_one_is_made_anew(launcher, python):
    if python:
        environment(launcher, python)
    launcher.ensure_environment([])
    made, installed = launcher.ran
    assert made[1:4] == ["-m", "venv", "--clear"] and "pip" in installed


@pytest.mark.parametrize(
    "line, extras",
    [
        ("", []), ("train --epochs 2", []), ("train --device golden", []), ("synth --target asic", ["synth"]),
        ("board build ecpix5", ["boards"]), ("train --device board --port x", ["board"]),
        ("diff --devices=golden,board", ["board"]), ("experiment --model vgg13", ["models"]),
        ("experiment --model vgg13 --tensorboard", ["models", "tensorboard"]), ("train --port board2", []),
        ("train --tensorboard", ["tensorboard"]), ("train --tensorboard --device board", ["board", "tensorboard"]),
    ],
)  # fmt: skip
def test_what_a_command_needs_is_installed_for_it(launcher, line, extras):
    assert launcher.extras_of(line.split()) == extras
