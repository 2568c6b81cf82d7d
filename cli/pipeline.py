"""``adagp pipeline``: schedules of training on several accelerators, drawn and compared."""

from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..host.console import screen
from ..host.pipelines.schedules import CHUNKS, SCHEDULES, build, parse_batches
from ..host.pipelines.steps import PipelineError
from ..host.pipelines.timing import Durations, timed
from .options import JsonOption, summarise, written_file

if TYPE_CHECKING:
    from ..host.pipelines.comparing import Row

__all__ = ["pipeline"]

pipeline = typer.Typer(
    name="pipeline", no_args_is_help=True, rich_markup_mode="markdown",
    help="Plan training on several accelerators: draw and compare schedules. Begin with: `adagp pipeline draw`",
)  # fmt: skip

DevicesOption = Annotated[int, typer.Option(help="Accelerators, each with a part of the network's layers.")]
MicroBatchesOption = Annotated[int, typer.Option(help="Parts of a batch, which follow each other through the devices.")]
ChunksOption = Annotated[int, typer.Option(help="Schedule `interleaved`: parts of the network on each device.")]
BackwardOption = Annotated[
    float, typer.Option(help="Duration of a backward pass in steps; a step is the forward pass of a device's part.")
]
LatencyOption = Annotated[float, typer.Option(help="Steps that a result takes from one device to another.")]


def _durations(backward: float, latency: float) -> Durations:
    for name, value in (("backward", backward), ("latency", latency)):
        if not isfinite(value) or value > 1000:
            raise PipelineError(f"{name} = {value} must be a number up to 1000")
    return Durations(_fraction(backward), latency=_fraction(latency))


def _image(path: Path, kind: str) -> Path:
    if path.suffix != f".{kind}":
        raise PipelineError(f"--{kind} = {path} must end in .{kind}")
    return written_file(path, f"--{kind}")


def _fraction(value: float) -> Fraction:
    return Fraction(str(value)).limit_denominator(1000)


@pipeline.command()
def draw(
    schedule: Annotated[str, typer.Option(help=f"One of {', '.join(SCHEDULES)}.")] = "1f1b",
    devices: DevicesOption = 4,
    micro_batches: MicroBatchesOption = 4,
    batches: Annotated[
        str,
        typer.Option(
            help="Batches one after the other, with commas: `bp` with true gradients, `gp` with predicted ones, which"
            " has no backward pass."
        ),
    ] = "bp",
    chunks: ChunksOption = CHUNKS,
    backward: BackwardOption = 2.0,
    latency: LatencyOption = 0.0,
    png: Annotated[Path | None, typer.Option(help="Also draw to this PNG file.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Also draw to this SVG file.")] = None,
    json_path: JsonOption = None,
) -> None:
    """Draw a schedule: a row for each device, over the time in steps.

    `F0` is the forward pass of micro-batch 0, `B0` its backward pass, or `I0` and `W0` if it is split into gradients
    of the input and of the weights; `=` goes on with it, `.` is idle. Small letters are of GP batches. A letter after
    the number tells a device's several parts of the network apart. `--json` has every step with its times.

    The lists are checked before they are drawn: each step comes after what it depends on. See docs/pipelines.md.

    Example: `adagp pipeline draw --schedule chimera --batches gp,bp --svg chimera.svg`
    """
    from ..host.pipelines.checking import check
    from ..host.pipelines.drawing import as_data, lines

    made = build(schedule, devices, micro_batches, parse_batches(batches), chunks)
    timeline = timed(made, _durations(backward, latency))
    check(timeline)
    files = [_image(path, name) for name, path in (("png", png), ("svg", svg)) if path]
    data = as_data(timeline)
    console = Console(highlight=False)
    for line in lines(timeline, console.width):
        console.print(line, soft_wrap=True)
    held = " ".join(f"{one:.4g}" for one in data["memory"])
    missed = " ".join(map(str, data["updates_missed"]))
    print(f"{data['steps']:.6g} steps, {100 * data['idle_share']:.1f} % idle")
    print(f"activations held by device, in micro-batches: {held}  updates missed by stage: {missed}")
    if files:
        from ..evaluation.report.pipelines import plot_schedules  # here, because matplotlib takes a while to import

        for path in files:
            plot_schedules([timeline], path)
            print(path)
    summarise(data, json_path)


@pipeline.command()
def compare(
    devices: DevicesOption = 4,
    micro_batches: MicroBatchesOption = 4,
    chunks: ChunksOption = CHUNKS,
    backward: BackwardOption = 2.0,
    latency: LatencyOption = 0.0,
    json_path: JsonOption = None,
) -> None:
    """Compare all schedules: steps, idle share, memory, staleness, and the speed-up of ADA-GP on each.

    `BP`, `GP`: steps that a batch takes as one of many. `GP, BP`: steps of the two alone. `held`: activations that a
    device keeps for the backward pass, in micro-batches, the most of the first and of the last device. `missed`:
    updates that the forward pass of the first and of the last stage doesn't see yet. `ADA-GP`: speed-up over the same
    schedule without GP batches in 90 epochs of the paper's phases, counted; beside it by the formula, and by the
    formula with as many GP as BP batches from the beginning, as the paper's figure 20 has it.

    Example: `adagp pipeline compare --devices 4 --micro-batches 8`
    """
    from ..algorithm import paper_numbers as paper  # here, because torch takes seconds to import
    from ..host.pipelines.comparing import compare as compared
    from ..host.pipelines.counts import Mix

    mix = Mix(paper.EPOCHS, paper.WARMUP_EPOCHS, paper.PHASES)
    durations = _durations(backward, latency)
    build("gpipe", devices, micro_batches, chunks=chunks)  # says which number is out of range
    rows, reasons = compared(devices, micro_batches, mix, durations, chunks)
    Console().print(_table(rows, f"{devices} devices, {micro_batches} micro-batches"))
    for name, reason in reasons.items():
        screen.print(f"without {name}: {reason}", soft_wrap=True)
    figures = {
        "devices": devices, "micro_batches": micro_batches, "gp_share": float(mix.share),
        "schedules": [row.to_dict() for row in rows], "left_out": reasons,
    }  # fmt: skip
    summarise(figures, json_path)


def _table(rows: "list[Row]", title: str) -> Table:
    table = Table("schedule", title=title)
    for column in ("BP", "GP", "GP, BP", "idle", "held", "missed", "ADA-GP", "formula", "as many GP"):
        table.add_column(column, justify="right")
    for row in rows:
        held, missed = (f"{float(ends[0]):.4g}, {float(ends[-1]):.4g}" for ends in (row.memory, row.missed))
        steps = (f"{float(steps):.4g}" for steps in (row.bp, row.gp, row.gp_bp))
        gains = (f"{float(gain):.3f}" for gain in (row.gain, row.gain_by_formula, row.gain_even))
        table.add_row(row.title, *steps, f"{100 * float(row.idle):.1f} %", held, missed, *gains)
    return table
