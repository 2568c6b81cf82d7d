"""A technology to synthesise for: its parts, its passes, and the way its cells are counted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from .errors import FitError, TargetError
from .floorplan import Plan
from .harness import DESIGN
from .yosys import TOP, Step

__all__ = ["Part", "Target"]


@dataclass(frozen=True)
class Part:
    """A device: how much of each resource it has, and its packages and speed grades, the usual one first.

    ``plan``: how designs that take much of it are placed. ``pins``: places for those of the harness.
    """

    name: str
    has: Mapping[str, int]
    packages: tuple[str, ...] = ()
    speeds: tuple[str, ...] = ()
    plan: Plan | None = None
    pins: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Target:
    """A technology.

    ``passes`` are Yosys' for it; ``after`` is done to the netlist that they leave. ``counted``: for each resource how
    much of it a cell takes, by patterns of cells' types. ``harness``: designs get four pins, since place and route
    needs a place for each port. ``note``: limits of its figures.
    """

    name: str
    title: str
    family: str | None
    passes: str
    counted: Mapping[str, Mapping[str, float]]
    parts: Mapping[str, Part] = field(default_factory=dict)
    harness: bool = False
    after: Step | None = None
    note: str = ""

    @property
    def script(self) -> str:
        """``passes``; a harness and the design in it are optimised apart, so that each cell is of one of them."""
        if not self.harness:
            return self.passes
        inside = f"{TOP}.{DESIGN}"
        apart, together = f"setattr -mod -set keep_hierarchy 1 {inside}", f"setattr -mod -unset keep_hierarchy {inside}"
        return "\n".join((apart, self.passes, together, "flatten"))

    def part(self, name: str | None = None) -> Part:
        """The part called so, or the usual one, which is the first; raises TargetError."""
        if name is None:
            return next(iter(self.parts.values()))
        found = {**self.parts, **{part.name: part for part in self.parts.values()}}.get(name)
        if found is None:
            raise TargetError(f"{self.name} has no part {name!r}; there are: {', '.join(self.parts)}")
        return found

    def choose(self, part: Part, package: str | None, speed: str | None) -> tuple[str, str]:
        """Package and speed grade of a part, the usual ones for None, "" where there is none; raises TargetError."""
        for what, value, there in (("package", package, part.packages), ("speed grade", speed, part.speeds)):
            if value is not None and value not in there:
                known = f"there are: {', '.join(there)}" if there else "there is no choice of it"
                raise TargetError(f"{part.name} has no {what} {value!r}; {known}")
        return package or (part.packages or ("",))[0], speed or (part.speeds or ("",))[0]

    def resources(self, cells: Mapping[str, int]) -> dict[str, int]:
        """Resources that cells take, given their number by type."""
        return {
            resource: round(sum(
                number * next((weight for pattern, weight in weights.items() if fnmatchcase(cell, pattern)), 0)
                for cell, number in cells.items()
            ))
            for resource, weights in self.counted.items()
        }  # fmt: skip

    def uncounted(self, cells: Iterable[str]) -> list[str]:
        """Types of cells that aren't any resource's."""
        patterns = [pattern for weights in self.counted.values() for pattern in weights]
        return sorted(cell for cell in cells if not any(fnmatchcase(cell, pattern) for pattern in patterns))

    def check(self, name: str, part: Part, cells: Mapping[str, int]) -> None:
        """Raises FitError, which names the design, where ``part`` has less than cells take, given by type."""
        needed = self.resources(cells)
        short = [
            f"{needed[resource]:,} of {resource}, of which it has {has:,}"
            for resource, has in part.has.items() if needed[resource] > has
        ]  # fmt: skip
        if short:
            raise FitError(f"{name} doesn't fit {part.name}: it needs {'; '.join(short)}")
