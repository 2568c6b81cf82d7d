"""Small runs of ``adagp experiment``."""

import json

from adagp.experiments.regimes import Regime

__all__ = ["COMMAND", "LAYERS", "TINY", "TINY_REGIME", "outcomes", "rows_of"]

COMMAND = "import sys; from adagp.cli.main import main; main(['experiment', *sys.argv[1:]])"
"""For python -c, before the options."""
TINY = ("--images", "128", "--seeds", "0", "--lr", "0.1")
TINY_REGIME = Regime("tiny", "digits", "small-cnn", 3, 64, 8, 1, images=256, lrs=(0.02, 0.06, 0.18), tuning=2)
LAYERS = ("0.weight", "3.weight", "6.weight", "9.weight", "11.weight")
"""Weights of small-cnn."""


def rows_of(out):
    """Cells of the table's rows, by method."""
    lines = [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line[:1] == "│"]
    return {cells[0]: cells[1:] for cells in lines}


def outcomes(folder):
    """The content of outcomes.json."""
    return json.loads((folder / "outcomes.json").read_text())
