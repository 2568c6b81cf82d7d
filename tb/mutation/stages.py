"""All stages of the top's bench, those first that catch most for their time."""

from functools import partial

from . import campaigns
from .boundary_values import LONG, extremes, long, updates
from .failing_programs import edges, faults, malformed, regions, several
from .many_commands import waits
from .observations import MEMORIES, Stage
from .programs import narrow, program, rings, stops
from .registers import control, counters, places, registers
from .training import NETWORKS, training

__all__ = ["STAGES"]

PROGRAMS = (("ideal", False), ("stalls", False), ("ddr3", True), ("ddr3", False))
"""Memory, and whether to calibrate, by the program's seed."""

STAGES = [
    Stage("registers", registers, golden=False),
    Stage("malformed", malformed, golden=False),
    *(Stage(f"program {seed} {memory}", partial(program, seed, memory, calibrate))
      for seed, (memory, calibrate) in enumerate(PROGRAMS)),
    *(Stage(f"training {name} {memory}", partial(training, name, memory)) for name in NETWORKS for memory in MEMORIES),
    Stage("counters", counters, golden=False),
    Stage("control", control, golden=False),
    Stage("places", places),
    *(Stage(f"long {name}", partial(long, name)) for name in LONG),
    Stage("updates", updates),
    Stage("extremes", extremes),
    Stage("waits", waits),
    Stage("rings", rings),
    Stage("narrow", narrow),
    Stage("stops", stops, golden=False),
    Stage("regions", regions, golden=False),
    Stage("several fail", several, golden=False),
    Stage("edges", edges),
    *(Stage(f"{name} faults", partial(faults, name == "write"), golden=False) for name in ("write", "read")),
    *campaigns.stages(),
]  # fmt: skip
