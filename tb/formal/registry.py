"""Jobs of proof: each is a block of ``rtl/`` with rules bound to it."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from adagp.spec.presets import preset

from .harness import Harness

__all__ = ["CONFIG", "JOBS", "Job", "job"]

CONFIG = preset("tiny")


@dataclass(frozen=True)
class Job:
    """A block (made by ``block``) and the rules that ``bind`` adds to it.

    Assertions without a proof for good are searched for failures up to ``depth`` cycles, and covers must be reached
    within ``depth``. Without ``depth`` all assertions must be proved, and covers must be near. Covers whose names
    contain one of ``far`` are too far from reset; another job must reach them. ``limit``: seconds for one call of the
    solver. ``cut``: see :func:`.netlist.build`. The block is elaborated in the context ``patch()``.
    """

    name: str
    block: Callable
    bind: Callable[[Harness], None]
    depth: int | None
    limit: int
    cut: tuple[str, ...]
    patch: Callable
    far: tuple[str, ...]

    def harness(self) -> Harness:
        """The block with its checks."""
        with self.patch():
            h = Harness(self.block())
            self.bind(h)
        return h


JOBS: dict[str, Job] = {}


def job(
    name: str,
    block: Callable,
    depth: int | None = 40,
    limit: int = 60,
    cut: tuple[str, ...] = (),
    patch: Callable = nullcontext,
    far: tuple[str, ...] = (),
):
    """Register the decorated function, which binds the rules, as the job ``name``."""

    def register(bind):
        if name in JOBS:
            raise ValueError(f"two jobs are called {name!r}")
        JOBS[name] = Job(name, block, bind, depth, limit, cut, patch, far)
        return bind

    return register
