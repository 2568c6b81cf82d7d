"""From designs to figures: synthesis, fit, place and route with several seeds."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from types import MappingProxyType

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


@dataclass(frozen=True)
class _Routed:
    """What a seed's place and route came to; where there is no route, what the router said."""

    identity: str
    said: str = ""
    fmax_mhz: float | None = None
    path: Sequence[dict] = ()
    utilisation: Mapping[str, Sequence[int]] | None = None
    late: Mapping[str, Mapping] | None = None
    folder: Path | None = None


def _known(earlier: Mapping, run: nextpnr.Run) -> _Routed | None:
    """What earlier figures have of a seed, if they are of the same run."""
    seed = str(run.seed)
    if earlier.get("placements", {}).get(seed) != run.identity:
        return None
    if said := earlier["unrouted"].get(seed):
        return _Routed(run.identity, said)
    path, fmax = earlier["critical_paths"][seed], earlier["fmax_mhz"][seed]
    return _Routed(run.identity, "", fmax, path, earlier["utilisation"], earlier["late"])


def _place(run: nextpnr.Run, done: _Synthesised, report: Report) -> _Routed:
    say = report(f"{done.design.name}: place and route, seed {run.seed}")
    try:
        folder = run.place(say)
    except RouteError as error:
        return _Routed(run.identity, str(error))
    finally:
        say("")
    scopes, period_ns = done.cells.scopes, 1e9 / done.design.config.clock_hz
    return _Routed(
        run.identity, "", nextpnr.fmax_mhz(folder), nextpnr.critical_path(folder, scopes),
        nextpnr.utilisation(folder), nextpnr.late(folder, scopes, period_ns), folder,
    )  # fmt: skip


def _timing(by_seed: Mapping[int, _Routed]) -> dict:
    """Of the seeds that have a route, frequencies and critical paths."""
    found = {
        "unrouted": {str(seed): routed.said for seed, routed in by_seed.items() if routed.said},
        "placements": {str(seed): routed.identity for seed, routed in by_seed.items()},
        "placed": {str(seed): str(routed.folder) for seed, routed in by_seed.items() if routed.folder},
    }  # fmt: skip
    speeds = {seed: routed.fmax_mhz for seed, routed in by_seed.items() if routed.fmax_mhz}
    if not speeds:
        return found
    best = max(speeds, key=lambda seed: speeds[seed])
    return found | {
        "fmax_mhz": {str(seed): fmax for seed, fmax in speeds.items()},
        "fmax_median_mhz": round(median(speeds.values()), 2), "fmax_best_mhz": speeds[best],
        "critical_paths": {str(seed): by_seed[seed].path for seed in speeds},
        "best_seed": best, "utilisation": by_seed[best].utilisation, "late": by_seed[best].late,
    }  # fmt: skip


def run(
    name: str, designs: Sequence[Design], options: Options = Options(), report: Report = lambda _: lambda _: None,
    earlier: Mapping[str, Mapping] = MappingProxyType({}),
) -> list[dict]:  # fmt: skip
    """Figures of designs on the target called ``name``; with seeds they are placed and routed too.

    Seeds that have no route are ``unrouted``, and a design that has none with any has no frequency.
    Raises TargetError, FitError or ToolError. Whatever was made is kept, so a run that was stopped goes on; seeds in
    ``earlier`` figures of designs, by name, aren't run again either, if the same would be found.
    """
    target, router = FPGAS[name]
    part = target.part(options.part)
    package, speed = target.choose(part, options.package, options.speed)
    key = next(key for key, other in target.parts.items() if other is part)
    if options.seeds and router:
        _ = router.command  # a missing tool is better known before synthesis than after
    with side_by_side(options.jobs) as submit:
        made = results(submit, [(_synthesise, design, target, report) for design in designs])
        summaries = [_summary(done, target, part) for done in made]
        if not (options.seeds and router):
            return summaries
        routed: list[dict[int, _Routed]] = [{} for _ in made]
        jobs = []
        for done, summary, by_seed in zip(made, summaries, routed, strict=True):
            target.check(done.design, part, summary["needed"])
            large = part.plan and summary["needed"]["lut"] > part.plan.share * part.has["lut"]
            freq = options.freq_mhz or done.design.config.clock_hz * 1.1e-6
            for seed in options.seeds:
                attempt = router.run(
                    f"{target.name}-{done.design.name}", done.folder, router.options(key, package, speed), freq, seed,
                    part.plan if large else None,
                )  # fmt: skip
                if known := _known(earlier.get(done.design.name, {}), attempt):
                    by_seed[seed] = known
                else:
                    jobs.append((attempt, done, by_seed))

        def place(attempt, done, by_seed):
            by_seed[attempt.seed] = _place(attempt, done, report)

        results(submit, [(place, *job) for job in jobs])
    return [
        summary | _timing(dict(sorted(by_seed.items()))) for summary, by_seed in zip(summaries, routed, strict=True)
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
