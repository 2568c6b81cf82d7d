"""Commands about runs: train, evaluate, report."""

import contextlib
import time
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ..spec.presets import PRESETS, preset
from .cli import app, screen, summarise
from .data import DATASETS
from .run_folder import RunError, RunFolder
from .session import open_session
from .settings import TrainSettings
from .trainer import Trainer, evaluate

__all__: list[str] = []

DEFAULTS = TrainSettings()


def _summary(trainer: Trainer, device_name: str, weights_hash: str, seconds: float) -> dict:
    log = trainer.progress.log
    last = log[-1]
    return {
        "settings": trainer.settings.to_dict(), "device": device_name, "weights_hash": weights_hash,
        "test_accuracy": last["test_accuracy"], "train_loss": last["train_loss"],
        "cycles": last.get("cycles", 0), "macs": last.get("macs", 0), "saturations": last.get("saturations", 0),
        "device_seconds": last["device_seconds"], "host_seconds": last["host_seconds"], "seconds": round(seconds, 1),
    }  # fmt: skip


@app.command()
def train(
    device: Annotated[str, typer.Option(help="`sim` (the simulated RTL) or `golden` (the model of it).")] = "sim",
    preset_name: Annotated[str, typer.Option("--preset", help=f"One of {', '.join(PRESETS)}.")] = DEFAULTS.preset,
    model: Annotated[str, typer.Option(help="A built-in network, or `file.py:function`.")] = DEFAULTS.model,
    data: Annotated[str, typer.Option(help=f"One of {', '.join(DATASETS)}.")] = DEFAULTS.data,
    data_dir: Annotated[Optional[Path], typer.Option(help="Folder with the files of a data set not shipped.")] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the training images.")] = DEFAULTS.epochs,
    batch: Annotated[int, typer.Option(help="Images per batch.")] = DEFAULTS.batch,
    learning_rate: Annotated[float, typer.Option("--learning-rate", "--lr")] = DEFAULTS.learning_rate,
    schedule: Annotated[str, typer.Option(help="Learning rate: constant, cosine or step.")] = DEFAULTS.schedule,
    momentum: Annotated[float, typer.Option()] = DEFAULTS.momentum,
    weight_decay: Annotated[float, typer.Option()] = DEFAULTS.weight_decay,
    seed: Annotated[int, typer.Option(help="Decides initial weights and the order of images.")] = DEFAULTS.seed,
    train_images: Annotated[Optional[int], typer.Option(help="Use only the first so many training images.")] = None,
    test_images: Annotated[Optional[int], typer.Option(help="Use only the first so many test images.")] = None,
    output: Annotated[Optional[Path], typer.Option("--output", "-o", help="Run folder; default: runs/NAME.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over even if the folder holds an unfinished run.")] = False,
    checkpoint_every: Annotated[int, typer.Option(help="Batches between checkpoints.", min=1)] = 50,
    trace: Annotated[Optional[str], typer.Option(help="Waveform (FST) of commands `FIRST:LAST` of the first batch.")] = None,
    json_path: Annotated[Optional[Path], typer.Option("--json", help="Also write the summary to a JSON file.")] = None,
) -> None:
    """Train a network on the accelerator.

    Without options: a small CNN on scikit-learn's digits, on the simulated RTL. The run's folder gets the
    log (CSV and JSON), checkpoints, a plot and a summary. A killed run goes on where it stopped when the
    same command is given again, and ends with the same bits.
    """
    settings = TrainSettings(
        model=model, data=data, data_dir=str(data_dir) if data_dir else None, preset=preset_name, epochs=epochs,
        batch=batch, learning_rate=learning_rate, schedule=schedule, momentum=momentum, weight_decay=weight_decay,
        seed=seed, train_images=train_images, test_images=test_images,
    )  # fmt: skip
    folder = RunFolder(output or Path("runs") / f"{model.rsplit(':')[-1]}-{data}-{preset_name}-{device}-{seed}")
    began = time.perf_counter()
    with open_session(settings, device, trace=trace, folder=folder) as session:
        trainer = Trainer(settings, session.network, session.device, session.dataset, folder, checkpoint_every)
        if folder.has_checkpoint() and not fresh:
            if folder.settings != settings.to_dict():
                raise RunError(f"{folder.path} holds a run with other settings: give another --output, or --fresh")
            if not folder.finished:
                trainer.restore()
                screen.print(f"going on from epoch {trainer.progress.epoch + 1}, batch {trainer.progress.step}")
        if not trainer.progress.log and not trainer.progress.step:
            folder.clear()
            folder.write_settings(settings.to_dict())
        with _progress(trainer):
            trainer.run()
        weights_hash = session.network.weights_hash(session.device)
        session.save_state(folder)
    summary = _summary(trainer, device, weights_hash, time.perf_counter() - began)
    folder.write_summary(summary)
    _draw(folder)
    print(f"test accuracy {100 * summary['test_accuracy']:.2f} %  in {summary['seconds']} s, {summary['cycles']:,} cycles")
    print(f"weights {weights_hash}")
    print(f"log, plot and weights in {folder.path}")
    summarise(summary, json_path)


@contextlib.contextmanager
def _progress(trainer: Trainer):
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


@app.command(name="evaluate")
def evaluate_run(
    run: Annotated[Path, typer.Argument(help="A run's folder, as `adagp train` made it.")],
    device: Annotated[str, typer.Option(help="`sim` or `golden`.")] = "sim",
    json_path: Annotated[Optional[Path], typer.Option("--json", help="Also write the summary to a JSON file.")] = None,
) -> None:
    """Load a run's last checkpoint and measure loss and accuracy on the test images."""
    folder = RunFolder(run)
    settings = TrainSettings.from_dict(folder.settings)
    with open_session(settings, device) as session:
        trainer = Trainer(settings, session.network, session.device, session.dataset, folder)
        trainer.restore()
        with screen.status("evaluating"):
            loss, accuracy = evaluate(session.network, session.device, trainer.test_x_NCHW, trainer.test_y_N)
    print(f"test loss {loss:.4f}  accuracy {100 * accuracy:.2f} %  ({len(trainer.test_y_N)} images)")
    summarise({"test_loss": loss, "test_accuracy": accuracy, "images": len(trainer.test_y_N)}, json_path)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A run's folder, as `adagp train` made it.")],
    json_path: Annotated[Optional[Path], typer.Option("--json", help="Also write the figures to a JSON file.")] = None,
) -> None:
    """Show a run's log as a table and draw its plot (`report.png`): loss, accuracy, where the cycles went."""
    folder = RunFolder(run)
    log = folder.log
    if not log:
        raise RunError(f"the log in {run} has no epoch yet")
    table = Table(title=str(run))
    columns = ("epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "cycles", "saturations")
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for row in log:
        table.add_row(*(f"{row[c]:.4f}" if isinstance(row.get(c), float) else f"{row.get(c, '')}" for c in columns))
    Console().print(table)
    last = log[-1]
    if last.get("cycles"):
        config = preset(folder.settings["preset"])
        busy = last["macs"] / last["cycles"] / config.n_pes
        print(f"PE utilisation {100 * busy:.1f} %  DRAM {(last['read_bytes'] + last['write_bytes']) / 1e6:.1f} MB")
    print(_draw(folder))
    summarise({"settings": folder.settings, "log": log}, json_path)


def _draw(folder: RunFolder) -> Path:
    from .plots import plot_run

    path = folder.path / "report.png"
    settings = folder.settings
    plot_run(folder.log, f"{settings['model']} on {settings['data']}, {settings['preset']}", path)
    return path
