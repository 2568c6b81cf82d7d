"""Shared parts of the benches of synthesised hardware: command line, progress, figures by design, results."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ...gen.provenance import commit, provenance
from ...host.console import LARGEST_SEED, at_least_one, numbers, screen, writable
from ...host.training.settings import SettingsError
from ...spec.config import VARIANTS, Config
from ...spec.presets import preset
from ...spec.validation import ConfigError
from ...synth import flow
from ...synth.design import Design
from ...synth.errors import TargetError, ToolError
from .results import FOLDER, write_results

if TYPE_CHECKING:
    from ...synth.flow import Report

__all__ = [
    "CLOCKS", "asked", "bench", "by_variant", "cells", "complain", "known_designs", "mistakes_in_a_line", "one_seed",
    "parser", "progress_of", "resources", "unusual", "usual_library",
]  # fmt: skip

Figure = Callable[[Mapping], float | None]
"""A figure of what is known of a design; None if it has none."""


def _entry(name: str) -> Figure:
    return lambda design: design.get(name)


CLOCKS = {name: _entry(name) for name in ("fmax_median_mhz", "fmax_best_mhz")}
"""Clocks of a placed design, for :func:`bench`."""


@contextmanager
def mistakes_in_a_line() -> Iterator[None]:
    """Reports errors of the block in one line; exit code 2 for a mistake, 1 for a tool."""
    try:
        yield
    except (ConfigError, SettingsError, TargetError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}" if error.filename else f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except ToolError as error:
        print(f"failed: {error}", file=sys.stderr)
        sys.exit(1)


def _seeds(text):
    try:
        return numbers(text)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def one_seed(text: str) -> int:
    """A placer's seed, for ``type`` of argparse."""
    if not text.isdecimal() or not 1 <= int(text) <= LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"must be one seed, from 1 to {LARGEST_SEED}, not {text!r}")
    return int(text)


def parser(command: str, text: str | None, output: str | None, seeds: str = "") -> argparse.ArgumentParser:
    """Options that these benches have: ``--variants``, ``--jobs``, ``--output``, and ``--seeds`` with a default.

    Without a name of results ``--output`` has no default.
    """
    found = argparse.ArgumentParser(
        prog=command, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    found.add_argument("--variants", default=",".join(VARIANTS), help="designs (default: %(default)s)")
    found.add_argument("--jobs", type=at_least_one, default=1, help="tools at once (default: %(default)s)")
    path, usual = (FOLDER / output, "%(default)s") if output else (None, "a file in results/ by what is measured")
    found.add_argument("--output", type=writable, default=path, help=f"default: {usual}")
    if seeds:
        found.add_argument("--seeds", type=_seeds, default=seeds, help="1-5 or 1,2,5 (default: %(default)s)")
    return found


def unusual(arguments: argparse.Namespace, usual: Mapping[str, str]) -> str:
    """The options, each after a space, whose values aren't the usual ones: what a command line has to name."""
    chosen = {name: getattr(arguments, name) for name in usual}
    return "".join(f" --{name} {value}" for name, value in chosen.items() if value != usual[name])


def resources(*names: str) -> dict[str, Figure]:
    """Resources of a design by name, for :func:`bench`."""

    def of(name: str) -> Figure:
        return lambda design: design["resources"][name]

    return {name: of(name) for name in names}


def asked(arguments: argparse.Namespace, config: Config) -> list[Design]:
    """The designs that a command line names; raises ConfigError."""
    return [Design(replace(config, variant=variant)) for variant in arguments.variants.split(",")]


def by_variant(found: Sequence[Mapping], names: Mapping[str, Figure]) -> dict[str, float]:
    """Figures ``NAME_VARIANT`` of designs, each by a function of what is known of one; without those that have none."""
    figures = {f"{name}_{design['variant']}": of(design) for name, of in names.items() for design in found}
    return {name: value for name, value in figures.items() if value is not None}


def bench(
    command: str, arguments: argparse.Namespace, target: str, preset_name: str,
    names: Mapping[str, Figure], more: Mapping | None = None, part: str | None = None,
) -> None:  # fmt: skip
    """Synthesise the designs of a preset for a part; of all that are known, figures and details are written.

    With seeds it is one design after the other, and written each time.

    What was made is kept in the cache: stopped, it goes on. So it does from what the output has of this hardware, these
    tools and this flow: designs that aren't asked for stay, and of those that are, seeds that would be found again.
    A design's ``commit`` is that of its last run, the file's that of the last design's; ``seed`` are those of any
    design. Raises what is wrong with the designs, as :func:`complain` does, when all is written.
    """
    source, config = commit(), preset(preset_name)
    designs = asked(arguments, config)
    seeds = list(getattr(arguments, "seeds", ()))
    origin = provenance(command, config, seeds, source)
    origin["tools"] |= flow.tools(target, bool(seeds))
    origin |= flow.chosen(target, flow.Options(part))
    known = known_designs(arguments.output, origin)
    figures: dict[str, float] = {}
    ordered: list[dict] = []
    with progress_of(screen) as report:
        for group in [[design] for design in designs] if seeds else [designs]:
            for found in flow.run(target, group, flow.Options(part, seeds=seeds, jobs=arguments.jobs), report, known):
                kept = {key: found[key] for key in found if key not in ("folder", "placed")}
                known[found["design"]] = kept | {"commit": source}
            ordered = sorted(known.values(), key=lambda design: VARIANTS.index(design["variant"]))
            figures = by_variant(ordered, names)
            origin["seed"] = sorted({*seeds, *(int(seed) for one in ordered for seed in one.get("placements", ()))})
            write_results(arguments.output, figures, {"designs": ordered, **(more or {})}, origin)
    for name, value in figures.items():
        print(f"{name}: {value}")
    complain(ordered)


def known_designs(output: Path, origin: Mapping) -> dict[str, dict]:
    """Designs by name that a result file has, if they are of the same hardware, configuration, tools and flow."""
    if not output.exists():
        return {}
    before = json.loads(output.read_text())
    same = all(before["provenance"].get(key) == origin[key] for key in ("hardware", "config_hash", "tools"))
    designs = before["details"]["designs"] if same else ()
    return {design["design"]: design for design in designs if design.get("flow") == origin["flow"]}


@contextmanager
def progress_of(console: Console) -> Iterator["Report"]:
    """A line for each job that runs: what its tool does, and for how long; a process that ends ends its tools."""
    from ...synth.parallel import ended_by_signals

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TextColumn("{task.fields[now]}")
    with ended_by_signals(), Progress(*columns, console=console) as bar:

        def report(job):
            task = bar.add_task(job, total=1, now="")

            def say(now):
                bar.update(task, now=now[:60], completed=0 if now else 1)

            return say

        yield report


def usual_library() -> Path:
    """The cells that are taken where no others are given; raises ToolError where they aren't installed."""
    from ...synth.asic.cells import LIBERTY
    from ...synth.errors import ToolError

    if not LIBERTY.exists():
        hint = "Debian: apt install qflow-tech-osu018; others: --liberty"
        raise ToolError(f"{LIBERTY} was not found ({hint})")
    return LIBERTY


def cells(designs: "Sequence[Design]", liberty: Path | None, power: bool, jobs: int, report: "Report") -> list[dict]:
    """Figures of designs in standard cells, with the power of simulated batches if it is asked for."""
    from ...synth.asic.activity import Activity
    from ...synth.asic.cells import figures
    from ...synth.asic.liberty import Library
    from ...synth.asic.sta import sta_command
    from ...synth.parallel import results, side_by_side
    from ...synth.yosys import yosys_version
    from .activity import activities

    library = Library(liberty or usual_library())
    _ = yosys_version(), sta_command()  # missing tools are better known before the work than after
    known: dict[str, dict[str, Activity]] = {}
    for design in designs if power else ():
        say = report(f"{design.name}: activity")
        say("simulation with toggles counted")
        known[design.name] = activities(design.config, design.place)
        say("")
    with side_by_side(jobs) as submit:
        calls = [
            (figures, design, library, known.get(design.name, {}), report(f"{design.name}: cells"))
            for design in designs
        ]
        return results(submit, calls)


def complain(found: Sequence[Mapping]) -> None:
    """Raises what is wrong with figures of designs, once all of them are shown.

    FitError; ToolError for a tool that failed; RouteError for a design that has no route with any seed.
    """
    from ...synth import flow
    from ...synth.errors import RouteError

    flow.complain(found)
    for figures in found:
        if figures.get("unrouted") and not figures.get("fmax_mhz"):
            raise RouteError(next(iter(figures["unrouted"].values())))
