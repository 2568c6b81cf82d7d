"""A pipeline as a user asks for it: devices, schedule, cut and links; all but the cut is checked first."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...spec.schedule import KEEP, STREAM
from ..training.settings import TrainSettings
from .schedules import CHUNKS, build
from .steps import PipelineError

if TYPE_CHECKING:  # at run time inside the functions, because torch takes seconds to import
    from .staged_network import Link

__all__ = ["RUNNABLE", "STALE", "PipelineFailure", "Plan", "started"]

STALE = ("stale-1f1b", "stale-paired")
"""Schedules that train networks with stale weights: each micro-batch has an update."""
RUNNABLE = ("1f1b", "gpipe", "zb-h1", "interleaved", "chimera", *STALE)
"""Schedules that train networks."""


@dataclass(frozen=True)
class Plan:
    """Devices, schedule, cut and links of a pipeline; see :class:`~adagp.host.pipelines.staged_network.Pipelined`.

    ``bytes_per_cycle``: of a link; None: a message takes no longer for its bytes. ``pipelined_epochs``: later epochs
    have no stale weights; None: all have.
    """

    devices: int
    schedule: str = RUNNABLE[0]
    cut: Sequence[str] | None = None
    chunks: int = CHUNKS
    latency: float = 0.0
    bytes_per_cycle: float | None = None
    pipelined_epochs: int | None = None

    @property
    def hybrid(self) -> bool:
        """True if some epochs may be trained without stale weights."""
        return self.pipelined_epochs is not None

    def check(self, settings: TrainSettings, device: str) -> None:
        """Raise PipelineError for what can't be trained, before anything is built."""
        parts = settings.micro_batches
        if settings.predicts:
            self._check_predicted(settings)
        if settings.dataflow != TrainSettings.dataflow:
            raise PipelineError(f"dataflow = {settings.dataflow!r}: several devices take the dataflow 'free' alone")
        if device not in ("sim", "golden"):
            raise PipelineError(f"device = {device!r}: several devices are simulated, by `sim` or `golden`")
        if self.schedule not in RUNNABLE:
            named = " (stale-paired has the same weights)" if self.schedule == "stale-registers" else ""
            raise PipelineError(f"pipeline = {self.schedule!r} must be one of {', '.join(RUNNABLE)}{named}")
        if self.hybrid and self.schedule not in STALE:
            raise PipelineError(
                f"pipelined_epochs = {self.pipelined_epochs}: of no effect with the pipeline {self.schedule}, in which"
                " no weights are stale"
            )
        if self.schedule in ("1f1b", "zb-h1", *STALE) and parts < self.devices:
            raise PipelineError(
                f"{self.schedule}: micro_batches = {parts} must be at least devices = {self.devices}, as by"
                f" --micro-batches {self.devices}: with fewer, there is never work for all of them"
            )
        build(self.schedule, self.devices, parts, chunks=self.chunks)
        _ = self.link

    def _check_predicted(self, settings: TrainSettings) -> None:
        """Raise PipelineError for predictions that stages can't make as one device does."""
        if settings.gradient_source != "predicted":
            raise PipelineError(
                f"gradient_source = {settings.gradient_source!r} with devices = {self.devices}: several devices take"
                " the source 'predicted' alone"
            )
        if self.schedule in STALE:
            raise PipelineError(
                f"variant = {settings.variant!r} with the pipeline {self.schedule}: the predictor learns once a batch,"
                " and here each micro-batch has an update: take the variant 'baseline'"
            )
        if settings.predictor_every > 1 or settings.gp_momentum == KEEP:
            said = "predictor_every" if settings.predictor_every > 1 else "gp_momentum"
            raise PipelineError(
                f"{said} = {getattr(settings, said)!r} with devices = {self.devices}: stages of a pipeline have one"
                " program of batches with true gradients, and update momentum in all batches"
            )
        if settings.predictions == STREAM:
            raise PipelineError(f"predictions = {STREAM!r} with devices = {self.devices}: stages spill predictions")
        if settings.gate:
            raise PipelineError(
                f"gate = {settings.gate} with devices = {self.devices}: no device sees the quality of all predictions,"
                " so there is no gate"
            )
        if settings.micro_batches < 2:
            raise PipelineError(
                f"variant = {settings.variant!r} with devices = {self.devices}: micro_batches = 1 must be at least 2,"
                " since a GP batch of one moves exponents that all layers share"
            )

    @property
    def link(self) -> "Link":
        """The links between devices; raises PipelineError."""
        from .staged_network import Link

        return Link(self.latency, float("inf") if self.bytes_per_cycle is None else self.bytes_per_cycle)


def started() -> tuple[int, int] | None:
    """This process' rank and the number of ranks, if torchrun has started it."""
    return (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])) if "TORCHELASTIC_RUN_ID" in os.environ else None


class PipelineFailure(RuntimeError):
    """A pipeline that has ended before its work was done; the message has the reason of the first that failed."""
