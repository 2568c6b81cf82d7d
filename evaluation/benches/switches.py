"""The area that each switch of the generator adds, on an ECP5 and on Xilinx' 7 series: ``results/switches.json``.

Preset ``tiny`` with all switches off, with each alone, and with all. Figures are ``RESOURCE_FAMILY_VARIANT_SWITCHES``;
``none`` and ``all`` stand for no switch and for all of them.

What is finished is kept in the cache: a bench that was stopped goes on.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ...gen.provenance import SWITCHED, commit, provenance
from ...host.console import screen
from ...spec.config import SWITCHES
from ...spec.presets import preset
from ...synth import flow
from ...synth.design import Design
from ..instruments.results import write_results
from ..instruments.synthesis import complain, mistakes_in_a_line, parser, progress_of

__all__ = ["main"]

COMMAND = "python -m adagp.evaluation.benches.switches"
PRESET = "tiny"
VARIANTS = ("baseline", "max")
RESOURCES = {
    "ecp5": ("lut", "ff", "ebr", "multiplier"), "xilinx": ("lut", "ff", "ramb36", "ramb18", "dsp48"),
}  # fmt: skip


def main(arguments: Iterable[str] | None = None) -> None:
    """Entry point of ``nox -s bench_switches``."""
    options = parser(COMMAND, __doc__, "switches.json")
    options.set_defaults(variants=",".join(VARIANTS))
    options.add_argument("--switches", nargs="*", choices=SWITCHES, default=SWITCHES, help="default: all")
    given = options.parse_args(None if arguments is None else list(arguments))
    source, base = commit(), preset(PRESET)
    sets: dict[str, tuple[str, ...]] = {"none": (), **{name: (name,) for name in given.switches}}
    if len(given.switches) > 1:
        sets["all"] = tuple(given.switches)
    figures: dict[str, float] = {}
    details: list[dict] = []
    with mistakes_in_a_line(), progress_of(screen) as report:
        for variant in given.variants.split(","):
            for label, switches in sets.items():
                fields: dict[str, Any] = {"variant": variant, **dict.fromkeys(switches, True)}
                design = Design(replace(base, **fields))
                for family, resources in RESOURCES.items():
                    (found,) = flow.run(family, [design], flow.Options(jobs=given.jobs), report)
                    kept = {key: value for key, value in found.items() if key not in ("folder", "placed", "blocks")}
                    details.append({"switches": list(switches), **kept})
                    for resource in resources:
                        figures[f"{resource}_{family}_{variant}_{label}"] = found["resources"][resource]
        origin = provenance(COMMAND, base, [], source, SWITCHED)
        origin["tools"] |= {
            name: version for family in RESOURCES for name, version in flow.tools(family, False).items()
        }
        write_results(given.output, figures, {"designs": details}, origin)
        for name, value in figures.items():
            print(f"{name}: {value}")
        complain(details)


if __name__ == "__main__":
    main()
