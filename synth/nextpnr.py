"""nextpnr, native or from PyPI: a netlist placed and routed with several seeds, each kept in the cache."""

import math
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
from . import floorplan, process
from .errors import RouteError, ToolError
from .pins import identity

__all__ = ["CONSTRAINTS", "PHASE", "Router", "Run", "watched"]

ITERATIONS = 160
"""Iterations after which the router is stopped.

A design that it can route takes some dozens. With others it never ends: each iteration doubles the price of a contended
wire, until nothing else counts."""

FEW, RISE = 50, 4
"""The router is stopped earlier if an iteration leaves more shared wires than RISE times the larger of two numbers: the
fewest that an iteration left, and FEW. Routes don't recover from there: of 43 that ended none went beyond 1.2 times."""

FIRM = "--tmg-ripup"
"""The router's option to tear up late nets until no net is late."""

LATE = 400
"""Most late nets while the router tears up late nets. More in PATIENCE iterations in a row stop the run.

Runs that ended had single iterations with up to 162; a bad placement gives hundreds in every iteration."""
PATIENCE = 8

CONSTRAINTS = "pins.xdc"

_PLACE = ("--json", "netlist.json", "--no-route", "--write", "placement.json")
_ROUTE = ("--json", "placement.json", "--no-pack", "--no-place")

PLACING = 1000
"""Iterations after which the electrostatic placer is stopped.

Runs that ended took up to two thirds of that; with some designs it pushes memories around for ever."""

PHASE = re.compile(r"^Info: +(\S.*)$", re.MULTILINE)
"""Line of the log in which nextpnr names its current step."""
_ITERATION = re.compile(r"\biter=(\d+) wires=.* overused=(\d+)(?:.* tmgfail=(\d+))?")
_PLACING = re.compile(r"\biter=(\d+) steplen=")


@dataclass(frozen=True)
class Router:
    """nextpnr for a family: ``tool`` if it is on the PATH, else ``module`` of the PyPI package ``package``.

    ``options`` returns the command line's options for a part's key, package and speed grade. ``closes``: the router
    has the option FIRM. ``constraints`` writes the places of pins as the text of a file called CONSTRAINTS, which
    ``options`` name; without it they are in the netlist. ``source`` says where a tool comes from that PyPI lacks.
    """

    tool: str
    module: str
    package: str
    options: Callable[[str, str, str], tuple[str, ...]]
    closes: bool = False
    constraints: Callable[[Mapping[str, str]], str] | None = None
    source: str = ""

    @cached_property
    def command(self) -> tuple[str, ...]:
        """Command that runs nextpnr; raises ToolError if it isn't installed."""
        if path := shutil.which(self.tool):
            return (path,)
        if not self.package:
            raise ToolError(f"place and route needs {self.tool} on the PATH: {self.source}")
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
        """Name and version that the tool reports."""
        if len(self.command) > 1:
            return f"{self.package} {version(self.package)}"
        said = subprocess.run([*self.command, "--version"], capture_output=True, text=True)
        lines = (said.stdout + said.stderr).strip().splitlines()
        if not lines:
            raise ToolError(f"{self.command[0]} --version says nothing and ends with code {said.returncode}")
        return lines[0]

    @cached_property
    def refinement(self) -> tuple[str, ...]:
        """Options for the better way to refine a placement, which tools without threads lack.

        One thread, because the result depends on their number.
        """
        if len(self.command) > 1:
            return ()
        said = subprocess.run([*self.command, "--help"], capture_output=True, text=True)
        return ("--parallel-refine", "--threads", "1") if "--parallel-refine" in said.stdout + said.stderr else ()

    def run(
        self, name: str, netlist: Path, options: tuple[str, ...], freq_mhz: float, seed: int,
        plan: floorplan.Plan | None = None, pins: Mapping[str, str] | None = None, firm: bool = False,
    ) -> "Run":  # fmt: skip
        """Describe a run that places and routes ``netlist``, a folder of :func:`.yosys.synthesise`.

        ``pins``: places of the netlist's ports; without them nextpnr chooses. ``firm``: the router tears up nets that
        miss ``freq_mhz`` until none is left. If this doesn't end, it routes the same placement without ``firm``.
        """
        arguments = (
            *options, *self.refinement, *(plan.options if plan else ()), "--freq", f"{freq_mhz:g}", "--seed", str(seed),
            "--timing-allow-fail", "--report", "report.json", "--detailed-timing-report",
        )  # fmt: skip
        where = [
            *([plan.identity] if plan else []),
            *([self.constraints(pins) if self.constraints else identity(pins)] if pins else []),
            *([FIRM, str(LATE), str(PATIENCE)] if firm else []),
        ]
        key = digest(netlist.name, self.version, *arguments, *where)
        return Run(self, name, netlist, arguments, seed, plan, f"placed-{name}-seed{seed}-{key}", pins, firm)


@dataclass(frozen=True)
class Run:
    """Place and route with one seed. ``identity`` names its folder in the cache and determines the result."""

    router: Router
    name: str
    netlist: Path
    arguments: tuple[str, ...]
    seed: int
    plan: floorplan.Plan | None
    identity: str
    pins: Mapping[str, str] | None = None
    firm: bool = False

    def place(self, say: process.Say = lambda _: None) -> Path:
        """Return the folder with ``report.json`` and ``log.txt``, and ``place.txt`` if firm; run unless it is cached.

        Raises RouteError if placer or router exceed the limits PLACING, ITERATIONS or RISE, and ToolError.
        """
        what = f"{self.name} with seed {self.seed}"
        self._retry()
        with entry(self.identity) as (path, scratch):
            if scratch:
                folder = scratch / "out"
                folder.mkdir()
                # Its own folder is all that a tool in WebAssembly can see.
                pins = self.pins
                if pins and self.router.constraints:
                    (folder / CONSTRAINTS).write_text(self.router.constraints(pins))
                    pins = None
                floorplan.write(self.netlist / "netlist.json", folder / "netlist.json", self.plan, pins)

                def step(*options):
                    process.run(
                        (*self.router.command, *options, *self.arguments), folder, folder / "log.txt", PHASE,
                        watched(say, LATE if FIRM in options else None),
                        what=f"{self.router.tool}, placing {what},", keep=path.with_name(f"{path.name}.log"),
                    )  # fmt: skip

                with suppress(RouteError):  # kept too: with the same limits the run would end the same way
                    self._steps(step, folder)
                for name in ("netlist.json", "placement.json"):
                    (folder / name).unlink(missing_ok=True)
                folder.rename(path)
        if not (path / "report.json").exists():
            said = _end((path / "log.txt").read_text()).format(what)
            raise RouteError(f"{self.router.tool} {said}; try other seeds, or a smaller design")
        return path

    def _steps(self, step, folder):
        if not self.firm:
            return step("--json", "netlist.json")
        step(*_PLACE)
        (folder / "log.txt").rename(folder / "place.txt")
        (folder / "report.json").unlink()  # an estimate
        try:
            step(*_ROUTE, FIRM)
        except RouteError:
            step(*_ROUTE)

    def _retry(self):
        """Forget a kept failure that today's limits wouldn't have stopped."""
        path = cache_directory() / self.identity

        def outdated():
            if not path.exists() or (path / "report.json").exists():
                return False
            return not _hopeless((path / "log.txt").read_text())

        if outdated():
            with entry(f"{self.identity}-retry") as (_, scratch):  # never made: a lock between processes
                if scratch and outdated():
                    path.rename(scratch / "outdated")


def _end(log):
    """Message about a run that was stopped; ``{}`` stands for its name."""
    routed, placed = _ITERATION.findall(log), _PLACING.findall(log)
    if not routed:
        return f"can't place {{}}: after {int(placed[-1]) if placed else 0} iterations there are still cells on others"
    last, best = int(routed[-1][0]), min(int(wires) for _, wires, _ in routed)
    return f"can't route {{}}: the best of {last} iterations left {best:,} shared wires"


def _hopeless(log):
    """Tell whether today's limits would stop a run within this log of it."""
    watch = watched(lambda _: None)
    try:
        for what in PHASE.findall(log):
            watch(what)
    except RouteError:
        return True
    return False


def watched(say: process.Say, most_late: int | None = None) -> process.Say:
    """Wrap ``say``, which is told the phases that PHASE finds: raise RouteError at a phase beyond the limits.

    An iteration that leaves no shared wire and no late net is beyond no limit. ``most_late``: with more late nets in
    PATIENCE iterations in a row, the run is stopped. Without ``most_late``, RISE limits the shared wires.
    """
    hopeless: list[str] = []  # iterations that left more
    best = math.inf  # shared wires after an iteration

    def watch(what):
        nonlocal best
        say(what)
        placing, routing = _PLACING.search(what), _ITERATION.search(what)
        if placing and int(placing[1]) >= PLACING:
            raise RouteError
        if routing:
            shared, late = int(routing[2]), int(routing[3] or 0)
            best = min(best, shared)
            if most_late is None or late <= most_late:
                hopeless.clear()
            elif routing[1] not in hopeless:
                hopeless.append(routing[1])
            last = int(routing[1]) >= ITERATIONS and (shared or late)
            risen = most_late is None and shared > RISE * max(best, FEW)  # nets that are torn up share wires again
            if last or risen or len(hopeless) == PATIENCE:
                raise RouteError

    return watch
