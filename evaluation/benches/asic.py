"""The four designs of preset ``tiny`` in standard cells, with the power of real batches: writes ``results/asic.json``.

Synthesised by Yosys and ABC with osu018 (180 nm), timed by OpenSTA; areas in square micrometres, powers in watts.

``area``: of cells, and of memories by the model of ``synth/asic/sram.py``; no wires, no clock tree, no pads.
``fmax_gates_mhz``: between flip-flops, without wires, paths to and from memories, and delays of inputs and outputs.
``power_bp_w``, ``power_gp_w``: at the preset's clock in a batch with backpropagation and in one with predicted
gradients, of the default network, with the activity of the simulated RTL. In it are cells, their pins (those of the
clock too, which is on all the while: there are no clock gates in these netlists) and memories by their accesses; wires,
a clock tree and glitches aren't. What words of memories made of flip-flops do is estimated from their writes. Details
have areas by block, memories, power by kind and the share of flip-flops whose activity is known.

What is finished is kept in the cache: a bench that was stopped goes on. Designs that aren't asked for stay, if they
are of the same hardware and tools.
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
from ...synth.asic.sta import sta_command
from ...synth.source_digest import CELLS, CODE
from ..instruments import activity
from ..instruments.results import write_results
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

__all__ = ["flow", "main"]

COMMAND = "python -m adagp.evaluation.benches.asic"
FIGURES = {
    "area": lambda design: design["area"], "fmax_gates_mhz": lambda design: design["fmax_best_mhz"],
    "power_bp_w": lambda design: design.get("power_bp_w", {}).get("total"),
    "power_gp_w": lambda design: design.get("power_gp_w", {}).get("total"),
}  # fmt: skip


def _tools() -> dict[str, str]:
    """OpenSTA's version and the cells' digest; raises ToolError."""
    version = subprocess.run([sta_command(), "-version"], capture_output=True, text=True).stdout.strip()
    library = usual_library()
    return {"opensta": version, library.name: digest(library.read_bytes())}


def flow() -> str:
    """A digest of all that figures hang on but hardware and tools: what counts them, and the batches it counts."""
    return digest(*(CODE[name] for name in CELLS), code(Path(activity.__file__)), training_sources())


def _bench(arguments: argparse.Namespace) -> None:
    source, config = commit(), preset(arguments.preset)
    designs = asked(arguments, config)
    origin = provenance(COMMAND, config, [], source) | {"flow": flow()}
    origin["tools"] |= _tools()
    known = known_designs(arguments.output, origin)
    with progress_of(screen) as report:
        for found in cells(designs, None, True, arguments.jobs, report):
            kept = {key: value for key, value in found.items() if key != "folder"}
            known[found["design"]] = kept | {"commit": source, "flow": origin["flow"]}
    ordered = sorted(known.values(), key=lambda design: VARIANTS.index(design["variant"]))
    figures = by_variant(ordered, FIGURES)
    write_results(arguments.output, figures, {"designs": ordered}, origin)
    for name, value in figures.items():
        print(f"{name}: {value}")


def main() -> None:
    """Entry point of ``nox -s bench_asic``."""
    options = parser(COMMAND, __doc__, "asic.json")
    options.add_argument("--preset", choices=tuple(PRESETS), default="tiny", help="default: %(default)s")
    arguments = options.parse_args()
    with mistakes_in_a_line():
        _bench(arguments)


if __name__ == "__main__":
    main()
