"""A board's bitstream from the sources, with open tools: writes ``results/board_build.json``.

Preset ``tiny`` on the ECPIX-5, as ``adagp board build`` makes it: resources that Yosys' netlist takes, of the device's;
``timing_met``: whether all clocks reach what they are constrained to, ``reached_of_needed``: the slowest's share of
that, by nextpnr's timing analysis. Details are the whole report: cells, places that nextpnr has used, each clock.

Half an hour; stopped, it goes on in its folder.
"""

import argparse
from pathlib import Path

from ...boards.build import build, find_board
from ...gen.provenance import commit, provenance
from ...host.console import writable
from ...spec.link import BAUD
from ...spec.presets import preset
from ...synth.parallel import ended_by_signals
from ..instruments.results import FOLDER, write_results
from ..instruments.synthesis import mistakes_in_a_line, one_seed

__all__ = ["NAME", "main"]

COMMAND = "python -m adagp.evaluation.benches.board_build"
NAME = "board_build"
BOARD, PRESET = "ecpix5", "tiny"


def _bench(arguments):
    began, board = commit(), find_board(BOARD)
    config = board.configure(preset(PRESET))
    report = build(board, config, arguments.folder, baud=BAUD, seed=arguments.seed, ignore_timing=True)
    origin = provenance(COMMAND, config, arguments.seed, began, "link")
    origin["tools"] = report.pop("provenance")["tools"]
    shares = [clock["reached"] / clock["needed"] for clock in report["clocks_mhz"].values()]
    figures = {name: counts["used"] for name, counts in report["resources"].items()}
    figures |= {"timing_met": report["timing_met"], "reached_of_needed": round(min(shares), 3)}
    figures = {f"{BOARD}_{PRESET}_{name}": value for name, value in figures.items()}
    write_results(arguments.output, figures, report, origin)
    for name, value in figures.items():
        print(f"{name}: {value}")


def main() -> None:
    """Entry point of ``nox -s bench_board_build``."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=one_seed, default=1, help="where the placer begins (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("build") / BOARD, help="default: %(default)s")
    parser.add_argument("--output", type=writable, default=FOLDER / f"{NAME}.json", help="default: %(default)s")
    with mistakes_in_a_line(), ended_by_signals():
        _bench(parser.parse_args())


if __name__ == "__main__":
    main()
