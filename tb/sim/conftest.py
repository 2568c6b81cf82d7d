"""The tools of mutation testing, which are modules of the package ``tb``."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tools(monkeypatch):
    """Imports a module by its name."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module


@pytest.fixture
def mutant(tools):
    """Makes a mutant of a cell's port."""

    def make(cell, port, bit, mode):
        return tools("tb.mutation.choice").Mutant(1, "other", 3, "adagp", cell, "$and", port, bit, mode)

    return make
