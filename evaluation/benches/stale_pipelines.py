"""Stale weights on pipelines of four simulated devices: writes the part ``stale`` of ``results/pipelines.json``.

``vgg-small`` on 16x16 images, baseline design, a batch of 16 micro-batches of an image, each with an update of its own;
the pipeline runs empty after a batch. ``stale_cycles_*``: a batch, on one device (``one``) and by schedule.
``stale_speedup_*``: over one device with as many updates; ``_link`` and ``_balanced`` as in the bench ``pipelines``.
``stale_limit_*``: in batches of any length, where fill and drain count for nothing. ``stale_idle_*``: the devices' mean
idle share. ``stale_hybrid_*``: speed-up if half of the batches have no stale weights, each micro-batch of which passes
all stages alone; ``stale_formula_*`` has 2 / (1 + 1 / speed-up) for it.

``stale_memory_*``: bytes of all devices' memory plans. ``stale_activations_*``: those of activations and their
gradients in it. ``stale_stash_*``: bytes of the older weights that PipeDream would keep, of a stage as many as updates
missed.
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from ...gen.provenance import commit, provenance
from ...host.compiler.tensors import layer_tensor
from ...host.console import writable
from ...host.pipelines.device_program import Staged
from ...host.pipelines.plan import STALE
from ...host.training.models import build_model
from ..instruments.pipeline_steps import Steps, balanced_steps, laid
from ..instruments.results import FOLDER, merge_results
from .pipelines import (
    CASES,
    CLASSES,
    IDEAL,
    LINK,
    WORK,
    kept,
    laid_out,
    on_one_device,
    pipelined,
    steps_of,
)

__all__ = ["PART", "SETTINGS", "StageMemory", "figures_of", "main", "memory_of"]

COMMAND = "python -m adagp.evaluation.benches.stale_pipelines"
PART = "stale"
SHAPE = CASES["vgg-small"].shape
SETTINGS = replace(CASES["vgg-small"].settings, batch=16, micro_batches=16)


@dataclass(frozen=True)
class StageMemory:
    """Memory of a stage's device in bytes: ``held`` micro-batches' ``activations`` with gradients, ``weights`` of 16
    bits, and ``stashed``, the older ones that PipeDream would keep."""

    missed: int
    held: int
    activations: int
    weights: int
    stashed: int
    all: int


def memory_of(plan: Staged) -> list[StageMemory]:
    """The memory of each stage, as the devices' memory plans have it."""
    rows = []
    for stage, device in enumerate(plan.devices):
        begin, end = device.plan.region("activations")
        layers = [layer for layer in device.layers if layer.weighted]
        weights = sum(plan.tensors[layer_tensor(layer, "weight")].n_bytes for layer in layers)
        missed = plan.schedule.staleness[stage]
        rows.append(StageMemory(missed, device.held, end - begin, weights, missed * weights, device.plan.n_bytes))
    return rows


def figures_of(name: str, plan: Staged, steps: dict[str, Steps], one: int) -> Iterator[tuple[str, float]]:
    """Figures of a schedule."""
    cycles, slow = (laid(plan, [steps[kind]], IDEAL) for kind in ("bp", "alone"))
    devices = plan.schedule.devices
    busy = [sum(each for place, _, each in steps["bp"] if place == device) for device in range(devices)]
    yield f"cycles_{name}", cycles
    yield f"alone_{name}", slow
    yield f"idle_{name}", 1 - sum(busy) / (devices * cycles)
    yield f"limit_{name}", one / max(busy)
    yield f"speedup_{name}", one / cycles
    yield f"speedup_{name}_link", one / laid(plan, [steps["bp"]], LINK)
    yield f"speedup_{name}_balanced", one / laid(plan, [balanced_steps(steps["bp"])], IDEAL)
    yield f"hybrid_{name}", 2 * one / (cycles + slow)
    yield f"formula_{name}", 2 / (1 + cycles / one)
    rows = memory_of(plan)
    for what, values in (("memory", [row.all for row in rows]), ("activations", [row.activations for row in rows]),
                         ("stash", [row.stashed for row in rows])):  # fmt: skip
        yield f"{what}_{name}", sum(values)


def main() -> None:
    """Entry point of ``nox -s bench_stale_pipelines``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--output", type=writable, default=FOLDER / "pipelines.json")
    path: Path = parser.parse_args().output
    WORK.mkdir(parents=True, exist_ok=True)
    origin = provenance(COMMAND, SETTINGS.config, SETTINGS.seed, commit())
    module = build_model(SETTINGS.model, SHAPE, CLASSES, SETTINGS.seed)
    one = kept("stale-one", SETTINGS, partial(on_one_device, SETTINGS, SHAPE, updates=True))["warmup"]
    figures, details = {"stale_cycles_one": float(one), "stale_layout_error": 0.0}, {}
    for schedule in STALE:
        record = kept(schedule, SETTINGS, partial(pipelined, SETTINGS, schedule, module, SHAPE, hybrid=True))
        plan, steps = laid_out(SETTINGS, schedule, module, SHAPE), steps_of(record)
        for name, value in figures_of(schedule.removeprefix("stale-"), plan, steps, one):
            figures[f"stale_{name}"] = value
        differs = abs(laid(plan, [steps["bp"]], IDEAL) / record["cycles"] - 1)
        figures["stale_layout_error"] = max(figures["stale_layout_error"], differs)
        details[schedule] = record | {"memory": [asdict(row) for row in memory_of(plan)]}
    merge_results(path, PART, figures, details | {"settings": SETTINGS.to_dict(), "link": vars(LINK)}, origin)
    for name, value in figures.items():
        print(f"{name}: {value:,.6g}")


if __name__ == "__main__":
    main()
