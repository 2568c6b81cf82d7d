"""A board's build: the accelerator's Verilog, the DRAM controller's, the design around them, the tools' runs."""

import json
import warnings
from importlib import import_module
from pathlib import Path

from amaranth.hdl import UnusedElaboratable
from amaranth.lib import wiring

from ..gen.description import describe
from ..gen.files import write_atomically
from ..gen.generator_sources import generator_sources
from ..gen.provenance import commit, provenance
from ..gen.verilog import Vendor, to_verilog
from ..spec.config import Config
from ..synth.yosys import yosys_version
from . import flow_ecp5, flow_vivado, litedram_core
from .board import Board, BoardTop
from .errors import BoardError
from .steps import Steps, alone
from .tools import packages

warnings.simplefilter("ignore", UnusedElaboratable)  # an accelerator whose Verilog is there isn't elaborated again

__all__ = ["BOARDS", "build", "find_board", "prepare"]

BOARDS = ("ecpix5", "arty_a7")

RESULTS = ("top.bit", "board.json")
"""There only if the last build has ended well: bitstream and report belong together, and to what else is there."""

FLOWS = {"ecp5": flow_ecp5, "vivado": flow_vivado}
"""Modules with the tools' work, by :attr:`~.board.Board.flow`."""


def find_board(name: str) -> Board:
    """The board called ``name``; raises BoardError listing those there are."""
    if name not in BOARDS:
        raise BoardError(f"no board {name!r}; there are: {', '.join(BOARDS)}")
    return import_module(f".{name}", __package__).BOARD


def linked(config: Config, baud: int) -> wiring.Component:
    """The accelerator with its host link."""
    from ..rtl.top_with_link import TopWithLink

    return TopWithLink(config, baud)


def prepare(board: Board, config: Config, component: wiring.Component, key: object, steps: Steps) -> list[Path]:
    """Write all that tools need into the folder; returns the paths of the design's files.

    ``component``: the accelerator with ``rx``, ``tx``, ``m_axi`` and ``dram_csr``; ``key``: all that it depends on.
    """
    folder = steps.folder
    verilog = folder / "adagp.v"

    def generate():
        verilog.write_text(to_verilog(component, Vendor(board.target.family)))

    steps.run("accelerator", [key, generator_sources()], [verilog.name], generate)
    memory = litedram_core.settings(board.memory, len(component.m_axi.arid), config.clock_hz, board.input_hz)
    controller = litedram_core.emit(memory, folder)
    controller.save(folder / "dram.json")
    platform = _platform(board)
    for path in (verilog, folder / f"{litedram_core.MODULE}.v"):
        platform.add_file(path.name, path.read_text())
    plan = platform.prepare(
        BoardTop(board, component, controller.memory_bytes),
        "top",
        **(FLOWS[board.flow].OVERRIDES | dict(board.overrides)),
    )
    for name, content in plan.files.items():
        if not (folder / name).exists() or (folder / name).read_text() != content:
            (folder / name).write_text(content)
    return [folder / name for name in plan.files if name.endswith((".v", ".il")) and "debug" not in name]


def _platform(board):
    try:
        return board.platform()
    except ImportError as error:
        raise BoardError(f"boards need amaranth-boards ({error}): pip install 'adagp[boards]'") from None


def build(
    board: Board, config: Config, folder: Path, *, baud: int, seed: int = 1, ignore_timing: bool = False,
    component: wiring.Component | None = None,
) -> dict:  # fmt: skip
    """Build ``config``, already one that the board can have, into ``folder``; returns the report.

    For an ECP5 that is ``top.bit``; for another device a project of its vendor's tool and Yosys' count of cells.
    Steps done before for the same sources by the same tools aren't repeated. ``component`` replaces the accelerator
    with its link. Raises BoardError, FitError and ToolError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        for name in RESULTS:
            (folder / name).unlink(missing_ok=True)
        report = _build(board, config, Steps(folder), baud, seed, ignore_timing, component or linked(config, baud))
        write_atomically(folder / "board.json", (json.dumps(report, indent=1) + "\n").encode())
    return report


def _build(board, config, steps, baud, seed, ignore_timing, component):
    began = commit()
    sources = prepare(board, config, component, (config.to_dict(), baud, type(component).__qualname__), steps)
    (steps.folder / "accelerator.json").write_text(json.dumps(describe(config), indent=2) + "\n")
    found = FLOWS[board.flow].build(steps, board, sources, seed, ignore_timing)
    origin = provenance(f"adagp board build {board.name}", config, seed, began)
    origin["tools"] |= packages() | {"yosys": yosys_version()} | found.pop("tools")
    used = board.target.resources(found["cells"])
    return {
        "board": board.name, "title": board.title, "variant": config.variant, "baud": baud, "seed": seed,
        "part": board.part.name,
        "resources": {name: {"used": used[name], "available": has} for name, has in board.part.has.items()},
        **found, "provenance": origin,
    }  # fmt: skip
