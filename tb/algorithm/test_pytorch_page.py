"""docs/pytorch.md: its snippets run, in their order, and its commands have only options that there are."""

import re
from pathlib import Path

import torch
from adagp import PAPER, PredictorSettings, schedule
from adagp.algorithm.metrics import MEASURES
from adagp.spec.schedule import SOURCES
from torch import nn
from torch_networks import conv_network, image_batches
from typer.main import get_command

PAGE = (Path(__file__).parents[2] / "docs/pytorch.md").read_text()


def test_snippets_run(tmp_path):
    network = conv_network()
    names = {
        "torch": torch, "network": network, "optimizer": torch.optim.SGD(network.parameters(), 0.01, momentum=0.9),
        "criterion": nn.CrossEntropyLoss(), "loader": image_batches(5), "folder": tmp_path, "file": tmp_path / "state",
    }  # fmt: skip
    snippets = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(snippets) == 6
    for snippet in snippets:
        exec(snippet, names)
        assert torch.isfinite(names["loss"])
    assert (tmp_path / "metrics.csv").stat().st_size and (tmp_path / "metrics.json").stat().st_size


def test_commands_have_options_that_there_are():
    from adagp.cli.main import app

    options = {name for option in get_command(app).commands["experiment"].params for name in option.opts}
    commands = re.findall(r"^\./adagp experiment (.*)$", PAGE, re.M)
    assert len(commands) == 2
    assert all(word in options for command in commands for word in command.split() if word.startswith("--"))


def test_what_is_said_of_settings():
    assert "schedule(10, (4, 4, 1), (4, 3, 1), (4, 2, 1), (1, 1, 1))" in PAGE
    assert schedule(10, (4, 4, 1), (4, 3, 1), (4, 2, 1), (1, 1, 1)) == PAPER
    usual = PredictorSettings()
    assert (usual.windows, usual.channels, usual.lr, usual.milestones, usual.gamma, usual.decay, usual.normalise) == (
        2, 3, 1e-3, (), 0.1, 0.9, True)  # fmt: skip
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE.split("## Sources")[1].split("## Gate")[0], re.M)) == set(SOURCES)
    assert all(f"`{name}`" in PAGE for name in MEASURES)
