"""The script ``adagp`` of a checkout: when it makes an environment, when it leaves one alone, and what it shows."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "adagp"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """The script's functions, for a checkout in a folder; ``ran`` has the commands that it would have run."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    real = subprocess.run

    def load(folder):
        loader = SourceFileLoader("launcher", str(SCRIPT))
        module = module_from_spec(spec_from_loader("launcher", loader))
        loader.exec_module(module)
        folder.mkdir(exist_ok=True)
        for name in ("pyproject.toml", "constraints.txt"):
            if not (folder / name).exists():
                (folder / name).write_text(name)
        module.ROOT, module.VENV, module.ran, module.fails = str(folder), str(folder / ".venv"), [], False

        def run(command, **options):
            if "-c" in command:
                return real(command, **options)
            module.ran.append(command)
            shutil.rmtree(module.VENV, ignore_errors=True)
            environment(module)
            return subprocess.CompletedProcess(command, int(module.fails))

        def run_pip(command):
            module.ran.append(command)
            return int(module.fails)

        module.subprocess = type("subprocess", (), {**vars(subprocess), "run": staticmethod(run)})
        module.real_run_pip, module.run_pip = module.run_pip, run_pip
        return module

    return load


@pytest.fixture
def launcher(checkout, tmp_path):
    return checkout(tmp_path / "first")


def environment(launcher, python=sys.executable):
    """One whose Python is another, and whose pip starts it."""
    folder = Path(launcher.VENV) / "bin"
    folder.mkdir(parents=True)
    (folder / "python").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    (folder / "pip").write_text(f"#!{folder}/python\nimport pip\n")
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
    assert_made_anew(launcher)


def assert_made_anew(launcher):
    made, installed = launcher.ran
    assert made[1:4] == ["-m", "venv", "--clear"] and made[4] == launcher.VENV
    assert installed[0] == os.path.join(launcher.VENV, "bin", "python") and launcher.ROOT in installed


@pytest.mark.parametrize("move", [shutil.copytree, shutil.move])
def test_a_checkout_that_was_copied_or_moved_gets_an_environment_of_its_own(checkout, launcher, tmp_path, move):
    """Its scripts would start the first one's Python, or none."""
    launcher.ensure_environment([])
    move(tmp_path / "first", tmp_path / "second")
    second = checkout(tmp_path / "second")
    second.ensure_environment([])
    assert_made_anew(second)
    second.ran.clear()
    second.ensure_environment([])
    assert not second.ran


def test_checkouts_that_share_an_environment_each_install_themselves(checkout, launcher, tmp_path):
    launcher.ensure_environment([])
    other = checkout(tmp_path / "second")
    (tmp_path / "second" / ".venv").symlink_to(launcher.VENV)
    for one in (other, launcher):
        one.ran.clear()
        one.ensure_environment([])
        [command] = one.ran
        assert "pip" in command and one.ROOT in command


def test_an_environment_whose_python_is_gone_is_made_anew(launcher):
    """A stamp alone doesn't say that it works."""
    launcher.ensure_environment([])
    launcher.ran.clear()
    (Path(launcher.VENV) / "bin" / "python").write_text("#!/nowhere/python\n")
    launcher.ensure_environment([])
    assert_made_anew(launcher)


def test_a_second_first_use_waits_for_the_first(launcher, capfd):
    """It says so, and then finds nothing left to do."""
    with open(Path(launcher.ROOT, "pyproject.toml"), "a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        first, second = (threading.Thread(target=launcher.ensure_environment, args=([],)) for _ in range(2))
        first.start(), second.start()
        deadline = time.monotonic() + 60
        said = ""
        while said.count("waiting for another command") < 2 and time.monotonic() < deadline:
            said += capfd.readouterr().err
            time.sleep(0.05)
        assert said.count("waiting for another command") == 2 and not launcher.ran
    first.join(), second.join()
    assert_made_anew(launcher)  # once, by either


@pytest.mark.parametrize("shell", [["sh"], ["bash"], []])
def test_shells_hand_over_to_python(tmp_path, shell):
    """The checkout has no packages, so that the launcher ends with a line of its own."""
    shutil.copy(SCRIPT, tmp_path / "adagp")
    (tmp_path / "bin").mkdir()
    for name in ("python3", "env", *shell):
        (tmp_path / "bin" / name).symlink_to(sys.executable if name == "python3" else shutil.which(name))
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    options = {"env": {"PATH": str(tmp_path / "bin")}, "cwd": tmp_path, "capture_output": True, "text": True}
    ended = subprocess.run([*shell, "./adagp", "info"], **options)
    assert ended.returncode == 1 and ended.stderr.startswith("adagp: needs g++ and make and perl for the simulator")
    assert ended.stderr.count("\n") == 1


PIP = """\
Obtaining file:///checkout
Collecting numpy>=1.26 (from adagp==0.1.0)
  Downloading numpy-2.4.6-cp311-manylinux.whl (16.9 MB)
Processing /wheels/torch-2.13.0.whl (from adagp)
Requirement already satisfied: rich in site-packages
Installing collected packages: numpy, torch, adagp
"""


def test_progress_is_told_from_what_pip_prints(launcher):
    shown = []
    progress = launcher.Progress()
    for line in PIP.splitlines(keepends=True):
        progress.follow([line])
        shown.append(progress.told())
    assert shown == [
        "starting", "package 1: numpy>=1.26", "package 1: numpy-2.4.6-cp311-manylinux.whl (16.9 MB)",
        "package 2: torch-2.13.0.whl", "package 2: torch-2.13.0.whl", "installed 0 of 3 packages",
    ]  # fmt: skip
    (Path(launcher.VENV) / "lib" / "python3" / "site-packages" / "numpy-2.4.6.dist-info").mkdir(parents=True)
    assert progress.told() == "installed 1 of 3 packages"


@pytest.mark.parametrize("code", [0, 3])
def test_installing_shows_progress_and_how_long_it_took(launcher, capfd, code):
    assert launcher.real_run_pip([sys.executable, "-c", f"print({PIP!r}); raise SystemExit({code})"]) == code
    shown = capfd.readouterr().err.splitlines()
    assert shown[0] == "adagp: 0:00  starting" and ("packages installed in 0:0" in shown[-1]) == (code == 0)


def block_interrupts():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])


@pytest.mark.parametrize("delay", [n / 10 for n in range(13)])
def test_an_interrupt_at_any_time_leaves_no_traceback(launcher, delay):
    """From the launcher's first line to the last of a short command."""
    launcher.ensure_environment([])
    script = Path(launcher.ROOT, "adagp")
    shutil.copy(SCRIPT, script)
    command = Path(launcher.VENV, "bin", "adagp")
    command.write_text(f"#!{sys.executable}\nfrom adagp.__main__ import main\nmain()\n")
    command.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, script, "info"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=block_interrupts,  # while Python itself starts
    )  # fmt: skip
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert "Traceback" not in said and "Error" not in said
    assert delay > 0 or process.returncode in (130, -signal.SIGINT)


def test_an_interrupt_before_a_command_runs_leaves_no_traceback():
    """While typer puts the commands together, which no handler of its own guards."""
    code = """
from adagp.__main__ import main
from adagp.cli import main as command_line

def interrupted(*_, **__):
    raise KeyboardInterrupt

command_line.app = interrupted
main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_an_interrupt_inside_a_callback_still_ends_the_command():
    """Python would print it and go on, as in the callbacks of imports."""
    code = """
import signal, time, weakref
from adagp.__main__ import main
from adagp.cli import main as command_line

class Module:
    pass

def import_something():
    module = Module()
    reference = weakref.ref(module, lambda _: signal.raise_signal(signal.SIGINT))
    del module
    time.sleep(60)

command_line.app = lambda *_, **__: import_something()
main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert (ended.returncode, ended.stderr) == (130, "")


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


def test_an_interrupt_while_the_environment_is_made_leaves_no_traceback(launcher):
    """From a terminal, which interrupts the launcher's children too."""
    script = Path(launcher.ROOT, "adagp")
    shutil.copy(SCRIPT, script)
    process = subprocess.Popen([sys.executable, script, "info"], stderr=subprocess.PIPE, text=True, process_group=0)
    made = process.stderr.readline()
    deadline = time.monotonic() + 60
    while not Path(launcher.VENV, "pyvenv.cfg").exists() and time.monotonic() < deadline:
        time.sleep(0.01)  # until the child does more than to start
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert made.startswith("adagp: creating ") and said == "adagp: interrupted; the same command goes on\n"
    assert process.returncode == 130


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_of_the_tests_runs_none(launcher, monkeypatch, capsys, option):
    def run(*_):
        raise AssertionError("the tests run")

    monkeypatch.setattr(launcher.os, "execv", run)
    monkeypatch.setattr(sys, "argv", ["adagp", "test", option])
    launcher.main()
    assert "usage: ./adagp test" in capsys.readouterr().out and not launcher.ran
