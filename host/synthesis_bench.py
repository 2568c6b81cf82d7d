"""What the benches of synthesised hardware share: command line, progress, figures by design, results."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..spec.config import VARIANTS
from ..spec.presets import preset
from ..synth import flow
from ..synth.design import Design
from .cli_options import screen
from .cli_synth import numbers, progress_of
from .results import FOLDER, commit, provenance, write_results

__all__ = ["bench", "by_variant", "parser"]


def parser(command: str, text: str | None, output: str, seeds: str = "") -> argparse.ArgumentParser:
    """Options that these benches have: ``--variants``, ``--jobs``, ``--output``, and ``--seeds`` with a default."""
    found = argparse.ArgumentParser(
        prog=command, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    found.add_argument("--variants", default=",".join(VARIANTS), help="designs (default: %(default)s)")
    found.add_argument("--jobs", type=int, default=1, help="tools at once (default: %(default)s)")
    found.add_argument("--output", type=Path, default=FOLDER / output, help="default: %(default)s")
    if seeds:
        found.add_argument("--seeds", type=numbers, default=seeds, help="1-5 or 1,2,5 (default: %(default)s)")
    return found


def by_variant(found: Sequence[Mapping], names: Mapping[str, Callable[[Mapping], float | None]]) -> dict[str, float]:
    """Figures ``NAME_VARIANT`` of designs, each by a function of what is known of one; without those that have none."""
    figures = {f"{name}_{design['variant']}": of(design) for name, of in names.items() for design in found}
    return {name: value for name, value in figures.items() if value is not None}


def bench(
    command: str, arguments: argparse.Namespace, target: str, preset_name: str,
    names: Mapping[str, Callable[[Mapping], float | None]], more: Mapping | None = None,
) -> list[dict]:  # fmt: skip
    """Synthesise the designs of a preset, write figures and details; returns what is known of each.

    Place and route where ``arguments`` have seeds. What was made is kept in the cache: stopped, it goes on. So it does
    from the seeds that the output has already, if they are of the same netlists, tools and options.
    """
    source, config = commit(), preset(preset_name)
    seeds = list(getattr(arguments, "seeds", ()))
    designs = [Design(replace(config, variant=variant)) for variant in arguments.variants.split(",")]
    before = json.loads(arguments.output.read_text())["details"]["designs"] if arguments.output.exists() else []
    earlier = {design["design"]: design for design in before}
    with progress_of(screen) as report:
        found = flow.run(target, designs, flow.Options(seeds=seeds, jobs=arguments.jobs), report, earlier)
    for design in found:
        for key in ("folder", "placed"):
            design.pop(key, None)
    figures = by_variant(found, names)
    origin = provenance(command, config, seeds, source)
    origin["tools"] |= flow.tools(target, bool(seeds))
    write_results(arguments.output, figures, {"designs": found, **(more or {})}, origin)
    for name, value in figures.items():
        print(f"{name}: {value}")
    return found
