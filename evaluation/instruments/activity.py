"""Switching activity of real batches on the simulated accelerator: toggles of every net, accesses of every memory.

A simulator with coverage counts how often each bit has risen and fallen, and how often each branch was taken; the
difference before and after a batch, over its clock cycles, is the activity. The batches are the default network's,
with calibration well behind them.
"""

import re
from collections.abc import Iterable

import numpy as np

from ...gen.cache import digest, entry
from ...gen.generated import generated
from ...host.training.settings import TrainSettings
from ...host.training.sources import training_sources
from ...sim import coverage
from ...sim.build import library
from ...spec.config import Config
from ...synth.asic.activity import Activity
from ...synth.errors import ToolError

__all__ = ["KINDS", "activities", "of_counts"]

KINDS = (coverage.LINE, coverage.TOGGLE)
BATCHES = 6
"""In an epoch. With GP and BP batches two by two they come as GP GP BP, BP, GP GP: the last two pieces are pure."""
ROOT = "adagp.accelerator"
"""The module that is the accelerator; those inside it begin with its name."""

_MODULE = re.compile(r"^module \\?(\S+) .*?^endmodule", re.MULTILINE | re.DOTALL)
_MEMORY = re.compile(r"^ +reg (?:\[(\d+):0\] )?\\?(\S+) +\[(\d+):0\];", re.MULTILINE)
_ALWAYS = re.compile(r"^  always @.*?\n  end$", re.MULTILINE | re.DOTALL)
_REGISTER = re.compile(r"^  always @\(posedge [^)]*\)\n((?:    .* <= .*;\n)+)", re.MULTILINE)
_WRITE = re.compile(r"    (?:else )?(if \(.*?\) )?\\?(\S+) +<= ")
_WIDTH = re.compile(r"^ +reg (?:\[(\d+):0\] )?\\?([^\s;]+) *(?:=.*)?;$", re.MULTILINE)
_PART = re.compile(r"^  assign \\?(\S+?) ?\[(\d+)(?::(\d+))?\] = \\?(\S+) ?;$", re.MULTILINE)
_BRANCHES = "if", "elsif", "block"
_SLICE = re.compile(r"\[(\d+):(\d+)\]")


def _path(module: str, root: str) -> str | None:
    """A module's place in the design; None if it isn't in it."""
    if module == root:
        return ""
    return module.removeprefix(f"{root}.") if module.startswith(f"{root}.") else None


def _accesses(text):
    """Each memory in Verilog: module, name, words, width, line, bits as (first, last), data written or None."""
    for module in _MODULE.finditer(text):
        for memory in _MEMORY.finditer(module[0]):
            width, name, words = int(memory[1] or 0) + 1, memory[2], int(memory[3]) + 1
            used = re.compile(rf"(?<![\w$.]){re.escape(name)} ?\[[^]]*\](\[[^]]*\])?( <= \\?([^\s;\[]+))?")
            for always in _ALWAYS.finditer(module[0]):
                for use in used.finditer(always[0]):
                    part = _SLICE.search(use[1] or "")
                    last, first = (int(part[1]), int(part[2])) if part else (width - 1, 0)
                    line = text.count("\n", 0, module.start() + always.start() + use.start()) + 1
                    yield module[1], name, words, width, line, (first, last), use[3]


def _writes(text, runs):
    """Registers of modules as (module, name, first bit, width, share of cycles in which they are written).

    Those that are written in every cycle have 1. A register that is a part of another name has both names.
    """
    for module in _MODULE.finditer(text):
        widths = {name: int(high or 0) + 1 for high, name in _WIDTH.findall(module[0])}
        parts: dict[str, list[tuple[str, int]]] = {}
        for whole, last, first, part in _PART.findall(module[0]):
            parts.setdefault(part, []).append((whole, int(first or last)))
        start = text.count("\n", 0, module.start()) + 1
        for always in _REGISTER.finditer(module[0]):
            line, share = start + module[0].count("\n", 0, always.start()) + 1, 0.0
            found = _WRITE.findall(always[1])
            name = found[-1][1] if found else ""
            for each, (branch, _) in enumerate(found):
                share = share + runs.get((module[1], line + each), 1.0) if branch else 1.0
            for whole, first in ((name, 0), *parts.get(name, ())):
                if name in widths:
                    yield module[1], whole, first, widths[name], min(share, 1.0)


def of_counts(
    points: Iterable[coverage.Point], counts: np.ndarray, cycles: int, root: str = ROOT, text: str = ""
) -> Activity:
    """Activity that counters of coverage amount to, over ``cycles``; ``text`` is the Verilog that they are of.

    An access of a memory is a run of the branch or block that it stands in, that of a part of a word such a part of it.
    Words are estimated: each is written as often as any other, and a bit written differs from the one before as often
    as that of the data input toggles, but no more than every other time. ``default`` is the mean over all nets but
    clocks.
    """
    toggles: dict[str, list[float]] = {}
    runs: dict[tuple[str, int], float] = {}
    for point in points:
        path = _path(point.module, root)
        if path is None:
            continue
        if point.kind == coverage.TOGGLE:
            both = counts[point.counter : point.counter + 2 * point.bits].reshape(-1, 2).sum(axis=1)
            toggles[f"{path}.{point.name}".lstrip(".")] = (both / cycles).tolist()
        elif point.name in _BRANCHES:
            runs[point.module, point.line] = float(counts[point.counter]) / cycles
    accesses: dict[str, float] = {}
    changes: dict[str, list[float]] = {}
    writes: dict[str, list[float]] = {}
    for module, name, first, width, share in _writes(text, runs):
        if (path := _path(module, root)) is not None:
            register = f"{path}.{name}".lstrip(".")
            whole = len(toggles.get(register, ())) or width
            if first + width <= whole:
                writes.setdefault(register, [1.0] * whole)[first : first + width] = [share] * width
    for module, name, words, width, line, (first, last), data in _accesses(text):
        path = _path(module, root)
        # The branch or block is the nearest one above.
        rate = next((runs[module, line - up] for up in range(3) if (module, line - up) in runs), None)
        if path is None:
            continue
        if rate is None:
            raise ToolError(f"the simulation doesn't count line {line} of its Verilog, an access of {module}'s {name}")
        memory = f"{path}.{name}".lstrip(".")
        accesses[memory] = accesses.get(memory, 0.0) + rate * (last - first + 1) / width
        if data is not None:
            inputs = toggles.get(f"{path}.{data}".lstrip("."), [])
            bits = changes.setdefault(memory, [0.0] * width)
            written = writes.setdefault(memory, [0.0] * width)
            for bit in range(first, last + 1):
                written[bit] += rate / words
                toggling = inputs[bit] if len(inputs) == width else rate
                bits[bit] = min(rate / 2, toggling) / words
    known = [rate for name, bits in toggles.items() if not name.endswith("clk") for rate in bits]
    return Activity(toggles, accesses, float(np.mean(known)) if known else 0.0, changes, writes)


def activities(config: Config, place: str = "") -> dict[str, Activity]:
    """Activity of a BP batch (``bp``), and where gradients are predicted of a GP batch (``gp``), on ``config``; kept.

    Names are paths below ``place``, a block's path.
    """
    settings = TrainSettings(
        preset=config.name, variant=config.variant, epochs=2, warmup_epochs=1, phases="2:2",
        train_images=BATCHES * TrainSettings().batch, test_images=TrainSettings().batch,
    )  # fmt: skip
    simulator = library(config, coverage=KINDS)
    points = coverage.load(simulator.with_suffix(".json"))
    text = generated(config).read_text()
    key = digest(simulator.name, settings.to_dict(), training_sources())
    with entry(f"activity-{config.name}-{config.variant}-{key}.npz") as (path, scratch):
        if scratch:
            found = _measure(settings, coverage.n_counters(simulator.with_suffix(".json")))
            with open(scratch / "out", "wb") as file:
                np.savez_compressed(file, allow_pickle=False, **found)
            (scratch / "out").rename(path)
    with np.load(path) as file:
        return {
            phase: of_counts(points, file[phase], int(file[f"{phase}_cycles"]), f"{ROOT}.{place}".rstrip("."), text)
            for phase in ("bp", "gp") if phase in file
        }  # fmt: skip


def _measure(settings: TrainSettings, n_counters: int) -> dict[str, np.ndarray]:
    """Counters and cycles of the last pieces of a run."""
    from ...host.devices.simulated import SimDevice
    from ...host.training.session import open_session
    from ...host.training.trainer import Trainer

    seen: list[tuple[np.ndarray, int]] = []
    options = {"coverage": (KINDS, np.zeros(n_counters, np.uint32))}
    with open_session(settings, "sim", options=options) as session:
        device = session.device
        assert isinstance(device, SimDevice)

        def note(*_) -> None:
            seen.append((device.simulation.counts, device.simulation.cycles))

        Trainer(settings, session.network, device, session.dataset, on_batch=note).run()
    (before, t0), (middle, t1), (after, t2) = seen[-3:]
    if not settings.predicts:
        return {"bp": after - middle, "bp_cycles": np.array(t2 - t1)}
    return {
        "bp": middle - before, "bp_cycles": np.array(t1 - t0), "gp": after - middle, "gp_cycles": np.array(t2 - t1),
    }  # fmt: skip
