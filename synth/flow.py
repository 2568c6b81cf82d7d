"""From designs to figures: synthesis, fit, place and route with several seeds."""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median, median_low
from types import MappingProxyType

from ..gen.cache import digest
from . import ecp5, ice40, netlist, nextpnr, placement, xilinx
from .breakdown import tree
from .design import Design
from .errors import FitError, RouteError, ToolError
from .netlist import HARNESS
from .parallel import results, side_by_side
from .process import Say
from .source_digest import CODE, OWN, SOURCES
from .target import Part, Target
from .yosys import synthesise, yosys_version

__all__ = ["FPGAS", "Options", "Report", "chosen", "complain", "keep", "median_mhz", "run", "tools"]

FPGAS = {
    "ecp5": (ecp5.ECP5, ecp5.ROUTER), "xilinx": (xilinx.XILINX, None), "artix7": (xilinx.ARTIX7, xilinx.ROUTER),
    "ice40": (ice40.ICE40, ice40.ROUTER),
}  # fmt: skip
"""Targets by name, each with its router, or None if no tool here places and routes it."""

Report = Callable[[str], Say]
"""Function of a job's name, called as it begins; it returns a function that is told each step, at last ``""``."""


@dataclass(frozen=True)
class Options:
    """Options of place and route; None stands for the usual part, package and speed grade, and the design's clock."""

    part: str | None = None
    package: str | None = None
    speed: str | None = None
    seeds: Sequence[int] = ()
    freq_mhz: float | None = None
    jobs: int = 1


def chosen(name: str, options: Options = Options()) -> dict[str, str]:
    """``part``, ``package``, ``speed`` grade, and ``flow``: the digest of all that affects figures but the hardware.

    Raises TargetError.
    """
    target, _ = FPGAS[name]
    part = target.part(options.part)
    package, speed = target.choose(part, options.package, options.speed)
    found = {"part": part.name, "package": package, "speed": speed}
    return found | {"flow": digest(*found.values(), options.freq_mhz, *(CODE[file] for file in (*SOURCES, *OWN[name])))}


@dataclass(frozen=True)
class _Synthesised:
    design: Design
    folder: Path
    cells: netlist.Cells


def _synthesise(design: Design, target: Target, report: Report) -> _Synthesised:
    say = report(f"{design.name}: synthesis")
    say("Verilog from Amaranth")
    rtlil = design.rtlil(target.family, target.harness)
    folder = synthesise(f"{target.name}-{design.name}", rtlil, target.script, say, after=target.after)
    say("counting")
    cells = netlist.count(folder, design.scope(target.harness))
    say("")
    return _Synthesised(design, folder, cells)


def _summary(done: _Synthesised, target: Target, part: Part) -> dict:
    used = target.resources(done.cells.total())
    every = done.cells.total(done.cells.counts)
    if unknown := target.uncounted(every):
        raise ToolError(f"{done.design.name} has cells that are no resource of {target.title}: {', '.join(unknown)}")
    summary = {
        "design": done.design.name, "variant": done.design.config.variant, "block": done.design.block,
        "resources": used, "available": dict(part.has),
        "harness": target.resources(done.cells.total([HARNESS])) if target.harness else {},
        "blocks": tree(done.cells, target), "nameless": round(done.cells.nameless, 5),
        "needed": target.resources(every), "folder": str(done.folder),
    }  # fmt: skip
    if target.note:
        summary["note"] = target.note
    if target.family == xilinx.XILINX.family:
        summary["luts_estimated"] = xilinx.estimated_luts(done.folder, every)
    try:
        target.check(done.design.name, part, every)
    except FitError as error:
        summary["unfit"] = str(error)
    return summary


@dataclass(frozen=True)
class _Routed:
    """Outcome of place and route with one seed.

    ``said`` is the tool's message where there is no route; ``failed``: another tool than the router ended with it.
    """

    identity: str
    said: str = ""
    failed: bool = False
    fmax_mhz: float | None = None
    path: Sequence[dict] = ()
    utilisation: Mapping[str, Sequence[int]] | None = None
    late: Mapping[str, Mapping] | None = None
    folder: Path | None = None


def _known(earlier: Mapping, run: nextpnr.Run) -> _Routed | None:
    """Outcome of a seed in earlier figures, None unless they are of the same run."""
    seed = str(run.seed)
    if earlier.get("placements", {}).get(seed) != run.identity:
        return None
    if said := earlier["unrouted"].get(seed):
        return _Routed(run.identity, said)
    more = earlier["by_seed"][seed]
    return _Routed(
        run.identity, "", False, earlier["fmax_mhz"][seed], earlier["critical_paths"][seed], more["utilisation"],
        more["late"],
    )  # fmt: skip


def _place(run: nextpnr.Run, done: _Synthesised, report: Report) -> _Routed:
    say = report(f"{done.design.name}: place and route, seed {run.seed}")
    try:
        folder = run.place(say)
    except ToolError as error:
        return _Routed(run.identity, str(error), failed=not isinstance(error, RouteError))
    finally:
        say("")
    scopes, period_ns = done.cells.scopes, 1e9 / done.design.config.clock_hz
    return _Routed(
        run.identity, "", False, placement.fmax_mhz(folder), placement.critical_path(folder, scopes),
        placement.utilisation(folder), placement.late(folder, scopes, period_ns), folder,
    )  # fmt: skip


def median_mhz(speeds: Iterable[float], unrouted: int) -> float:
    """Median clock of all seeds. A seed without a route counts as 0; with such seeds the median is the lower middle."""
    middle = median_low([*speeds, *[0.0] * unrouted]) if unrouted else median(speeds)
    return round(middle, 2)


def _timing(by_seed: Mapping[int, _Routed]) -> dict:
    """Frequencies and critical paths of the routed seeds; ``utilisation`` and ``late`` are those of the best one."""
    ended = {seed: routed for seed, routed in by_seed.items() if not routed.failed}
    found = {
        "unrouted": {str(seed): routed.said for seed, routed in ended.items() if routed.said},
        "failed": {str(seed): routed.said for seed, routed in by_seed.items() if routed.failed},
        "placements": {str(seed): routed.identity for seed, routed in ended.items()},
        "placed": {str(seed): str(routed.folder) for seed, routed in by_seed.items() if routed.folder},
    }  # fmt: skip
    speeds = {seed: routed.fmax_mhz for seed, routed in by_seed.items() if routed.fmax_mhz}
    if not speeds:
        return found
    best = max(speeds, key=lambda seed: speeds[seed])
    return found | {
        "fmax_mhz": {str(seed): fmax for seed, fmax in speeds.items()},
        "fmax_median_mhz": median_mhz(speeds.values(), len(found["unrouted"])), "fmax_best_mhz": speeds[best],
        "critical_paths": {str(seed): by_seed[seed].path for seed in speeds},
        "by_seed": {
            str(seed): {"utilisation": by_seed[seed].utilisation, "late": by_seed[seed].late} for seed in speeds
        },
        "best_seed": best, "utilisation": by_seed[best].utilisation, "late": by_seed[best].late,
    }  # fmt: skip


def run(
    name: str, designs: Sequence[Design], options: Options = Options(), report: Report = lambda _: lambda _: None,
    earlier: Mapping[str, Mapping] = MappingProxyType({}),
) -> list[dict]:  # fmt: skip
    """Figures of designs on the target called ``name``; with seeds they are placed and routed too.

    Seeds without a route are ``unrouted``. Seeds whose tool has ``failed`` are tried again the next time. A design
    without any route has no frequency. A design that doesn't fit is ``unfit`` and isn't placed. All results are kept,
    so a run that was stopped goes on. ``earlier`` has figures of designs by name: their seeds join those of
    ``options``, and aren't run again if the result would be the same.
    Raises TargetError or ToolError.
    """
    target, router = FPGAS[name]
    origin = chosen(name, options)
    part = target.part(options.part)
    key = next(key for key, other in target.parts.items() if other is part)
    _ = yosys_version()  # raises before any work if the tool is missing
    if options.seeds and router:
        _ = router.command
    with side_by_side(options.jobs) as submit:
        made = results(submit, [(_synthesise, design, target, report) for design in designs])
        summaries = [_summary(done, target, part) | origin for done in made]
        if not (options.seeds and router):
            return summaries
        routed: list[dict[int, _Routed]] = [{} for _ in made]
        jobs = []
        for done, summary, by_seed in zip(made, summaries, routed, strict=True):
            if "unfit" in summary:
                continue
            large = part.plan and summary["needed"]["lut"] > part.plan.share * part.has["lut"]
            summary["freq_mhz"] = options.freq_mhz or done.design.config.clock_hz * 1e-6
            before = earlier.get(done.design.name, {})
            if before.get("flow") != origin["flow"]:
                before = {}
            for seed in sorted({*options.seeds, *map(int, before.get("placements", ()))}):
                attempt = router.run(
                    f"{target.name}-{done.design.name}", done.folder,
                    router.options(key, origin["package"], origin["speed"]), summary["freq_mhz"], seed,
                    part.plan if large else None, part.pins,
                    # A design that a plan places is far from its clock: this would cost hours and gain nothing.
                    firm=router.closes and not large and options.freq_mhz is None,
                )  # fmt: skip
                if known := _known(before, attempt):
                    by_seed[seed] = known
                elif seed in options.seeds:
                    jobs.append((attempt, done, by_seed))

        def place(attempt, done, by_seed):
            by_seed[attempt.seed] = _place(attempt, done, report)

        results(submit, [(place, *job) for job in jobs])
    return [
        summary | _timing(dict(sorted(by_seed.items()))) for summary, by_seed in zip(summaries, routed, strict=True)
    ]


def complain(found: Sequence[Mapping]) -> None:
    """Raise FitError or ToolError if a design doesn't fit or a tool failed; called after all figures are shown."""
    for figures in found:
        if "unfit" in figures:
            raise FitError(figures["unfit"])
        for said in figures.get("failed", {}).values():
            raise ToolError(said)


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
        logs = [log for log in (Path(placed) / "place.txt", Path(placed) / "log.txt") if log.exists()]
        (folder / f"nextpnr-seed{seed}.log").write_text("".join(log.read_text() for log in logs))
