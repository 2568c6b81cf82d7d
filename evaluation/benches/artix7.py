"""Designs of a preset placed and routed on an Artix-7 by open tools: writes ``results/artix7.json``, of ``tiny``.

Another preset has a file of its own, such as ``artix7_xc7a100t.json`` for the one with 8 x 8 PEs.

Synthesised by Yosys without LUTs as memories, placed and routed by nextpnr-himbaechel-xilinx, which must be on the
PATH. ``lut``: LUTs of any size, each one; ``ff``; ``ramb36`` and ``ramb18``: block RAMs; ``dsp48``: DSP48E1; all
without the shift registers that stand for pins. ``fmax``: an open estimate, by nextpnr's timing analysis, which knows
no speed grade and times no path through a DSP48E1.

What is finished is kept in the cache, and seeds that the output has aren't run again unless hardware, tools or flow
have changed: a bench that was stopped goes on, and more seeds or designs can be added.
"""

from ...spec.config import VARIANTS
from ...spec.presets import PRESETS
from ...synth.xilinx import ARTIX7
from ..instruments.results import FOLDER
from ..instruments.synthesis import CLOCKS, bench, mistakes_in_a_line, parser, resources, unusual

__all__ = ["main", "result_of"]

COMMAND = "python -m adagp.evaluation.benches.artix7"
PRESET, PART = "tiny", "xc7a100t"


def result_of(preset: str) -> str:
    """The name of the results of a preset."""
    return "_".join(["artix7", *[preset] * (preset != PRESET)])


def main() -> None:
    """Entry point of ``nox -s bench_artix7``."""
    names = resources("lut", "ff", "ramb36", "ramb18", "dsp48") | CLOCKS
    options = parser(COMMAND, __doc__, None, "1")
    options.add_argument("--preset", choices=tuple(PRESETS), default=PRESET, help="default: %(default)s")
    options.add_argument("--part", choices=tuple(ARTIX7.parts), default=PART, help="default: %(default)s")
    arguments = options.parse_args()
    asked = unusual(arguments, {"preset": PRESET, "part": PART, "variants": ",".join(VARIANTS)})
    arguments.output = arguments.output or FOLDER / f"{result_of(arguments.preset)}.json"
    with mistakes_in_a_line():
        bench(f"{COMMAND}{asked}", arguments, "artix7", arguments.preset, names, part=arguments.part)


if __name__ == "__main__":
    main()
