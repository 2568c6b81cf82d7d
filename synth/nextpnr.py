"""nextpnr, native or from PyPI: a netlist placed and routed with several seeds, each kept in the cache."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..gen.cache import cache_directory, digest, entry
from . import child, floorplan
from .errors import RouteError, ToolError
from .netlist import Scopes
from .pins import identity

__all__ = ["PHASE", "Router", "Run", "critical_path", "fmax_mhz", "late", "utilisation", "watched"]

ITERATIONS = 160
"""After how many the router is stopped. What it can route takes it some dozens; with what it can't it never ends:
it doubles the price of a wire that several nets want each time, until nothing else counts."""

FIRM = "--tmg-ripup"
"""The router's option to tear up what is late, for as long as anything is."""

PLACING = 1000
"""After how many iterations the electrostatic placer is stopped: those that ended took up to two thirds of that, and
there are designs whose memories it pushes around for ever."""

PHASE = re.compile(r"^Info: +(\S.*)$", re.MULTILINE)
"""What nextpnr says that it does, in its log."""
_ITERATION = re.compile(r"\biter=(\d+) wires=.* overused=(\d+)(?:.* tmgfail=(\d+))?")
_PLACING = re.compile(r"\biter=(\d+) steplen=")


@dataclass(frozen=True)
class Router:
    """nextpnr for a family: ``tool`` if it is on the PATH, else ``module`` of the PyPI package ``package``.

    ``options`` makes a command line's out of a part's key, package and speed grade. ``closes``: it has FIRM.
    """

    tool: str
    module: str
    package: str
    options: Callable[[str, str, str], tuple[str, ...]]
    closes: bool = False

    @cached_property
    def command(self) -> tuple[str, ...]:
        """What runs it; raises ToolError where there is none."""
        if path := shutil.which(self.tool):
            return (path,)
        try:
            version(self.package)
        except PackageNotFoundError:
            raise ToolError(
                f"place and route needs {self.tool}: pip install {self.package} (or the distribution's {self.tool})"
            ) from None
        run = f"m.run_{self.module.removeprefix('yowasp_')}(sys.argv[1:])"
        return (sys.executable, "-u", "-c", f"import sys, {self.module} as m; sys.exit({run})")

    @cached_property
    def version(self) -> str:
        """What the tool calls itself."""
        if len(self.command) > 1:
            return f"{self.package} {version(self.package)}"
        said = subprocess.run([*self.command, "--version"], capture_output=True, text=True)
        return (said.stdout + said.stderr).strip().splitlines()[0]

    @cached_property
    def refinement(self) -> tuple[str, ...]:
        """Options for the better way to refine a placement, which tools without threads lack.

        With one thread: how many there are decides about the result.
        """
        if len(self.command) > 1:
            return ()
        said = subprocess.run([*self.command, "--help"], capture_output=True, text=True)
        return ("--parallel-refine", "--threads", "1") if "--parallel-refine" in said.stdout + said.stderr else ()

    def run(
        self, name: str, netlist: Path, options: tuple[str, ...], freq_mhz: float, seed: int,
        plan: floorplan.Plan | None = None, pins: Mapping[str, str] | None = None, firm: bool = False,
    ) -> "Run":  # fmt: skip
        """What places and routes ``netlist``: a folder of :func:`.yosys.synthesise`, told from others by its name.

        ``pins``: places of the netlist's ports; where there are none nextpnr chooses them. ``firm``: nets that miss
        ``freq_mhz`` are routed anew until none is left; where that has no end the seed is routed again, as without.
        """
        arguments = (
            *options, *self.refinement, *(plan.options if plan else ()), "--freq", f"{freq_mhz:g}", "--seed", str(seed),
            "--timing-allow-fail", "--report", "report.json", "--detailed-timing-report",
        )  # fmt: skip
        where = [*([plan.identity] if plan else []), *([identity(pins)] if pins else []), *([FIRM] if firm else [])]
        key = digest(netlist.name, self.version, *arguments, *where)
        return Run(self, name, netlist, arguments, seed, plan, f"placed-{name}-seed{seed}-{key}", pins, firm)


@dataclass(frozen=True)
class Run:
    """A place and route with one seed; of ``identity``, its folder's name in the cache, there is but one result."""

    router: Router
    name: str
    netlist: Path
    arguments: tuple[str, ...]
    seed: int
    plan: floorplan.Plan | None
    identity: str
    pins: Mapping[str, str] | None = None
    firm: bool = False

    def place(self, say: child.Say = lambda _: None) -> Path:
        """Folder with ``report.json`` and ``log.txt``; made now unless it is in the cache.

        Raises RouteError where placer or router find no end in PLACING or ITERATIONS, ToolError.
        """
        tool, what = self.router.tool, f"{self.name} with seed {self.seed}"
        self._retry()
        with entry(self.identity) as (path, scratch):
            if scratch:
                folder = scratch / "out"
                folder.mkdir()
                # Its own folder is all that a tool in WebAssembly can see.
                floorplan.write(self.netlist / "netlist.json", folder / "netlist.json", self.plan, self.pins)
                command = (*self.router.command, "--json", "netlist.json", *self.arguments)
                for attempt in ((*command, FIRM), command) if self.firm else (command,):
                    with suppress(RouteError):  # kept too: up to the same limits it would go the same way again
                        child.run(
                            attempt, folder, folder / "log.txt", PHASE, watched(say),
                            what=f"{tool}, placing {what},", keep=path.with_name(f"{path.name}.log"),
                        )  # fmt: skip
                        break
                (folder / "netlist.json").unlink()
                folder.rename(path)
        if not (path / "report.json").exists():
            said = _end((path / "log.txt").read_text())[2].format(what)
            raise RouteError(f"{tool} {said}; try other seeds, or a smaller design")
        return path

    def _retry(self):
        """Forget a kept failure that ended before what is now the limit."""
        path = cache_directory() / self.identity

        def outdated():
            if not path.exists() or (path / "report.json").exists():
                return False
            last, limit, _ = _end((path / "log.txt").read_text())
            return last < limit

        if outdated():
            with entry(f"{self.identity}-retry") as (_, scratch):  # never made: a lock between processes
                if scratch and outdated():
                    path.rename(scratch / "outdated")


def _end(log):
    """Of what was stopped: the last iteration, the limit to it now, and what to say of a run that is to be named."""
    routed, placed = _ITERATION.findall(log), _PLACING.findall(log)
    if not routed:
        last = int(placed[-1]) if placed else 0
        return last, PLACING, f"can't place {{}}: after {last} iterations there are still cells on others"
    last, best = int(routed[-1][0]), min(int(wires) for _, wires, _ in routed)
    return last, ITERATIONS, f"can't route {{}}: the best of {last} iterations left {best:,} shared wires"


def watched(say: child.Say) -> child.Say:
    """``say``, which is told what PHASE finds, but that it raises RouteError when told of a last iteration.

    Not of one that has left no wire shared and no net late: it is the end that was hoped for.
    """

    def watch(what):
        say(what)
        placing, routing = _PLACING.search(what), _ITERATION.search(what)
        if placing and int(placing[1]) >= PLACING:
            raise RouteError
        if routing and int(routing[1]) >= ITERATIONS and (int(routing[2]) or int(routing[3] or 0)):
            raise RouteError

    return watch


def _report(folder):
    return json.loads((folder / "report.json").read_text())


def fmax_mhz(folder: Path) -> float:
    """The highest frequency that timing analysis allows."""
    return round(min(clock["achieved"] for clock in _report(folder)["fmax"].values()), 2)


def utilisation(folder: Path) -> dict[str, tuple[int, int]]:
    """What is used of each kind of place, and what there is."""
    return {name: (found["used"], found["available"]) for name, found in _report(folder)["utilization"].items()}


def late(folder: Path, scopes: Scopes, period_ns: float) -> dict[str, dict]:
    """Blocks whose registers some data reach later than ``period_ns`` after the clock: how many of how many, the worst.

    Counted are inputs of registers and memories, enables and resets too, without the time they need before the clock.
    """
    found: dict[str, dict] = {}
    for net in _report(folder)["detailed_net_timings"]:
        for end in net["endpoints"]:
            if net["event"].startswith("posedge") and end["event"].startswith("posedge"):
                row = found.setdefault(scopes.block(end["cell"]), {"endpoints": 0, "late": 0, "worst_ns": 0.0})
                arrival = end["delay"][1]
                row["endpoints"] += 1
                row["late"] += arrival > period_ns
                row["worst_ns"] = max(row["worst_ns"], round(arrival, 2))
    return dict(sorted((item for item in found.items() if item[1]["late"]), key=lambda item: -item[1]["late"]))


def critical_path(folder: Path, scopes: Scopes) -> list[dict]:
    """The longest path between registers, as the blocks it goes through: cells, logic and routing in ns.

    What a block is given: its own cells' delays (clock to output and setup too), and of the nets that it drives.
    """
    clocked = [
        path["path"] for path in _report(folder)["critical_paths"]
        if path["from"].startswith("posedge") and path["to"].startswith("posedge")
    ]  # fmt: skip
    if not clocked:
        return []
    steps: list[dict] = []
    for piece in max(clocked, key=lambda path: sum(piece["delay"] for piece in path)):
        cell = piece["from"]["cell"]
        inserted = steps and cell.startswith("$nextpnr")  # into a carry chain of the block before it
        block = steps[-1]["block"] if inserted else scopes.block(cell)
        if not steps or steps[-1]["block"] != block:
            steps.append({"block": block, "cells": 0, "logic_ns": 0.0, "routing_ns": 0.0})
        kind = "routing_ns" if piece["type"] == "routing" else "logic_ns"
        steps[-1][kind] = round(steps[-1][kind] + piece["delay"], 3)
        steps[-1]["cells"] += kind == "logic_ns"
    return steps
