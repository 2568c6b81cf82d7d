"""Commands about runs that there are: evaluate, report."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..host.console import screen
from ..host.training.run_folder import RunError, RunFolder
from ..host.training.settings import TrainSettings
from ..spec.phases import PHASE_NAMES, PHASE_TITLES, WARMUP
from ..spec.presets import preset
from .options import (
    BaudOption,
    JsonOption,
    PatienceOption,
    PortOption,
    RunArgument,
    board_port,
    summarise,
    transfer_shown,
)

__all__ = ["batches_by_phase", "draw", "evaluate", "report"]


def batches_by_phase(row: dict, source: str) -> str:
    """How many batches of each phase there were, and what one took; of a summary or a row of the log.

    Not of warm-up, one of which has calibrated.
    """
    parts = []
    for name, title in zip(PHASE_NAMES, PHASE_TITLES, strict=True):
        count = row.get(f"batches_{name}", 0)
        cycles = row[f"cycles_{name}"] if count and name != PHASE_NAMES[WARMUP] else 0
        parts += [f"{count} of {title}" + (f" ({cycles / count:,.0f} cycles each)" if cycles else "")] * (count > 0)
    none = "" if row.get("batches_gp") else "; none was spared its backward pass"
    if source == "skip":
        none = "; those of GP were skipped"
    return f"batches: {', '.join(parts)}{none}"


def evaluate(
    run: RunArgument,
    device: Annotated[
        str | None,
        typer.Option(help="`sim`, `golden` or `board`; default: where a finished run was trained, else `sim`."),
    ] = None,
    port: PortOption = None,
    baud: BaudOption = None,
    patience: PatienceOption = None,
    json_path: JsonOption = None,
) -> None:
    """Load a run's last checkpoint and measure loss and accuracy on the test images.

    Example: `adagp evaluate runs/NAME --device golden`
    """
    folder = RunFolder(run)
    settings = TrainSettings.from_dict(folder.settings)
    if device is None:
        device = folder.summary["device"] if folder.finished else "sim"
    from ..host.training import trainer as training
    from ..host.training.session import open_session

    line = board_port(device, port, baud, patience)
    with open_session(settings, device, port=line, progress=transfer_shown()) as session:
        trainer = training.Trainer(settings, session.network, session.device, session.dataset, folder)
        trainer.restore()
        with screen.status("evaluating"):
            loss, accuracy = training.evaluate(session.network, session.device, trainer.test_x_NCHW, trainer.test_y_N)
    print(f"test loss {loss:.4f}  accuracy {100 * accuracy:.2f} %  ({len(trainer.test_y_N)} images)")
    summarise({"test_loss": loss, "test_accuracy": accuracy, "images": len(trainer.test_y_N)}, json_path)


def report(run: RunArgument, json_path: JsonOption = None) -> None:
    """Show a run's log as a table and draw its plot (`report.png`): loss, accuracy, where the cycles went.

    With a timeline (`adagp train --timeline`), also draw what each unit did (`timeline.png`).

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
        table.add_row(
            *(f"{row[c]:.4f}" if isinstance(row[c], float) else "-" if row[c] is None else f"{row[c]}" for c in columns)
        )
    Console().print(table)
    last = log[-1]
    if last["cycles"]:
        busy = last["macs"] / last["cycles"] / preset(folder.settings["preset"]).n_pes
        moved = (last["read_bytes"] + last["write_bytes"]) / 1e6
        print(f"PEs multiply in {100 * busy:.1f} % of cycles (zeros of padding included)  DRAM {moved:.1f} MB")
    if "batches_gp" in last:
        print(batches_by_phase(last, folder.settings["gradient_source"]))
    print(*draw(folder), sep="\n")
    summarise({"settings": folder.settings, "log": log}, json_path)


def draw(folder: RunFolder) -> list[Path]:
    """Plots of a run, written to its folder."""
    from ..evaluation.report.plots import plot_run, plot_timeline  # here, because matplotlib takes a while to import

    paths = [folder.path / "report.png"]
    settings = folder.settings
    title = f"{settings['model']} on {settings['data']}, {settings['preset']} {settings['variant']}"
    if settings["variant"] != "baseline":
        title += f", {settings['gradient_source']} gradients"
    plot_run(folder.log, title, paths[0])
    if folder.timeline.exists():
        from ..host.training.timeline import read_trace

        paths.append(folder.timeline.with_suffix(".png"))
        plot_timeline(read_trace(folder.timeline), f"{title}: what the units do", paths[1])
    return paths
