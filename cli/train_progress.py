"""The screen of ``adagp train`` during the run: its progress, a line an epoch, and remarks."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..host.console import screen

if TYPE_CHECKING:  # at run time inside the functions, because torch takes seconds to import
    from ..host.training.events import EpochEvents
    from ..host.training.run_folder import RunFolder
    from ..host.training.trainer import Trainer

__all__ = ["events_of", "record_timeline", "recorded_once", "shown_progress"]


def recorded_once(text: str, trainer: "Trainer") -> Callable[[], str]:
    """A function that says once that waveforms of the commands ``text``, FIRST:LAST, are recorded, and else nothing."""
    first, last = map(int, text.split(":"))
    masks = [line.command.phase_mask for line in trainer.network.program.lines[first : last + 1]]
    before, said = list(trainer.progress.batches), False

    def message() -> str:
        nonlocal said
        ran = sum(1 << phase for phase, count in enumerate(trainer.progress.batches) if count > before[phase])
        if said or not any(mask & ran for mask in masks):
            return ""
        said = True
        return f"commands {text} are recorded; the run goes on without recording, and trace.fst is complete at its end"

    return message


@contextlib.contextmanager
def shown_progress(
    trainer: "Trainer", events: "EpochEvents | None", recorded: Callable[[], str] | None = None
) -> Iterator[None]:
    """A progress bar over all batches; one line an epoch stays on the screen, and goes to TensorBoard's events.

    So does what ``recorded`` says after a batch.
    """
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
            done = progress.epoch * trainer.steps_per_epoch + progress.step
            known = "" if loss is None else f"  loss {loss:.3f}"
            bar.update(task, completed=done, description=f"epoch {progress.epoch + 1}{known}")
            shown = _print_rows(bar.console, progress.log, shown)
            if recorded is not None and (text := recorded()):
                bar.console.print(text)
            if events is not None:
                events.write(progress.log)

        trainer.on_batch = on_batch
        yield
        _print_rows(bar.console, trainer.progress.log, shown)


def _print_rows(console: Console, log: list[dict], shown: int) -> int:
    for row in log[shown:]:
        known = "train loss unknown, no batch was backpropagated"
        if row["train_loss"] is not None:
            known = f"train loss {row['train_loss']:.4f}  train {100 * row['train_accuracy']:.2f} %"
        console.print(f"epoch {row['epoch']:3d}  {known}  test {100 * row['test_accuracy']:.2f} %", highlight=False)
    return len(log)


def record_timeline(text: str, trainer: "Trainer") -> None:
    """Let a run record the batches ``text``, which is FIRST:LAST: its units' work, or its devices' steps.

    Raises SettingsError for batches that the run doesn't have.
    """
    from ..host.devices.simulated import SimDevice
    from ..host.pipelines.trace import DeviceTimeline
    from ..host.pipelines.training import PipelineTrainer
    from ..host.training.timeline import Timeline, window

    assert trainer.folder is not None
    first, last = window(text, trainer.settings.epochs * trainer.steps_per_epoch)
    if isinstance(trainer, PipelineTrainer):
        trainer.recorded = DeviceTimeline(trainer.network.config, trainer.folder.devices_timeline, first, last)
        return
    assert isinstance(trainer.device, SimDevice)
    trainer.timeline = Timeline(trainer.device, trainer.network.program, trainer.folder.timeline, first, last)


@contextlib.contextmanager
def events_of(trainer: "Trainer", folder: "RunFolder", wanted: bool) -> "Iterator[EpochEvents | None]":
    """TensorBoard's events of the run if they are wanted, with the epochs that a checkpoint brought along."""
    from ..host.training.events import EpochEvents

    if not wanted:
        yield None
        return
    events = EpochEvents(folder.events)
    try:
        events.write(trainer.progress.log)
        yield events
        events.write(trainer.progress.log)
    finally:
        events.close()
