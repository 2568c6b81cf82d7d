"""The four designs of a preset in standard cells, with the power of real batches: writes ``results/asic.json``.

Synthesised by Yosys and ABC, timed by OpenSTA; areas in square micrometres, powers in watts. Without ``--liberty`` the
cells are osu018's (180 nm). Each library has a file of its own: ``asic_sg13g2.json``, ``asic_sky130.json``.

``area``: of cells, and of memories by the model of ``synth/asic/sram.py``; no wires, no clock tree, no pads.
``fmax_gates_mhz``: between flip-flops, without wires, paths to and from memories, and delays of inputs and outputs.
``power_bp_w``, ``power_gp_w``: at the preset's clock in a batch with backpropagation and in one with predicted
gradients, of the default network, with the activity of the simulated RTL. In it are cells, their pins (those of the
clock too) and memories by their accesses; wires, a clock tree and glitches aren't. Clock gates are there if the library
has a cell for them, as osu018 hasn't; a clock after one ticks in the cycles for which it is open. What words of
memories made of flip-flops do is estimated from their writes. Details have areas by block, memories, power by kind, the
share of flip-flops whose activity is known, the mean share of cycles in which the clock of a flip-flop ticks
(``clock_open``), and the power of clocks if all gates were open.

What is finished is kept in the cache: a bench that was stopped goes on. ``--without-power`` leaves out the simulation,
whose simulators take long to build; a later run adds the powers. Designs that aren't asked for stay, if they are of
the same hardware and tools.
"""

import argparse
import subprocess
from pathlib import Path

from ...gen.cache import code, digest
from ...gen.provenance import commit, provenance
from ...host.console import screen
from ...host.training.sources import training_sources
from ...spec.config import VARIANTS
from ...spec.presets import PRESETS, preset
from ...spec.validation import ConfigError
from ...synth.asic.liberty import Library
from ...synth.asic.sta import sta_command
from ...synth.source_digest import CELLS, CODE
from ..instruments import activity
from ..instruments.results import FOLDER, write_results
from ..instruments.synthesis import (
    asked,
    by_variant,
    cells,
    known_designs,
    mistakes_in_a_line,
    parser,
    progress_of,
    usual_library,
)

__all__ = ["flow", "main", "result_of"]

COMMAND = "python -m adagp.evaluation.benches.asic"
FIGURES = {
    "area": lambda design: design["area"], "fmax_gates_mhz": lambda design: design["fmax_best_mhz"],
    "power_bp_w": lambda design: design.get("power_bp_w", {}).get("total"),
    "power_gp_w": lambda design: design.get("power_gp_w", {}).get("total"),
}  # fmt: skip


RESULTS = {"osu018": "asic", "sg13g2": "asic_sg13g2", "sky130": "asic_sky130"}
"""Names of results, by how the names of libraries' files begin."""


def result_of(liberty: Path) -> str:
    """The name of the results of a library's cells."""
    return next((name for start, name in RESULTS.items() if liberty.stem.startswith(start)), f"asic_{liberty.stem}")


def _tools(library: Path) -> dict[str, str]:
    """OpenSTA's version and the cells' digest; raises ToolError."""
    version = subprocess.run([sta_command(), "-version"], capture_output=True, text=True).stdout.strip()
    return {"opensta": version, library.name: digest(library.read_bytes())}


def flow() -> str:
    """A digest of all that figures hang on but hardware and tools: what counts them, and the batches it counts."""
    return digest(*(CODE[name] for name in CELLS), code(Path(activity.__file__)), training_sources())


def _bench(arguments: argparse.Namespace, liberty: Path, output: Path) -> None:
    source, config = commit(), preset(arguments.preset)
    designs = asked(arguments, config)
    command = f"{COMMAND} --preset {config.name} --liberty {liberty.name}"
    origin = provenance(command, config, [], source) | {"flow": flow()}
    origin["tools"] |= _tools(liberty)
    known = known_designs(output, origin)
    figures: dict[str, float] = {}
    for group in [[design] for design in designs] if arguments.jobs == 1 else [designs]:
        with progress_of(screen) as report:
            made = cells(group, liberty, not arguments.without_power, arguments.jobs, report)
        for found in made:
            before = known.get(found["design"], {})
            powers = {key: value for key, value in before.items() if key.startswith("power_")}
            kept = {key: value for key, value in found.items() if key != "folder"}
            known[found["design"]] = powers | kept | {"commit": source, "flow": origin["flow"]}
        ordered = sorted(known.values(), key=lambda design: VARIANTS.index(design["variant"]))
        figures = by_variant(ordered, FIGURES)
        write_results(output, figures, {"designs": ordered}, origin)
    for name, value in figures.items():
        print(f"{name}: {value}")


def main() -> None:
    """Entry point of ``nox -s bench_asic``."""
    options = parser(COMMAND, __doc__, None)
    options.add_argument("--preset", choices=tuple(PRESETS), default="tiny", help="default: %(default)s")
    options.add_argument("--liberty", type=Path, action="append", help="cells; may be given several times")
    options.add_argument("--without-power", action="store_true", help="areas and clocks alone")
    arguments = options.parse_args()
    with mistakes_in_a_line():
        libraries = arguments.liberty or [usual_library()]
        if arguments.output and len(libraries) > 1:
            raise ConfigError("--output is for one library: several have a file each")
        if len({result_of(liberty) for liberty in libraries}) < len(libraries):
            raise ConfigError(
                "two of the libraries have the same results file: give each a run with an --output of its own"
            )
        for liberty in libraries:
            Library(liberty)  # a mistake in one is better known before the work than after
        for liberty in libraries:
            _bench(arguments, liberty, arguments.output or FOLDER / f"{result_of(liberty)}.json")


if __name__ == "__main__":
    main()
