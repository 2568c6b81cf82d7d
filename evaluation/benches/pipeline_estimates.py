"""ADA-GP on pipelines in batches too large to simulate, by the estimator: a part of ``results/pipelines.json``.

VGG13 on 32x32 images, four devices and four micro-batches, ideal links. The estimator times each step of each device;
steps are laid out as those measured on the RTL are. Names begin with ``vgg13_estimated_`` and end in the number of
images in a batch. ``speedup_*``, ``gain_*``, ``gain_*_balanced``: as in the bench ``pipelines``. ``bp_ratio_*``: a BP
batch with ADA-GP over a batch without; ``gp_ratio_*``: a GP batch over it, as one of many. ``largest_share_*``: of the
longest stage in a batch without ADA-GP. ``one`` is a device alone.

``error_*``: the worst by which estimates differ from what was measured on the RTL, in batches of that size: of cycles
of batches, of speed-ups, of gains, and ``error_steps_*``, the median of single steps.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

from torch import nn

from ...gen.provenance import commit, provenance
from ...host.console import writable
from ...host.estimate.repeats import Known
from ...host.training.models import build_model
from ...host.training.network import Network
from ...host.training.settings import TrainSettings
from ...spec.phases import BP, GP
from ..instruments.estimates import estimated
from ..instruments.pipeline_estimates import estimated_steps
from ..instruments.pipeline_steps import Steps
from ..instruments.results import FOLDER, merge_results
from .pipelines import CASES, CLASSES, MIX, SCHEDULES, VARIANT, figure_name, laid_out, of_schedule, steps_of

__all__ = ["BATCHES", "PART", "PREFIX", "errors", "main"]

COMMAND = "python -m adagp.evaluation.benches.pipeline_estimates"
PART, PREFIX = "vgg13-estimated", "vgg13_estimated_"
CASE = CASES["vgg13"]
BATCHES = (8, 16, 32, 64, 128, 256, 512)
MEASURED = ("vgg13", "vgg13-one-device", "vgg13-batch16")
"""Parts of the results that estimates are held against."""
KEPT = ("speedup_{}", "gain_{}", "gain_{}_balanced", "largest_share_{}")
"""The figures of a schedule that are kept, beside its ratios."""
CYCLES = ("cycles_bp", "ada_bp", "ada_gp")


def main() -> None:
    """Entry point of ``nox -s bench_pipeline_estimates``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--output", type=writable, default=FOLDER / "pipelines.json")
    path: Path = parser.parse_args().output
    origin = provenance(COMMAND, replace(CASE.settings, variant=VARIANT).config, CASE.settings.seed, commit())
    results = json.loads(path.read_text()) if path.exists() else {"figures": {}, "details": {}}
    module = build_model(CASE.settings.model, CASE.shape, CLASSES, CASE.settings.seed)
    known = {variant: Known() for variant in ("baseline", VARIANT)}
    figures: dict[str, float] = {}
    details: dict[str, object] = {"settings": CASE.settings.to_dict()}
    for batch in BATCHES:
        found, steps = of_batch(batch, module, known)
        details[str(batch)] = found
        figures |= {f"{PREFIX}{name}_{batch}": value for name, value in chosen(found)}
        compared = errors(found, steps, batch, results)
        figures |= {f"{PREFIX}error_{name}_{batch}": value for name, value in compared}
        gains = ", ".join(f"{name} {found[f'gain_{name}']:.3f}" for name in ("one", *map(figure_name, SCHEDULES)))
        print(f"batches of {batch} images: {gains}", flush=True)
    merge_results(path, PART, figures, details, origin)


def of_batch(
    batch: int, module: nn.Module, known: Mapping[str, Known]
) -> tuple[dict[str, float], dict[tuple[str, str], dict[str, Steps]]]:
    """Figures of a batch of that many images on one device and by each schedule; its steps by schedule and design."""
    both = [replace(CASE.settings, batch=batch, variant=variant) for variant in known]
    one, ada = (alone(each, module, known[each.variant]) for each in both)
    mixed = (1 - MIX.share) * ada["bp"] + MIX.share * ada["gp"]
    found = {"cycles_bp_one": one["bp"], "ada_bp_one": ada["bp"], "ada_gp_one": ada["gp"],
             "gain_one": float(one["bp"] / mixed)}  # fmt: skip
    all_steps: dict[tuple[str, str], dict[str, Steps]] = {}
    for schedule in SCHEDULES:
        plans = {each.variant: laid_out(each, schedule, module, CASE.shape) for each in both}
        runs = {variant: estimated_steps(plan, known[variant]) for variant, plan in plans.items()}
        found |= of_schedule(figure_name(schedule), plans, runs, one["bp"])
        all_steps |= {(schedule, variant): steps for variant, steps in runs.items()}
    return found, all_steps


def alone(settings: TrainSettings, module: nn.Module, known: Known) -> dict[str, int]:
    """Cycles of a batch by phase on one device with the same micro-batches."""
    network = Network(
        module, CASE.shape, settings.batch, settings.config, micro_batches=settings.micro_batches,
        source=settings.gradient_source if settings.predicts else None,
    )  # fmt: skip
    phases = (BP, GP) if settings.predicts else (BP,)
    return {phase: batch.cycles for phase, batch in estimated(network, phases, known).items()}


def chosen(found: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """The figures of a batch that are kept."""
    yield "gain_one", found["gain_one"]
    for name in ("one", *map(figure_name, SCHEDULES)):
        yield f"bp_ratio_{name}", found[f"ada_bp_{name}"] / found[f"cycles_bp_{name}"]
        yield f"gp_ratio_{name}", found[f"ada_gp_{name}"] / found[f"cycles_bp_{name}"]
        if name != "one":
            yield from ((each.format(name), found[each.format(name)]) for each in KEPT)


def errors(
    found: Mapping[str, float], steps: Mapping[tuple[str, str], dict[str, Steps]], batch: int, results: Mapping
) -> Iterator[tuple[str, float]]:
    """The errors of estimates beside what the RTL has measured in batches of as many images, if it has."""
    differ: dict[str, list[float]] = {kind: [] for kind in ("cycles", "speedup", "gain", "steps")}
    for part, case in ((part, CASES[part]) for part in MEASURED if part in results["details"]):
        if case.settings.batch != batch:
            continue
        for name, value in found.items():
            kind, there = name.split("_")[0], results["figures"].get(f"{case.prefix}{name}")
            kind = "cycles" if kind == "ada" else kind
            if there is not None and kind in differ and not name.endswith(("_link", "_balanced")):
                differ[kind].append(abs(value / there - 1))
        records = results["details"][part]["details"]
        for (schedule, variant), by_phase in steps.items():
            for phase, measured in steps_of(records.get(f"{schedule} {variant}", {"steps": {}})).items():
                mine = _by_step(by_phase[phase])
                differ["steps"] += [abs(mine[key] / cycles - 1) for key, cycles in _by_step(measured).items()]
    for kind, each in differ.items():
        if each:
            yield kind, median(each) if kind == "steps" else max(each)


def _by_step(batch: Steps) -> dict[tuple, float]:
    """Cycles by device and step."""
    return {
        (place, str(step.what), step.stage, step.micro_batch, step.replica): cycles for place, step, cycles in batch
    }


if __name__ == "__main__":
    main()
