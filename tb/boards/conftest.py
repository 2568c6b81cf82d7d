"""LiteDRAM cores of the boards, generated once; the boards' component without the accelerator in it."""

import pytest
from adagp.boards.build import BOARDS, find_board
from adagp.boards.litedram_core import controller_of, make_core, settings

CLOCK = 100_000_000


@pytest.fixture(scope="session", params=BOARDS)
def core(request):
    """A board's finished LiteDRAM core, and its settings."""
    board = find_board(request.param)
    core_settings = settings(board.memory, 3, CLOCK, board.input_hz)
    made = make_core(core_settings)
    made.finalize()
    return made, core_settings


@pytest.fixture(scope="session")
def controller(core):
    """The description of a board's DRAM controller."""
    return controller_of(*core)
