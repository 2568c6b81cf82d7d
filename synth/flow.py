"""From designs to figures: synthesis, fit, place and route with several seeds."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

from . import ecp5, ice40, netlist, nextpnr, xilinx
from .breakdown import tree
from .child import Say
from .design import Design
from .errors import RouteError
from .jobs import results, side_by_side
from .netlist import HARNESS
from .target import Part, Target
from .yosys import synthesise, yosys_version

__all__ = ["FPGAS", "Options", "Report", "keep", "run", "tools"]

FPGAS = {"ecp5": (ecp5.ECP5, ecp5.ROUTER), "xilinx": (xilinx.XILINX, None), "ice40": (ice40.ICE40, ice40.ROUTER)}
"""Targets by name, and what places and routes them here."""

Report = Callable[[str], Say]
"""Given a job's name as it begins; what it returns is told what the job does, at last ``""``."""


@dataclass(frozen=True)
class Options:
    """How to place and route; None: the usual part, package, speed grade, and a tenth more than the design's clock."""

    part: str | None = None
    package: str | None = None
    speed: str | None = None
    seeds: Sequence[int] = ()
    freq_mhz: float | None = None
    jobs: int = 1


@dataclass(frozen=True)
class _Synthesised:
    design: Design
    folder: Path
    cells: netlist.Cells


def _synthesise(design: Design, target: Target, report: Report) -> _Synthesised:
    say = report(f"{design.name}: synthesis")
    say("Verilog from Amaranth")
    rtlil = design.rtlil(target.family, target.harness)
    folder = synthesise(f"{target.name}-{design.name}", rtlil, target.script, say)
    say("counting")
    cells = netlist.count(folder, design.scope(target.harness))
    say("")
    return _Synthesised(design, folder, cells)


def _summary(done: _Synthesised, target: Target, part: Part) -> dict:
    used = target.resources(done.cells.total())
    with_harness = target.resources(done.cells.total(done.cells.counts))
    summary = {
        "design": done.design.name, "variant": done.design.config.variant, "block": done.design.block,
        "resources": used, "available": dict(part.has),
        "harness": target.resources(done.cells.total([HARNESS])) if target.harness else {},
        "blocks": tree(done.cells, target), "nameless": round(done.cells.nameless, 5),
        "uncounted": target.uncounted(done.cells.total()), "folder": str(done.folder),
    }  # fmt: skip
    if target is xilinx.XILINX:
        summary["luts_estimated"] = xilinx.estimated_luts(done.folder)
    return summary | {"needed": with_harness}


def _timing(folders: dict[int, Path], scopes: netlist.Scopes) -> dict:
    """Of seeds' place and route: frequencies, and the critical path of the best."""
    by_seed = {seed: nextpnr.fmax_mhz(folder) for seed, folder in sorted(folders.items())}
    best = max(by_seed, key=lambda seed: by_seed[seed])
    return {
        "fmax_mhz": {str(seed): fmax for seed, fmax in by_seed.items()},
        "fmax_median_mhz": round(median(by_seed.values()), 2), "fmax_best_mhz": by_seed[best],
        "critical_paths": {str(seed): nextpnr.critical_path(folder, scopes) for seed, folder in folders.items()},
        "best_seed": best, "placed": {str(seed): str(folder) for seed, folder in folders.items()},
        "utilisation": nextpnr.utilisation(folders[best]),
    }  # fmt: skip


def run(
    name: str, designs: Sequence[Design], options: Options = Options(), report: Report = lambda _: lambda _: None
) -> list[dict]:
    """Figures of designs on the target called ``name``; with seeds they are placed and routed too.

    A design that some seed routes has figures of the seeds that do, and those that don't as ``unrouted``.
    Raises TargetError, FitError, RouteError where none does, or ToolError. Whatever was made is kept, so a run that
    was stopped goes on.
    """
    target, router = FPGAS[name]
    part = target.part(options.part)
    package, speed = target.choose(part, options.package, options.speed)
    key = next(key for key, other in target.parts.items() if other is part)
    if options.seeds and router:
        _ = router.command  # a missing tool is better known before synthesis than after
    placed: dict[str, dict[int, Path]] = {design.name: {} for design in designs}
    unrouted: dict[str, dict[int, RouteError]] = {design.name: {} for design in designs}
    with side_by_side(options.jobs) as submit:
        made = results(submit, [(_synthesise, design, target, report) for design in designs])
        summaries = [_summary(done, target, part) for done in made]
        if not (options.seeds and router):
            return summaries
        plans = {}
        for done, summary in zip(made, summaries, strict=True):
            target.check(done.design, part, summary["needed"])
            large = part.plan and summary["needed"]["lut"] > part.plan.share * part.has["lut"]
            plans[done.design.name] = part.plan if large else None

        def place(done, seed):
            say = report(f"{done.design.name}: place and route, seed {seed}")
            freq = options.freq_mhz or done.design.config.clock_hz * 1.1e-6
            flags = router.options(key, package, speed)
            try:
                placed[done.design.name][seed] = router.place(
                    f"{target.name}-{done.design.name}", done.folder, flags, freq, seed, say, plans[done.design.name]
                )
            except RouteError as error:
                unrouted[done.design.name][seed] = error
            say("")

        results(submit, [(place, done, seed) for done in made for seed in options.seeds])
    for name, folders in placed.items():
        if not folders:
            raise unrouted[name][options.seeds[0]]
    return [
        summary
        | _timing(placed[done.design.name], done.cells.scopes)
        | {"unrouted": sorted(unrouted[done.design.name])}
        for done, summary in zip(made, summaries, strict=True)
    ]


def tools(name: str, placed: bool) -> dict[str, str]:
    """Versions of the tools that make a target's figures."""
    router = FPGAS[name][1] if name in FPGAS else None
    found = {"yosys": yosys_version(), "amaranth": version("amaranth")}
    return found | ({"nextpnr": router.version} if placed and router else {})


def keep(found: dict, folder: Path) -> None:
    """Copy netlist, reports and logs of a design's figures to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, copy in (("netlist.json", "netlist.json"), ("log.txt", "yosys.log"), ("script.ys", "script.ys")):
        shutil.copy(Path(found["folder"]) / name, folder / copy)
    for seed, placed in found.get("placed", {}).items():
        shutil.copy(Path(placed) / "report.json", folder / f"report-seed{seed}.json")
        shutil.copy(Path(placed) / "log.txt", folder / f"nextpnr-seed{seed}.log")
