"""The four designs of a preset on an ECP5: writes ``results/ecp5.json``, of ``ecp5`` on an LFE5U-85F, speed grade 6.

Another preset or part has a file of its own, such as ``ecp5_8x8.json`` for the preset with 8 x 8 PEs.

Synthesised by Yosys, placed and routed by nextpnr, with several seeds; each seed takes ten minutes to an hour. ``lut``:
positions of LUTs taken, by logic, adders and distributed RAM; ``ebr``: block RAMs of 18 Kbit; ``multiplier``: of 18x18
bits: all without the shift registers that stand for pins. ``fmax``: by nextpnr's timing analysis, of the design with
these registers, whose paths count too; late nets are routed anew for the preset's clock while that has an end. With a
native nextpnr on the PATH it takes half the time, and clocks are faster. Details have resources block by block, and the
critical path of each seed by blocks.

What is finished is kept in the cache, and seeds that the output has aren't run again unless hardware, tools or flow
have changed: a bench that was stopped goes on, and more seeds can be added. ``--without-route`` asks for areas alone,
and doesn't replace results that have clocks.
"""

import json
from pathlib import Path

from ...spec.presets import PRESETS
from ...spec.validation import ConfigError
from ...synth.ecp5 import ECP5
from ..instruments.results import FOLDER
from ..instruments.synthesis import CLOCKS, bench, mistakes_in_a_line, parser, resources, unusual

__all__ = ["main", "result_of"]

COMMAND = "python -m adagp.evaluation.benches.ecp5"
PRESET, PART = "ecp5", "85k"


def result_of(preset: str, part: str) -> str:
    """The name of the results of a preset on a part."""
    name = preset if preset.startswith("ecp5") else f"ecp5_{preset}"
    return "_".join([name, *[part.partition("-")[0]] * (part != PART)])


def _keep_clocks(output: Path) -> None:
    """Raises ConfigError for results with clocks."""
    designs = json.loads(output.read_text()).get("details", {}).get("designs", ()) if output.exists() else ()
    if any("fmax_mhz" in design for design in designs):
        raise ConfigError(f"{output} has clocks, which --without-route would lose: choose another --output")


def main() -> None:
    """Entry point of ``nox -s bench_ecp5``."""
    names = resources("lut", "ff", "ebr", "multiplier") | CLOCKS
    options = parser(COMMAND, __doc__, None, "1-5")
    options.add_argument("--preset", choices=tuple(PRESETS), default=PRESET, help="default: %(default)s")
    options.add_argument("--part", choices=tuple(ECP5.parts), default=PART, help="default: %(default)s")
    options.add_argument("--without-route", action="store_true", help="areas alone")
    arguments = options.parse_args()
    asked = unusual(arguments, {"preset": PRESET, "part": PART})
    arguments.output = arguments.output or FOLDER / f"{result_of(arguments.preset, arguments.part)}.json"
    with mistakes_in_a_line():
        if arguments.without_route:
            _keep_clocks(arguments.output)
            arguments.seeds = []
            asked += " --without-route"
        bench(f"{COMMAND}{asked}", arguments, "ecp5", arguments.preset, names, part=arguments.part)


if __name__ == "__main__":
    main()
