"""The command line as a whole: its help."""

import subprocess
import sys

import pytest
from adagp.cli.main import app

COMMANDS = ("train", "evaluate", "report", "generate", "synth", "disasm", "diff", "info", "experiment")


def test_help_lists_every_command_under_its_purpose(adagp):
    code, out, _ = adagp("--help")
    assert code == 0
    shown = [line.split()[1] for line in out.splitlines() if line.startswith("│ ") and line[2].isalpha()]
    assert sorted(shown) == sorted((*COMMANDS, "board"))
    assert [command.callback.__name__ for command in app.registered_commands] == list(COMMANDS)
    panels = [line.strip("╭─╮ ") for line in out.splitlines() if line.startswith("╭")]
    assert panels[-4:] == [
        "Train a network", "Make the hardware", "Look inside", "Compare methods of training, in PyTorch",
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


def test_help_needs_no_torch():
    code = "import sys, adagp.cli.main; print([m for m in ('torch', 'amaranth', 'matplotlib') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
