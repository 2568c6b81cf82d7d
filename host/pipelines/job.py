"""A run on several devices as plain data, which every process makes the same pipeline of."""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...gen.cache import code, digest
from ..training.session import open_device
from ..training.settings import TrainSettings
from ..training.sources import training_sources
from .plan import Plan

if TYPE_CHECKING:  # at run time inside the functions, because torch takes seconds to import
    from torch import nn

    from ..devices.device import Device
    from .device_program import Staged
    from .staged_network import Pipelined

__all__ = ["Job", "pipeline_sources"]


@dataclass(frozen=True)
class Job:
    """Everything from which a process makes its part of a pipeline; ``shape`` and ``n_classes`` are the data set's."""

    settings: TrainSettings
    device: str
    plan: Plan
    shape: tuple[int, ...]
    n_classes: int

    @cached_property
    def module(self) -> "nn.Module":
        """The network with its first weights."""
        from ..training.models import build_model

        assert len(self.shape) == 3
        return build_model(self.settings.model, self.shape, self.n_classes, self.settings.seed)

    @cached_property
    def staged(self) -> "Staged":
        """The network cut into stages, before any device is made; raises PipelineError, and others."""
        from ..compiler.values import inputs_of
        from .staged_network import staged_of

        plan, settings = self.plan, self.settings
        return staged_of(
            self.module, inputs_of(self.shape, 1.0), settings.batch, settings.config, plan.devices, plan.schedule,
            settings.micro_batches, cut=plan.cut, chunks=plan.chunks, source=self._source, hybrid=plan.hybrid,
        )  # fmt: skip

    def open_device(self) -> "Device":
        """A device of the run's kind."""
        return open_device(self.device, self.settings.config)

    def arguments(self, devices: Any) -> tuple[tuple, dict[str, Any]]:
        """Arguments of the pipeline's class, which takes ``devices``."""
        plan, settings = self.plan, self.settings
        given = self.module, self.shape, settings.batch, settings.config, devices, plan.schedule, settings.micro_batches
        return given, {
            "cut": plan.cut, "chunks": plan.chunks, "link": plan.link, "source": self._source, "hybrid": plan.hybrid,
        }  # fmt: skip

    def load(self, network: "Pipelined") -> None:
        """Install the network with its first weights."""
        network.load_state(self.module.state_dict(), self.settings.seed)

    @property
    def _source(self) -> str | None:
        return self.settings.gradient_source if self.settings.predicts else None

    def to_dict(self) -> dict:
        """Plain data, for other processes."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict) -> "Job":
        """Inverse of :meth:`to_dict`."""
        settings, plan = TrainSettings.from_dict(data["settings"]), Plan(**data["plan"])
        return cls(settings, data["device"], plan, tuple(data["shape"]), data["n_classes"])


def pipeline_sources() -> str:
    """The digest of the sources that decide what a process of a pipeline does; comments don't count."""
    root = Path(__file__).parents[1]
    files = [path for folder in ("pipelines", "devices") for path in sorted((root / folder).glob("*.py"))]
    return digest(training_sources(), *(code(path) for path in files))
