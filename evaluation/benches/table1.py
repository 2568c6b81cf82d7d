"""Rows of the paper's Table 1 on CIFAR-10, trained by its settings on a GPU: writes ``results/table1.json``.

What it trains: ``--model`` with each of ``--methods`` from each of ``--seeds``, for the paper's epochs. ``bp-1`` is
plain training, ``ada-gp`` the library's ADA-GP, ``ada-gp-raw`` the paper's predictor as it is, its targets not
normalised, ``skip`` leaves the batches out that ADA-GP predicts (docs/accuracy.md says more). Learning rates, their
scheduler and the optimizers are the paper's (section 5.2). It doesn't say the batch, the momentum, the variation of
images nor how the networks are fitted to small images: here these are CIFAR's usual ones.

What it needs: a GPU, CIFAR-10's files in ``--data``, torchvision for the networks. All images are in the GPU's memory,
and batches are CUDA graphs. Example, in a checkout:

    python -m adagp.evaluation.benches.table1 --model vgg13 --data ~/cifar --minutes 9

Stops and goes on: after ``--minutes`` at the latest it ends, leaves the state of the run under way in ``--state`` and
writes what there is; the same command goes on with what is left. Runs that are over are known by the results' file
alone, so states may be thrown away between runs, and several machines may work one after the other on one file.
``--device cpu`` with few ``--images`` and ``--epochs`` tries it; other settings than the table's are a part of their
own in the results.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

import torch

from ...experiments.data import DataError
from ...experiments.data.cifar import jpeg_quality
from ...experiments.device_run import AT_ONCE, DeviceRun
from ...experiments.errors import NetworkError
from ...experiments.experiment_folder import without_nan
from ...experiments.methods.optimisation import DEVICES
from ...experiments.networks.models import CNNS, SMALL_MODELS
from ...experiments.preparation import prepared
from ...experiments.runs import Run, Standing
from ...experiments.settings import ExperimentSettings, chosen
from ...gen.provenance import code_digest, commit, provenance
from ...host.console import at_least_one, screen, writable
from ...host.training.run_folder import RunError
from ...host.training.settings import SettingsError
from ..instruments.results import FOLDER, merge_results
from .predictor import BATCH

__all__ = ["COMMAND", "TRAINED", "figures_of", "main"]

COMMAND = "python -m adagp.evaluation.benches.table1"
DATA = "cifar10"
TRAINED = ("bp-1", "ada-gp", "ada-gp-raw", "skip")
"""Methods, in order: those of the table first."""
AUTOCASTS = ("off", "bf16")
"""fp16 would need a scaled loss, which isn't for CUDA graphs."""
STATES = Path("runs") / "table1"


def figures_of(part: str, runs: Sequence[Mapping]) -> dict[str, float]:
    """Means and standard deviations over seeds of each method, of runs that are over; one that diverged counts as 0."""
    figures: dict[str, float] = {}
    for method in dict.fromkeys(run["method"] for run in runs):
        tests = [run["test"] or 0.0 for run in runs if run["method"] == method and run["over"]]
        if tests:
            figures[f"accuracy_{part}_{method}"] = round(fmean(tests), 3)
        if len(tests) > 1:
            figures[f"sd_{part}_{method}"] = round(stdev(tests), 3)
    return figures


def _row(run: DeviceRun) -> dict:
    """The part of a run, over or not, that the results keep."""
    history = run.history
    return without_nan({
        "identity": run.run.identity, "method": run.run.method, "seed": run.run.seed, "epochs": run.epoch,
        "over": run.over, "test": math.nan if run.diverged else run.score("test")[0],
        "batches": history.phases, "losses": history.losses, "validations": history.validations,
        "seconds": sum(history.seconds),
    })  # fmt: skip


def _earlier(path: Path, part: str, settings: Mapping) -> list[dict]:
    """Runs of the part that the results have; of other settings or another library none."""
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    detail = found["details"].get(part, {}).get("details")
    if detail is None or detail["settings"] != settings:
        return []
    same = found["provenance"][part].get("code", {}).get("library") == code_digest("library")
    return detail["runs"] if same else []


class _Work:
    """Runs of one command, and what the results have of them."""

    def __init__(self, options: argparse.Namespace, settings: ExperimentSettings, part: str):
        self._options, self._part, self._source = options, part, commit()
        self._command = " ".join((COMMAND, *_said(options)))
        self._data = prepared(DATA, options.data, images=settings.images, augment=settings.augment)
        self._parts = DeviceRun.images(self._data, settings.device)
        deciding = json.loads(json.dumps(settings.deciding()))
        self._settings = {**deciding, "at_once": AT_ONCE, "jpeg_quality": jpeg_quality(options.data)}
        rows = _earlier(options.output, part, self._settings)
        self._rows = {row["identity"]: row for row in rows}
        size = self._data.train.images_NCHW.shape[-1]
        s = settings
        self.runs = [
            Run(s.data, s.model, method, seed, s.lr, s.epochs, s.batch, size, 3, s.momentum, s.weight_decay,
                s.optimizer, s.lr_schedule, s.device, s.autocast)
            for method in s.methods for seed in s.seeds
        ]  # fmt: skip
        if s.batch > len(self._data.train):
            raise SettingsError(f"batch = {s.batch}, and there are {len(self._data.train)} training images")

    @property
    def left(self) -> list[Run]:
        """Runs that aren't over."""
        return [run for run in self.runs if not self._rows.get(run.identity, {}).get("over")]

    def go_on(self, end: float) -> None:
        """Train until all are over or the time is; after each run its row is in the results."""
        for run in self.left:
            if time.monotonic() >= end:
                return
            going = DeviceRun(run, self._data, self._parts, self._options.state)
            before = going.epoch
            with going.trainer:
                going.train(end, _tell(run))
                if going.epoch == before and not going.over:
                    return
                self._rows[run.identity] = _row(going)
            self._write(run.device)
            row = self._rows[run.identity]
            came = "diverged" if row["test"] is None else f"test {row['test']:.2f} %"
            rest = "" if row["over"] else f", not over: {row['epochs']} of {run.epochs} epochs"
            screen.print(f"{run.method}, seed {run.seed}: {came} in {row['seconds']:.0f} s{rest}")

    def _write(self, device: str) -> None:
        rows = sorted(self._rows.values(), key=lambda row: (TRAINED.index(row["method"]), row["seed"]))
        origin = provenance(self._command, None, sorted({row["seed"] for row in rows}), self._source, "library")
        if device == "cuda":
            origin["processor"] = torch.cuda.get_device_name()
        examples = {name: len(part) for name, part in self._parts.items()}
        details = {"settings": self._settings, "runs": rows, "examples": examples}
        merge_results(self._options.output, self._part, figures_of(self._part, rows), details, origin)


def _tell(run: Run):
    last = 0.0

    def tell(standing: Standing) -> None:
        nonlocal last
        if time.monotonic() - last > 5:
            last = time.monotonic()
            score = "" if math.isnan(standing.score) else f", validation {standing.score:.2f} %"
            done = 100 * standing.done / standing.total
            screen.print(f"{run.method}, seed {run.seed}: epoch {standing.epoch} of {standing.epochs} "
                         f"({done:.0f} %), loss {standing.loss:.3f}{score}")  # fmt: skip

    return tell


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("--model", choices=(*CNNS, *SMALL_MODELS), default="vgg13", metavar="NAME",
                        help=f"of {', '.join(CNNS)}, or a small one (default: %(default)s)")  # fmt: skip
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="where CIFAR-10's files are")
    parser.add_argument("--methods", default=",".join(TRAINED), help="with commas (default: %(default)s)")
    parser.add_argument("--seeds", type=at_least_one, default=2, metavar="N", help="0 to N-1 (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="ends before they are over (default: no limit)")
    parser.add_argument("--state", type=Path, default=STATES, metavar="FOLDER",
                        help="of runs under way (default: %(default)s)")  # fmt: skip
    parser.add_argument("--device", choices=DEVICES, default="cuda", help="default: %(default)s")
    parser.add_argument("--epochs", type=at_least_one, help="of a run (default: the paper's)")
    parser.add_argument("--images", type=int, default=0, help="to train with (default: all)")
    parser.add_argument("--batch", type=at_least_one, default=BATCH, help="images in a batch (default: %(default)s)")
    parser.add_argument("--autocast", choices=AUTOCASTS, default="off",
                        help="forward and backward passes in this format (default: %(default)s)")  # fmt: skip
    parser.add_argument("-o", "--output", type=writable, default=FOLDER / "table1.json", help="default: %(default)s")
    return parser


_APART = ("device", "epochs", "images", "batch", "autocast")
"""Options whose other values are a part of their own in the results."""


def _part(options: argparse.Namespace) -> str:
    default = _parser().get_default
    given = ((name, getattr(options, name)) for name in _APART)
    return options.model + "".join(f"-{name}-{value}" for name, value in given if value != default(name))


def _said(options: argparse.Namespace) -> list[str]:
    """The options that make a part of the results, for its provenance."""
    default = _parser().get_default
    names = ("model", *_APART)
    said = [f"--{name} {getattr(options, name)}" for name in names if getattr(options, name) != default(name)]
    return [*said, "--data FOLDER"]


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``nox -s bench_table1``."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda, and PyTorch finds no GPU; --device cpu with few --images and --epochs tries it")
    methods = tuple(options.methods.split(","))
    if strangers := [name for name in methods if name not in TRAINED]:
        parser.error(f"--methods: no {strangers[0]!r} here; there are {', '.join(TRAINED)}")
    if not options.minutes > 0:
        parser.error(f"--minutes {options.minutes:g} must be more than 0")
    end = time.monotonic() + 60 * options.minutes
    torch.backends.cudnn.benchmark = True
    given = {"data": DATA, "methods": methods, "seeds": tuple(range(options.seeds)), "batch": options.batch,
             "augment": True, "lr_schedule": "plateau", "device": options.device, "epochs": options.epochs,
             "images": options.images, "autocast": options.autocast}  # fmt: skip
    try:
        settings = chosen(options.model, options.model in CNNS, given)
        work = _Work(options, settings, _part(options))
        work.go_on(end)
    except (DataError, RunError, NetworkError, SettingsError) as error:
        parser.exit(2, f"error: {error}\n")
    except torch.OutOfMemoryError:
        parser.exit(2, "error: out of GPU memory; lower --batch\n")
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        sys.exit(130)
    left = len(work.left)
    print(f"{len(work.runs) - left} of {len(work.runs)} runs are over" + ("; the same command goes on" if left else ""))


if __name__ == "__main__":
    main()
