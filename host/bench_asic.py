"""The four designs of preset ``tiny`` in standard cells, with the power of real batches: writes ``results/asic.json``.

Synthesised by Yosys and ABC with osu018 (180 nm), timed by OpenSTA; areas in square micrometres, powers in watts.

``area``: of cells, and of memories by the model of ``synth/memories.py``; no wires, no clock tree, no pads.
``fmax_best_mhz``: between flip-flops, without wires, paths to and from memories, and delays of inputs and outputs.
``power_bp_w``, ``power_gp_w``: at the preset's clock in a batch with backpropagation and in one with predicted
gradients, of the default network, with the activity of the simulated RTL. In it are cells, their pins (those of the
clock too, which is on all the while: there are no clock gates in these netlists) and memories by their accesses; wires
and a clock tree aren't. What words of memories made of flip-flops do is estimated from their writes. Details have areas
by block, memories, power by kind and the share of flip-flops whose activity is known.

What is finished is kept in the cache: a bench that was stopped goes on. Designs that aren't asked for stay, if they
are of the same hardware and tools.
"""

import argparse
import subprocess
import sys
from dataclasses import replace

from ..gen.cache import digest
from ..spec.config import VARIANTS, ConfigError
from ..spec.presets import PRESETS, preset
from ..synth.asic import LIBERTY
from ..synth.design import Design
from ..synth.errors import TargetError, ToolError
from .cli_options import screen
from .cli_synth import cells, progress_of
from .results import commit, provenance, write_results
from .synthesis_bench import _kept, by_variant, parser

__all__ = ["main"]

COMMAND = "python -m adagp.host.bench_asic"
FIGURES = {
    "area": lambda design: design["area"], "fmax_best_mhz": lambda design: design["fmax_best_mhz"],
    "power_bp_w": lambda design: design.get("power_bp_w", {}).get("total"),
    "power_gp_w": lambda design: design.get("power_gp_w", {}).get("total"),
}  # fmt: skip


def _tools() -> dict[str, str]:
    """OpenSTA's version and the cells' digest; raises ToolError."""
    try:
        version = subprocess.run(["sta", "-version"], capture_output=True, text=True).stdout.strip()
        return {"opensta": version, LIBERTY.name: digest(LIBERTY.read_bytes())}
    except FileNotFoundError as error:
        raise ToolError(f"standard cells need OpenSTA and osu018, and {error.filename} was not found") from None


def _bench(arguments: argparse.Namespace) -> None:
    source, config = commit(), preset(arguments.preset)
    origin = provenance(COMMAND, config, [], source)
    origin["tools"] |= _tools()
    known = _kept(arguments.output, origin)
    designs = [Design(replace(config, variant=variant)) for variant in arguments.variants.split(",")]
    with progress_of(screen) as report:
        for found in cells(designs, None, True, arguments.jobs, report):
            known[found["design"]] = {key: value for key, value in found.items() if key != "folder"}
    ordered = sorted(known.values(), key=lambda design: VARIANTS.index(design["variant"]))
    figures = by_variant(ordered, FIGURES)
    write_results(arguments.output, figures, {"designs": ordered}, origin)
    for name, value in figures.items():
        print(f"{name}: {value}")


def main() -> None:
    """Entry point of ``nox -s bench_asic``: exits with 1 where a tool fails, with 2 where an option is wrong."""
    options = parser(COMMAND, __doc__, "asic.json")
    options.add_argument("--preset", choices=tuple(PRESETS), default="tiny", help="default: %(default)s")
    try:
        _bench(options.parse_args())
    except (ToolError, TargetError, ConfigError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1 if isinstance(error, ToolError) else 2)


if __name__ == "__main__":
    main()
