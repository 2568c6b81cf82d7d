"""Random conditions that must not change results: the memory's speed, and pauses of its channels."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from adagp.gen.generated import generated
from adagp.gen.verilog import GATE_MACRO
from adagp.host.devices.simulated import SimDevice
from adagp.spec.config import Config

from .workload import Workload
from .workloads import Choice, workload

__all__ = ["LIMIT", "ROOM", "open_device", "random_workload", "same_design", "ungated"]

LIMIT = 1_000_000
"""Cycles after which a run counts as hung: twenty times the longest run seen."""

ROOM = 1 << 13
"""Bursts that the log has room for: more than any run makes."""

REFRESHES = ((0, 0), (400, 20), (400, 150), (1500, 700))
"""Cycles from refresh to refresh, and cycles of each refresh. In a long one the accelerator goes on with data it has
read, until a command's writes wait for those of the command before."""

MAX_SEED = 1 << 32

UNGATED = 0.25
"""Share of the cases whose clocks always run, as they do in FPGAs."""


def ungated(config: Config) -> Path:
    """Path of the generated Verilog with clock gates that pass every pulse."""
    gated = generated(config)
    path = gated.parent / "ungated" / gated.name
    text = f"`undef {GATE_MACRO}\n{gated.read_text()}"
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(exist_ok=True)
        own = path.with_suffix(f".{os.getpid()}")  # several processes may come here
        own.write_text(text)
        own.replace(path)
    return path


def same_design(choice: Mapping[str, Choice], top: Path | None) -> Mapping[str, Choice]:
    """All workloads; with another ``top.v`` only those of the first one's design."""
    if top is None:
        return choice
    design = workload(next(iter(choice))).config
    return {name: entry for name, entry in choice.items() if workload(name).config == design}


def random_workload(rng: np.random.Generator, choice: Mapping[str, Choice]) -> Workload:
    """One of the workloads, the short ones more often."""
    shares = [share for *_, share in choice.values()]
    return workload(str(rng.choice(list(choice), p=np.divide(shares, sum(shares)))))


def open_device(rng: np.random.Generator, load: Workload, top: Path | None) -> SimDevice:
    """A simulated accelerator for ``load`` with a random memory."""
    config = load.config
    cycle_ns = 1e9 / config.clock_hz
    refresh_every, refresh = REFRESHES[rng.integers(len(REFRESHES))]
    part = replace(
        config.dram, name="random",
        bandwidth_bytes=int(rng.choice([2, 4, 8, 16]) * config.clock_hz),
        latency_ns=float(rng.choice([0, 1, 5, 20, 60])) * cycle_ns,
        refresh_interval_ns=refresh_every * cycle_ns, refresh_ns=refresh * cycle_ns,
        turnaround_ns=float(rng.choice([0, 2, 10])) * cycle_ns,
        burst_bytes=int(rng.choice([1, 16, 64])),
        max_outstanding=int(rng.choice([1, 2, 4, 16, 64])),
    )  # fmt: skip
    if top is None and rng.random() < UNGATED:
        top = ungated(config)
    stall = float(rng.choice([0.0, 0.0, 0.1, 0.3, 0.5]))
    return SimDevice(
        config, part=part, stall=stall, seed=int(rng.integers(1, MAX_SEED)),
        write_latency=int(rng.choice([0, 0, 3, 40, 600])), memory_bytes=load.image.size, limit=LIMIT, top=top,
    )  # fmt: skip
