"""Table 1 of the paper, beside what ``results/table1.json`` has of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev

from ....algorithm import paper_numbers as paper
from ....experiments.data.images import PADDING
from ..figures import where
from ..reference import table

__all__ = ["accuracies", "here", "trained"]

DATA = "cifar10"
TABLE = ("bp-1", "ada-gp")
"""The methods of the paper's two columns."""
HALF = "-autocast-bf16"
"""Ends the name of a part whose forward and backward passes are in bf16."""


def _runs(folder: Path) -> dict[str, Mapping]:
    """Details by part, of trainings with the table's own settings, in fp32 or bf16."""
    path = folder / "table1.json"
    if not path.exists():
        return {}
    parts = json.loads(path.read_text())["details"]
    return {name: part["details"] for name, part in parts.items() if name.removesuffix(HALF) in paper.ACCURACY}


def accuracies(detail: Mapping, method: str) -> list[float]:
    """Test accuracies of a method's runs that are over; 0 of runs that diverged."""
    return [run["test"] or 0.0 for run in detail["runs"] if run["method"] == method and run["over"]]


def _mean(tests: list[float]) -> str:
    if not tests:
        return "not run to the end"
    return f"{fmean(tests):.2f}" + (f" ± {stdev(tests):.2f}" if len(tests) > 1 else "")


def here(folder: Path) -> dict[tuple[str, str], str]:
    """Text for the table's last column, by network and data set."""
    found: dict[tuple[str, str], str] = {}
    for name, detail in sorted(_runs(folder).items(), reverse=True):  # fp32 last, so that it stays
        plain, ada_gp = (_mean(accuracies(detail, method)) for method in TABLE)
        bf16 = "in bf16: " if name.endswith(HALF) else ""
        text = f"{bf16}BP {plain}, ADA-GP {ada_gp}; see *Trained by the paper's settings*"
        found[name.removesuffix(HALF), DATA] = text
    return found


def _rows(detail: Mapping) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for method in dict.fromkeys(run["method"] for run in detail["runs"]):
        runs = [run for run in detail["runs"] if run["method"] == method]
        counts = [run["batches"] for run in runs]
        share = sum(count.get("gp", 0) for count in counts) / sum(sum(count.values()) for count in counts)
        part = ", ".join(f"seed {run['seed']}: {run['epochs']} epochs, {run['test'] or 0.0:.2f} %"
                         for run in runs if not run["over"])  # fmt: skip
        seconds = fmean(run["seconds"] / run["epochs"] for run in runs if run["epochs"])
        over = str(sum(run["over"] for run in runs))
        rows.append((f"`{method}`", over, _mean(accuracies(detail, method)), f"{100 * share:.0f}", f"{seconds:.2f}",
                     part))  # fmt: skip
    return rows


def _network(name: str, detail: Mapping, origin: Mapping, now: Mapping[str, str]) -> str:
    settings, examples = detail["settings"], detail["examples"]
    plain, ada_gp = paper.ACCURACY[name.removesuffix(HALF)][DATA]
    quality = settings["jpeg_quality"]
    images = "The images are as published." if quality is None else (
        f"The images are JPEG files of quality {quality}, not the ones that are published, so accuracies aren't quite "
        "comparable with the paper's."
    )  # fmt: skip
    heads = ("method", "runs to the end", "test accuracy, %", "GP batches, %", "seconds an epoch", "runs in part")
    tests = accuracies(detail, TABLE[0])
    gap = f" Plain training here is {plain - fmean(tests):.1f} points below the paper's." if tests else ""
    title = name.removesuffix(HALF) + (", forward and backward passes in bf16" if name.endswith(HALF) else "")
    return f"""### {title}

The paper has {plain} % with BP and {ada_gp} % with ADA-GP.{gap} {images} Here: {settings["epochs"]} epochs of
{examples["train"]:,} images in batches of {settings["batch"]}, {examples["validation"]:,} images for the plateau of the
learning rate, {examples["test"]:,} to test with; momentum {settings["momentum"]}, weight decay
{settings["weight_decay"]:g}, on {origin["processor"]}.

{where(dict(origin), now)}

{table(heads, _rows(detail))}"""


def trained(folder: Path, now: Mapping[str, str]) -> str:
    """The section on trainings by the paper's settings; ages as of ``now``. Without any it says so."""
    runs = _runs(folder)
    head = f"""## Trained by the paper's settings

SGD with momentum at a learning rate of {paper.LR:g}, and PyTorch's ReduceLROnPlateau (section 5.2), for the paper's
{paper.EPOCHS} epochs. The paper doesn't say the batch, the momentum, weight decay, nor how images vary. Here they are
CIFAR's usual batch and momentum, no decay, images shifted by up to {PADDING} pixels and mirrored half of the time.
`ada-gp` is the library's; `ada-gp-raw` has the paper's predictor with its rate of {paper.PREDICTOR_LR:g}, its targets
not normalised. Where plain training itself stays far below the paper's accuracy, the settings that the paper gives
don't reproduce its baseline, and the row is no test of its comparison. Accuracies have standard deviations over
seeds; so few seeds show no small difference. A run that diverged counts as 0. `nox -s bench_table1 -- --data FOLDER`
goes on with what isn't run."""
    if not runs:
        return f"{head}\n\nNot run."
    origins = json.loads((folder / "table1.json").read_text())["provenance"]
    return "\n\n".join((head, *(_network(name, detail, origins[name], now) for name, detail in runs.items())))
