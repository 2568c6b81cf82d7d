"""The options of ``adagp train`` for several accelerators, what it shows of them, and their part of a run."""

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..host.console import screen
from ..host.pipelines.counts import StepCounter
from ..host.pipelines.plan import RUNNABLE, STALE, Plan, started
from ..host.pipelines.schedules import CHUNKS
from ..host.training.run_folder import RunError, RunFolder
from ..host.training.settings import SettingsError, TrainSettings
from ..spec.phases import BP, GP, PHASE_NAMES, PHASE_TITLES

if TYPE_CHECKING:  # at run time inside the functions, because torch takes seconds to import
    from ..host.pipelines.expected import Expected
    from ..host.pipelines.job import Job
    from ..host.pipelines.ranks import Team
    from ..host.pipelines.training import PipelineTrainer
    from ..host.training.session import Session
    from ..host.training.trainer import Trainer

__all__ = ["ONE_DEVICE", "PipelineOptions"]


@dataclass(frozen=True)
class PipelineOptions:
    """Several accelerators that train a network together."""

    devices: Annotated[
        int,
        typer.Option(
            help="Accelerators that train the network together. Each has a part of its layers, a stage; a batch passes"
            " the stages in `--micro-batches`. Weights are those of one device with the same micro-batches, and so"
            " are those with predicted gradients (`--variant`); pipelines with stale weights alone train another way."
            " `torchrun --nproc-per-node 4 -m adagp train --devices 4"
            " ...` has the devices in its processes, on one machine or on several.",
            min=1, max=64,
        ),
    ] = 1  # fmt: skip
    pipeline: Annotated[
        str,
        typer.Option(
            help=f"Several devices: order of forward and backward passes, one of {', '.join(RUNNABLE)}. `adagp pipeline"
            " draw` shows each. It decides cycles and memory, and no weight. But with stale weights each micro-batch"
            " has an update of its own, and enters before updates of those ahead: with `stale-1f1b` forward passes miss"
            " as many updates as stages follow, with `stale-paired` (registers between stages) twice as many. The"
            " pipeline runs empty at a batch's end, so give many micro-batches."
        ),
    ] = RUNNABLE[0]
    pipelined_epochs: Annotated[
        int | None,
        typer.Option(
            help=f"Pipelines {' and '.join(STALE)}: epochs with stale weights. Later ones let a micro-batch enter once"
            " the one before has left, so no weights are stale (hybrid training). Default: all epochs.",
            min=1,
        ),
    ] = None  # fmt: skip
    cut: Annotated[
        str | None,
        typer.Option(
            help="Several devices: the layers, with commas, that stages after the first begin with. Default: stages of"
            " about equal expected cycles, which a table shows before the run."
        ),
    ] = None
    chunks: Annotated[int, typer.Option(help="Pipeline `interleaved`: stages on each device.")] = CHUNKS
    link_latency: Annotated[
        float, typer.Option(help="Several devices: cycles that a message takes on a link, whatever its size.")
    ] = 0.0
    link_bandwidth: Annotated[
        float | None, typer.Option(help="Several devices: bytes that a link carries in a cycle. Default: no limit.")
    ] = None
    one_process: Annotated[
        bool,
        typer.Option(
            "--one-process",
            help="Several devices: let this process simulate all of them in turn. Default: a process for each, so that"
            " they run at the same time.",
        ),
    ] = False
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Several devices: first measure a batch on one device with the same micro-batches. Default: the"
            " speed-up over it is the cost model's.",
        ),
    ] = False

    @property
    def several(self) -> bool:
        """True if there is a pipeline."""
        return self.devices > 1

    @property
    def whole(self) -> str:
        """The device that holds the whole network beside a pipeline; empty without one."""
        return "golden" if self.several else ""

    @property
    def follows(self) -> bool:
        """True if torchrun has started this process, and another one is the first."""
        return (started() or (0, 1))[0] > 0

    @cached_property
    def plan(self) -> Plan:
        """The pipeline, as the host knows it."""
        cut = None if self.cut is None else tuple(name.strip() for name in self.cut.split(","))
        return Plan(
            self.devices, self.pipeline, cut, self.chunks, self.link_latency, self.link_bandwidth,
            self.pipelined_epochs,
        )  # fmt: skip

    @property
    def kept(self) -> dict[str, object]:
        """The options that decide a run's cycle counts, as a checkpoint has them."""
        return {name: value for name, value in asdict(self).items() if name != "compare"}

    def check(self, settings: TrainSettings, device: str, trace: str | None) -> None:
        """Raise SettingsError or PipelineError for options that don't go together, or with torchrun."""
        _, ranks = started() or (0, None)
        if ranks not in (None, self.devices):
            raise SettingsError(
                f"--devices {self.devices}: torchrun has started {ranks} processes, and each has a device: give"
                f" --devices {ranks}"
            )
        if ranks is not None and self.one_process:
            raise SettingsError("--one-process: torchrun has started a process for each device")
        if not self.several:
            changed = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
            if changed:
                named = ", ".join("--" + name.replace("_", "-") for name in changed)
                raise SettingsError(f"{named}: of no effect with --devices 1")
            return
        self.plan.check(settings, device)
        if self.chunks != CHUNKS and self.pipeline != "interleaved":
            raise SettingsError(f"--chunks: of no effect with --pipeline {self.pipeline}")
        if self.compare and device != "sim":
            raise SettingsError(f"--compare needs the device sim: {device} has no clock")
        if trace is not None:
            raise SettingsError("--trace records the waveforms of one device: leave out --devices")

    @contextlib.contextmanager
    def opened(
        self, settings: TrainSettings, device: str, session: "Session", folder: RunFolder, every: int
    ) -> "Iterator[PipelineTrainer]":
        """The trainer of a pipeline, after a table of its stages; its devices are closed at the end."""
        from ..host.pipelines.expected import expected
        from ..host.pipelines.job import Job
        from ..host.pipelines.training import PipelineTrainer, one_device_cycles

        job = Job(settings, device, self.plan, session.dataset.shape, session.dataset.n_classes)
        alone, expects = None, expected(job.staged, self.plan.link)  # before a simulator is built, if it can't be cut
        if self.compare:
            with screen.status("measuring one device"):
                alone = one_device_cycles(settings, device, session.dataset, self.pipeline in STALE)
        several = f"in {self.devices} processes" + " of torchrun" * bool(started())
        how = "in one process" if self.one_process else several
        with screen.status(f"starting {self.devices} devices {how}"):
            team = self._team(job)
        try:
            trainer = PipelineTrainer(settings, session, team, folder, every)
            trainer.expected, trainer.alone, trainer.pipelined_epochs = expects, alone, self.pipelined_epochs
            screen.print(_stages(trainer.expected, f"{self.pipeline} on {self.devices} devices, {how}"))
            yield trainer
        finally:
            team.close()

    def _team(self, job: "Job") -> "Team":
        from ..host.pipelines.ranks import OneProcess

        if started():
            from ..host.pipelines.torchrun import Torchrun

            return Torchrun(job)
        if not self.one_process:
            from ..host.pipelines.processes import Processes

            return Processes(job)
        return OneProcess.of(job)

    def take_part(self, settings: TrainSettings, device: str) -> None:
        """Be a process of torchrun's after the first one, which shows progress and has the run's folder."""
        from ..host.pipelines.torchrun import take_part

        take_part(settings, self.plan, device)

    def check_checkpoint(self, folder: RunFolder) -> None:
        """Raise RunError if a run that goes on had other devices, schedule, cut or links: its cycles would be mixed."""
        state, _ = folder.read_checkpoint()
        counters = state.get("progress", {}).get("counters", {})
        before = state.get("several") or {"devices": counters.get("devices", 1)}  # earlier versions kept no more
        if differing := [_option(name, before[name]) for name, value in self.kept.items()
                         if before.get(name, value) != value]:  # fmt: skip
            told = ", ".join(differing)
            raise RunError(f"the checkpoint is of a run with {told}: give another --output, or --fresh")

    def results(self, trainer: "Trainer") -> dict:
        """The summary's part about a pipeline; empty without one."""
        from ..host.pipelines.training import PipelineTrainer

        if not isinstance(trainer, PipelineTrainer):
            return {}
        return {"pipeline": asdict(self.plan) | trainer.results()}

    def show(self, summary: dict) -> None:
        """Print a summary's part about a pipeline, if there is one."""
        if not self.several:
            return
        found = summary["pipeline"]
        if found["idle_shares"]:
            Console(highlight=False).print(_work(found))
            if len(found["phases"]) > 1:
                Console(highlight=False).print(_phases(found["phases"], self.plan, summary["settings"]))
            print(
                f"a batch takes {found['cycles_a_batch']:,.0f} cycles on {self.devices} devices, of which"
                f" {100 * found['idle_share']:.1f} % are idle; {found['link_bytes_a_batch']:,.0f} bytes cross links"
            )
        print(f"speed-up over one device: {found['speedup']:.2f}, {found['speedup_is']}")
        if cut := found["replica_saturations"]:
            print(f"gradients of micro-batches that replicas may have cut: {cut:,}; one device may have other weights")


ONE_DEVICE = PipelineOptions()


def _option(name: str, value: object) -> str:
    """An option as it is given."""
    option = "--" + name.replace("_", "-")
    return f"no {option}" if value is None or value is False else option if value is True else f"{option} {value}"


def _stages(expected: "Expected", title: str) -> Table:
    title = f"{title}: expected speed-up {expected.speedup():.2f}"
    if expected.gp_cycles:
        title += f", {expected.speedup(1):.2f} in GP batches"
    if expected.alone_cycles:
        title += f", {expected.speedup(alone_share=1):.2f} without stale weights"
    stale = any(row.missed for row in expected.stages)
    table = Table("stage", "layers", title=title, collapse_padding=True, pad_edge=False)
    for column in ("cycles", "share", "link bytes", *["updates missed"] * stale, "held", "memory"):
        table.add_column(column, justify="right")
    several = len(expected.stages) > len({row.device for row in expected.stages})
    for row in expected.stages:
        stage = f"{row.stage} on {row.device}" if several else f"{row.stage}"
        layers = " .. ".join(dict.fromkeys((row.layers[0], row.layers[-1])))
        table.add_row(
            stage, layers, f"{row.cycles:,}", f"{100 * row.share:.1f} %", f"{row.link_bytes:,}",
            *[str(row.missed)] * stale, str(row.held), f"{row.memory_bytes / 1e6:.2f} MB",
        )  # fmt: skip
    return table


def _work(found: dict) -> Table:
    table = Table("device", "stages", title="a batch that doesn't calibrate")
    for column in ("cycles", "idle"):
        table.add_column(column, justify="right")
    for place, idle in enumerate(found["idle_shares"]):
        stages = [str(row["stage"]) for row in found["stages"] if row["device"] == place]
        table.add_row(
            str(place), ", ".join(stages), f"{(1 - idle) * found['cycles_a_batch']:,.0f}", f"{100 * idle:.1f} %"
        )
    return table


def _phases(phases: dict[str, dict], plan: Plan, settings: dict) -> Table:
    """Batches by phase: cycles, idle share, and the steps that the schedule has for equal stages."""
    table = Table("phase", title="batches by phase, without the one that calibrates")
    for column in ("batches", "cycles", "idle", "steps if stages were equal"):
        table.add_column(column, justify="right")
    counter = StepCounter(plan.schedule, plan.devices, settings["micro_batches"], chunks=plan.chunks)
    for name, title, phase in zip(PHASE_NAMES, PHASE_TITLES, (BP, BP, GP), strict=False):
        if name in phases:
            row, steps = phases[name], float(counter.lasting(phase))
            cells = f"{row['batches']}", f"{row['cycles_a_batch']:,.0f}", f"{100 * row['idle_share']:.1f} %"
            table.add_row(title, *cells, f"{steps:g}")
    return table
