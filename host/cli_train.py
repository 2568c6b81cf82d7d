"""Commands about runs: train, evaluate, report."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ..spec.presets import preset
from .cli_options import DeviceOption, JsonOption, PresetOption, RunArgument, screen, summarise
from .data import DATASETS
from .device import DeviceError
from .run_folder import RunError, RunFolder
from .settings import SCHEDULES, TrainSettings

if TYPE_CHECKING:  # at run time inside the functions, because torch takes seconds to import
    from .trainer import Trainer

__all__ = ["evaluate", "report", "train"]

DEFAULTS = TrainSettings()
GO_ON = "the same command goes on from the last checkpoint"


def _summary(trainer: "Trainer", device_name: str, weights_hash: str, seconds: float) -> dict:
    last = trainer.progress.log[-1]
    return {
        "settings": trainer.settings.to_dict(), "device": device_name, "weights_hash": weights_hash,
        "test_accuracy": last["test_accuracy"], "train_loss": last["train_loss"],
        "cycles": last["cycles"], "macs": last["macs"], "saturations": last["saturations"],
        "device_seconds": last["device_seconds"], "host_seconds": last["host_seconds"], "seconds": round(seconds, 1),
    }  # fmt: skip


def train(
    device: DeviceOption = "sim",
    preset_name: PresetOption = DEFAULTS.preset,
    model: Annotated[
        str, typer.Option(help="digits-cnn, mlp, lenet, vgg-small, vgg13, or `file.py:function` (see below).")
    ] = DEFAULTS.model,
    data: Annotated[str, typer.Option(help=f"One of {', '.join(DATASETS)}.")] = DEFAULTS.data,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the files of a data set not shipped.")] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the training images.")] = DEFAULTS.epochs,
    batch: Annotated[int, typer.Option(help="Images per batch.")] = DEFAULTS.batch,
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", "--lr", help="Learning rate, where the schedule begins.")
    ] = DEFAULTS.learning_rate,
    schedule: Annotated[str, typer.Option(help=f"Learning rate: {', '.join(SCHEDULES)}.")] = DEFAULTS.schedule,
    momentum: Annotated[float, typer.Option(help="Momentum of SGD.")] = DEFAULTS.momentum,
    weight_decay: Annotated[float, typer.Option(help="L2 penalty on all parameters.")] = DEFAULTS.weight_decay,
    seed: Annotated[int, typer.Option(help="Decides initial weights and the order of images.")] = DEFAULTS.seed,
    train_images: Annotated[int | None, typer.Option(help="Use only the first so many training images.")] = None,
    test_images: Annotated[int | None, typer.Option(help="Use only the first so many test images.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Run folder; default: runs/NAME.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over, whatever the folder holds.")] = False,
    checkpoint_every: Annotated[int, typer.Option(help="Batches between checkpoints.", min=1)] = 50,
    trace: Annotated[
        str | None, typer.Option(help="Record waveforms of the commands `FIRST:LAST` (see disasm) in `trace.fst`.")
    ] = None,
    json_path: JsonOption = None,
) -> None:
    """Train a network on the accelerator.

    Without options: a small CNN on scikit-learn's digits, on the simulated RTL. The run's folder gets the
    log (CSV and JSON), checkpoints, weights, a plot and a summary. A killed run goes on where it stopped when
    the same command is given again, and ends with the same bits.

    A network of your own is a function `build(shape, n_classes)`, shape being (channels, height, width),
    that returns a `torch.nn.Sequential` of Conv2d, Linear, ReLU, MaxPool2d, AvgPool2d and Flatten.

    Example: `adagp train --model my_net.py:build --device golden --epochs 5 --lr 0.05`
    """
    settings = TrainSettings(
        model=model, data=data, data_dir=str(data_dir) if data_dir else None, preset=preset_name, epochs=epochs,
        batch=batch, learning_rate=learning_rate, schedule=schedule, momentum=momentum, weight_decay=weight_decay,
        seed=seed, train_images=train_images, test_images=test_images,
    )  # fmt: skip
    folder = RunFolder(output or Path("runs") / f"{model.rsplit(':')[-1]}-{data}-{preset_name}-{device}-{seed}")
    began = time.perf_counter()
    try:
        trainer, weights_hash = _run(settings, device, folder, fresh, checkpoint_every, trace)
    except KeyboardInterrupt:
        goes_on = folder.has_checkpoint() and not folder.finished
        screen.print(f"interrupted; {GO_ON if goes_on else 'there is no checkpoint yet: the same command starts over'}")
        raise typer.Exit(130) from None
    except DeviceError as error:
        if folder.has_checkpoint() and not folder.finished:
            raise DeviceError(f"{error}; {GO_ON}", error.code, error.index) from error
        raise
    summary = _summary(trainer, device, weights_hash, time.perf_counter() - began)
    _draw(folder)
    folder.write_summary(summary)
    cycles = f", {summary['cycles']:,} cycles" if summary["cycles"] else ""
    print(f"test accuracy {100 * summary['test_accuracy']:.2f} %  in {summary['seconds']} s{cycles}")
    print(f"weights {weights_hash}")
    print(f"log, plot and weights in {folder.path}")
    summarise(summary, json_path)


def _run(
    settings: TrainSettings, device: str, folder: RunFolder, fresh: bool, checkpoint_every: int, trace: str | None
) -> tuple["Trainer", str]:
    """Train to the end, from the folder's checkpoint if it holds an unfinished run; returns the weights' hash too."""
    from .session import open_session
    from .trainer import Trainer

    folder.check_is_ours()
    goes_on = folder.has_checkpoint() and not fresh
    if goes_on and folder.settings != settings.to_dict():
        raise RunError(f"{folder.path} holds a run with other settings: give another --output, or --fresh")
    with open_session(settings, device, trace=trace, folder=folder) as session:
        trainer = Trainer(settings, session.network, session.device, session.dataset, folder, checkpoint_every)
        if goes_on and not folder.finished:
            trainer.restore()
            screen.print(f"going on from epoch {trainer.progress.epoch + 1}, batch {trainer.progress.step}")
        else:
            if folder.finished:
                screen.print(f"replacing the finished run in {folder.path}")
            folder.begin(settings.to_dict())
        with _progress(trainer):
            trainer.run()
        session.save_state(folder)
        return trainer, session.network.weights_hash(session.device)


@contextlib.contextmanager
def _progress(trainer: "Trainer") -> Iterator[None]:
    """A progress bar over all batches; one line an epoch stays on the screen."""
    total = trainer.settings.epochs * trainer.steps_per_epoch
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("batches"),
        TimeElapsedColumn(), TextColumn("<"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=screen) as bar:
        done = trainer.progress.epoch * trainer.steps_per_epoch + trainer.progress.step
        task = bar.add_task("training", total=total, completed=done)
        shown = len(trainer.progress.log)

        def on_batch(progress, loss):
            nonlocal shown
            bar.update(task, advance=1, description=f"epoch {progress.epoch + 1}  loss {loss:.3f}")
            shown = _print_rows(bar.console, progress.log, shown)

        trainer.on_batch = on_batch
        yield
        _print_rows(bar.console, trainer.progress.log, shown)


def _print_rows(console: Console, log: list[dict], shown: int) -> int:
    for row in log[shown:]:
        console.print(
            f"epoch {row['epoch']:3d}  train loss {row['train_loss']:.4f}  train {100 * row['train_accuracy']:.2f} %"
            f"  test {100 * row['test_accuracy']:.2f} %", highlight=False,
        )  # fmt: skip
    return len(log)


def evaluate(run: RunArgument, device: DeviceOption = "sim", json_path: JsonOption = None) -> None:
    """Load a run's last checkpoint and measure loss and accuracy on the test images.

    Example: `adagp evaluate runs/NAME --device golden`
    """
    folder = RunFolder(run)
    settings = TrainSettings.from_dict(folder.settings)
    from . import trainer as training
    from .session import open_session

    with open_session(settings, device) as session:
        trainer = training.Trainer(settings, session.network, session.device, session.dataset, folder)
        trainer.restore()
        with screen.status("evaluating"):
            loss, accuracy = training.evaluate(session.network, session.device, trainer.test_x_NCHW, trainer.test_y_N)
    print(f"test loss {loss:.4f}  accuracy {100 * accuracy:.2f} %  ({len(trainer.test_y_N)} images)")
    summarise({"test_loss": loss, "test_accuracy": accuracy, "images": len(trainer.test_y_N)}, json_path)


def report(run: RunArgument, json_path: JsonOption = None) -> None:
    """Show a run's log as a table and draw its plot (`report.png`): loss, accuracy, where the cycles went.

    Example: `adagp report runs/NAME --json figures.json`
    """
    folder = RunFolder(run)
    log = folder.log
    if not log:
        raise RunError(f"the log in {run} has no epoch yet")
    columns = ("epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "cycles", "saturations")
    table = Table(title=str(run))
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for row in log:
        table.add_row(*(f"{row[c]:.4f}" if isinstance(row[c], float) else f"{row[c]}" for c in columns))
    Console().print(table)
    last = log[-1]
    if last["cycles"]:
        busy = last["macs"] / last["cycles"] / preset(folder.settings["preset"]).n_pes
        moved = (last["read_bytes"] + last["write_bytes"]) / 1e6
        print(f"PEs multiply in {100 * busy:.1f} % of cycles (zeros of padding included)  DRAM {moved:.1f} MB")
    print(_draw(folder))
    summarise({"settings": folder.settings, "log": log}, json_path)


def _draw(folder: RunFolder) -> Path:
    from .plots import plot_run  # here, because matplotlib takes a while to import

    path = folder.path / "report.png"
    settings = folder.settings
    plot_run(folder.log, f"{settings['model']} on {settings['data']}, {settings['preset']}", path)
    return path
