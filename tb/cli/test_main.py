"""The command line as a whole: its help, its version, and how Python starts it."""

import re
import subprocess
import sys
from importlib import import_module
from typing import get_type_hints

import pytest
from adagp.cli.main import app
from adagp.cli.train import train
from adagp.gen import provenance
from adagp.host.training.models import MODELS

COMMANDS = (
    "train", "evaluate", "report", "generate", "synth", "compile", "estimate", "disasm", "diff", "info", "experiment",
)  # fmt: skip


def test_help_lists_every_command_under_its_purpose(adagp):
    code, out, _ = adagp("--help")
    assert code == 0
    shown = [line.split()[1] for line in out.splitlines() if line.startswith("│ ") and line[2].isalpha()]
    assert sorted(shown) == sorted((*COMMANDS, "board", "pipeline"))
    assert [command.name or command.callback.__name__ for command in app.registered_commands] == list(COMMANDS)
    panels = [line.strip("╭─╮ ") for line in out.splitlines() if line.startswith("╭")]
    assert panels[-5:] == [
        "Train a network", "Make the hardware", "Look inside", "Compare methods of training, in PyTorch",
        "Plan several accelerators",
    ]  # fmt: skip
    code, out, err = adagp()
    assert "Usage: adagp" in out + err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_teaches(adagp, command):
    code, out, _ = adagp(command, "--help")
    assert code == 0 and f"Example: adagp {command}" in out
    options = [line for line in out.splitlines() if line.startswith("│") and "--" in line]
    assert options and all(line.rstrip("│ ").split("  ")[-1].strip() for line in options)
    assert not [line for line in options if line.rstrip("│ ").endswith(">")]  # an option without a word about it


def test_help_of_train_names_every_network():
    (option,) = get_type_hints(train, include_extras=True)["model"].__metadata__
    named = set(re.findall(r"[\w-]+", option.help))
    assert len(MODELS) > 8 and not set(MODELS) - named


def test_help_needs_no_torch():
    code = "import sys, adagp.cli.main; print([m for m in ('torch', 'amaranth', 'matplotlib') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_version_names_the_commit_in_a_checkout_alone(adagp, monkeypatch, tmp_path):
    package = import_module("adagp")
    monkeypatch.setattr(provenance, "commit", lambda: "c0ffee-dirty")
    assert adagp("--version") == (0, f"adagp {package.__version__} (commit c0ffee-dirty)\n", "")
    monkeypatch.undo()
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    inside = tmp_path / "env" / "adagp" / "gen" / "provenance.py"
    monkeypatch.setattr(provenance, "__file__", str(inside))
    inside.parent.mkdir(parents=True)
    assert provenance.commit() == "unknown"  # that checkout isn't the package's
    assert adagp("--version") == (0, f"adagp {package.__version__}\n", "")


def test_python_starts_it_as_a_module():
    ended = subprocess.run([sys.executable, "-m", "adagp", "info", "--preset", "none"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "") and ended.stderr.startswith("error: no preset 'none'")
