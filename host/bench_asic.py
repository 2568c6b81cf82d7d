"""The four designs of preset ``tiny`` in standard cells, with the power of real batches: writes ``results/asic.json``.

Synthesised by Yosys and ABC with osu018 (180 nm), timed by OpenSTA without wires, memories by the model of
``synth/memories.py``. ``area``: of cells and memories, in square micrometres; ``fmax_best_mhz``: between flip-flops;
``power_bp_w``, ``power_gp_w``: watts at the preset's clock in a batch with backpropagation and in one with predicted
gradients, of the default network, with the activity of the simulated RTL. The clock is on all the while: there are no
clock gates in these netlists. Details have areas by block, memories, and power by kind.

What is finished is kept in the cache: a bench that was stopped goes on.
"""

from dataclasses import replace

from ..spec.presets import PRESETS, preset
from ..synth.design import Design
from .cli_options import screen
from .cli_synth import cells, progress_of
from .results import commit, provenance, write_results
from .synthesis_bench import parser

__all__ = ["main"]

COMMAND = "python -m adagp.host.bench_asic"


def main() -> None:
    """Entry point of ``nox -s bench_asic``."""
    options = parser(COMMAND, __doc__, "asic.json")
    options.add_argument("--preset", choices=tuple(PRESETS), default="tiny", help="default: %(default)s")
    arguments = options.parse_args()
    source, config = commit(), preset(arguments.preset)
    designs = [Design(replace(config, variant=variant)) for variant in arguments.variants.split(",")]
    with progress_of(screen) as report:
        found = cells(designs, None, True, arguments.jobs, report)
    figures: dict[str, float] = {}
    for design in found:
        variant = design["variant"]
        figures |= {f"area_{variant}": design["area"], f"fmax_best_mhz_{variant}": design["fmax_best_mhz"]}
        for phase in ("bp", "gp"):
            if f"power_{phase}_w" in design:
                figures[f"power_{phase}_w_{variant}"] = design[f"power_{phase}_w"]["total"]
        design.pop("folder")
    write_results(arguments.output, figures, {"designs": found}, provenance(COMMAND, config, [], source))
    for name, value in figures.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
