"""Measure the boards' memory, simulated: results/board_memory.json.

LiteDRAM's core, with its model of PHY and memory, which has the real ones' latencies and checks the memory's timing,
moves bursts over the port that the accelerator has. Beside what comes of it stands what the preset's own DRAM model
would give: its bandwidth but for refreshes, and its latency. Bandwidths are in bytes a second; `_of_model` is the share
of the model's.
"""

import argparse
import json
import tempfile
from pathlib import Path

from adagp.boards.build import find_board
from adagp.evaluation.instruments.results import FOLDER, write_results
from adagp.gen.provenance import commit, provenance
from adagp.spec.presets import preset
from rich.console import Console
from runner import run
from simulated_core import emit_simulated

__all__ = ["main"]

COMMAND = "python -m tb.boards"
CASES = (("ecpix5", "ecp5"), ("arty_a7", "ecp5"), ("ecpix5", "tiny"))
SEED = 3


def measure(board_name: str, preset_name: str) -> tuple[dict, dict]:
    """Figures and details of a preset on a board."""
    board = find_board(board_name)
    config = board.configure(preset(preset_name))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path, controller = emit_simulated(board, config, config.clock_hz, folder)
        controller.save(folder / "dram.json")
        out = folder / "found.json"
        run(
            "traffic", path, config, folder, seed=SEED, testcase="speed",
            controller=str(folder / "dram.json"), out=str(out),
        )  # fmt: skip
        assert "violation" not in (folder / "bench.log").read_text(), "the memory's timing was broken"
        found = json.loads(out.read_text())
    part = config.dram
    model = min(
        part.bandwidth_bytes * (1 - part.refresh_ns / part.refresh_interval_ns), config.beat_bytes * config.clock_hz
    )
    latency = found.pop("latency_cycles")
    figures = {
        "clock_hz": config.clock_hz, "transfers_per_second": controller.transfers_per_second,
        "peak_bytes_per_second": controller.transfers_per_second * controller.data_bits // 8,
        "latency_ns": round(latency * 1e9 / config.clock_hz, 1),
        **{name: round(per_cycle * config.clock_hz) for name, per_cycle in found.items()},
        **{f"{name}_of_model": round(per_cycle * config.clock_hz / model, 3) for name, per_cycle in found.items()},
    }  # fmt: skip
    details = {"model": part.name, "model_bytes_per_second": round(model), "model_latency_ns": part.latency_ns}
    prefix = f"{board_name}_{preset_name}"
    return {f"{prefix}_{name}": value for name, value in figures.items()}, {prefix: details}


def main() -> None:
    """Entry point of ``nox -s bench_boards``."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=FOLDER / "board_memory.json")
    arguments = parser.parse_args()
    source, figures, details = commit(), {}, {}
    screen = Console(stderr=True, highlight=False)
    for board_name, preset_name in CASES:
        with screen.status(f"{preset_name} on {board_name}: building and running its simulation"):
            found, more = measure(board_name, preset_name)
        figures |= found
        details |= more
    write_results(arguments.output, figures, details, provenance(COMMAND, preset("ecp5"), SEED, source))
    for name, value in figures.items():
        print(f"{name}: {value}")
