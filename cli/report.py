"""``adagp report``: a run's log as a table, its plots, and its batches by phase."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from ..host.training.run_folder import RunError, RunFolder
from ..host.training.settings import TrainSettings
from ..spec.phases import PHASE_NAMES, PHASE_TITLES, WARMUP
from ..spec.presets import preset
from .options import JsonOption, RunArgument, shown, summarise

__all__ = ["batches_by_phase", "draw", "report", "used", "utilisations"]

SHARES = ("device_share_of_macs", "device_share_of_bytes", "host_operators")
"""Entries of a summary if a part of the network ran on the host."""


def batches_by_phase(row: dict, source: str) -> str:
    """Tell the number of batches by phase in a row of the log (or a summary), and the cycles that each took.

    Warm-up batches get no cycles, because one of them calibrated and took longer.
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


def used(row: dict, settings: TrainSettings) -> str:
    """Tell the useful utilisation of a row of the log (or a summary) with cycles, and that with zeros of padding."""
    shares = {name: 100 * value for name, value in utilisations(row, settings).items()}
    useful = f"{shares['useful_utilisation']:.1f} % of cycles usefully, in " if "useful_utilisation" in shares else ""
    return f"{useful}{shares['utilisation']:.1f} % of cycles with the zeros of padding"


def utilisations(row: dict, settings: TrainSettings) -> dict[str, float]:
    """Products a PE and cycle, of a row of the log: useful ones, and all; earlier versions only logged all.

    It is empty if the device has no clock.
    """
    names = {"useful_macs": "useful_utilisation", "macs": "utilisation"}
    pes = preset(settings.preset).n_pes * row["cycles"] * row.get("devices", 1)
    return {share: row[name] / pes for name, share in names.items() if name in row} if pes else {}


def report(run: RunArgument, json_path: JsonOption = None) -> None:
    """Show a run's log as a table and draw its plot (`report.png`): loss, accuracy, where the cycles went.

    With a timeline (`adagp train --timeline`), also draw what each unit did (`timeline.png`).

    Example: `adagp report runs/NAME --json figures.json`
    """
    folder = RunFolder(run)
    log = folder.log
    if not log:
        raise RunError(f"the log in {run} has no epoch yet")
    settings = TrainSettings.from_dict(folder.settings)
    columns = ("epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "cycles", "saturations")
    table = Table(title=str(run))
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for row in log:
        table.add_row(
            *(
                shown(row[c]) if isinstance(row[c], float) else "-" if row[c] is None else f"{row[c]}"
                for c in columns[:-2]
            ),
            f"{row['cycles']}" if row["cycles"] else "not measured",  # the golden model has no clock
            f"{row['saturations']}",
        )
    Console().print(table)
    last = log[-1]
    if last["cycles"]:
        moved = (last["read_bytes"] + last["write_bytes"]) / 1e6
        print(f"PEs multiply in {used(last, settings)}  DRAM {moved:.1f} MB")
    on_host = _on_host(folder)
    if on_host:
        from ..host.compiler.costs import hosted  # here, because torch takes seconds to import

        named = hosted(on_host["host_operators"])
        print(f"on the host: {named}; {last['island_seconds']} s of the {last['host_seconds']} s that the host worked")
    if "batches_gp" in last:
        print(batches_by_phase(last, settings.gradient_source))
    print(*draw(folder), sep="\n")
    summarise({"settings": settings.to_dict(), "log": log, **utilisations(last, settings), **on_host}, json_path)


def _on_host(folder: RunFolder) -> dict:
    """The host's operators and the device's shares of a finished run; empty if it had none."""
    summary = folder.summary if folder.finished else {}
    return {name: summary[name] for name in SHARES if name in summary}


def draw(folder: RunFolder) -> list[Path]:
    """Plots of a run, written to its folder."""
    from ..evaluation.report.plots import plot_run, plot_timeline  # here, because matplotlib takes a while to import

    paths = [folder.path / "report.png"]
    settings = TrainSettings.from_dict(folder.settings)
    title = f"{settings.model} on {settings.data}, {settings.preset} {settings.variant}"
    if settings.predicts:
        title += f", {settings.gradient_source} gradients"
    plot_run(folder.log, title, paths[0])
    if folder.timeline.exists():
        from ..host.training.timeline import read_trace

        paths.append(folder.timeline.with_suffix(".png"))
        plot_timeline(read_trace(folder.timeline), f"{title}: what the units do", paths[1])
    return paths
