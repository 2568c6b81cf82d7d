"""The options that describe a network to be compiled, which disasm and diff share."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ..host.compiler.dataflow import MODELLED
from ..host.training.settings import SettingsError, TrainSettings
from .options import (
    DataflowOption,
    MicroBatchesOption,
    PresetOption,
    SavingOptions,
    SourceOption,
    SwitchesOption,
    VariantOption,
)

if TYPE_CHECKING:
    from torch import nn

    from ..host.training.network import Network

__all__ = ["NetworkOptions"]


@dataclass(frozen=True)
class NetworkOptions(SavingOptions):
    """A network, its images and batch, and the accelerator that it is compiled for."""

    model: Annotated[str, typer.Option(help="A built-in network, or `file.py:function`; see `adagp train --help`.")] = (
        "digits-cnn"
    )
    shape: Annotated[str, typer.Option(help="Shape of an image: CHANNELS,HEIGHT,WIDTH.")] = "1,8,8"
    classes: Annotated[int, typer.Option(help="Number of classes.", min=2)] = 10
    batch: Annotated[int, typer.Option(help="Images per batch.", min=1)] = 32
    micro_batches: MicroBatchesOption = 1
    preset: PresetOption = "ecp5"
    variant: VariantOption = "baseline"
    switches: SwitchesOption = ""
    dataflow: DataflowOption = "free"
    gradient_source: SourceOption = "predicted"

    def build(self, seed: int = 0) -> tuple["Network", dict]:
        """Compile the network; returns it and the weights that it starts from.

        Raises SettingsError for a single result of another size than the number of classes.
        """
        settings, module = self._settings(seed), self.module(seed)
        from ..host.training.network import Network  # here, because torch takes seconds to import

        source = settings.gradient_source if settings.predicts else None
        network = Network(
            module, self.image, settings.batch, settings.config, source=source, dataflow=settings.dataflow,
            micro_batches=settings.micro_batches, predictor_every=settings.predictor_every,
            gp_momentum=settings.gp_momentum,
        )  # fmt: skip
        if len(network.compiled.graph.results) == 1 and network.n_outputs != self.classes:
            raise SettingsError(f"{self.model} has {network.n_outputs} outputs, --classes says {self.classes}")
        return network, module.state_dict()

    def module(self, seed: int = 0) -> "nn.Module":
        """The network as PyTorch has it, with the weights that it starts from."""
        settings = self._settings(seed)
        from ..host.training.models import build_model

        return build_model(settings.model, self.image, self.classes, settings.seed)

    @property
    def title(self) -> str:
        """The network, its batch and its accelerator in a line."""
        label = " (a model, no RTL)" * (self.dataflow in MODELLED)
        kept = "" if self.dataflow == "free" else f", dataflow {self.dataflow}{label}"
        return f"{self.model}, batch {self.batch}, {self.preset} {self.variant}{kept}"

    def _settings(self, seed: int) -> TrainSettings:
        return TrainSettings(
            model=self.model, batch=self.batch, preset=self.preset, variant=self.variant,
            switches=self.switches, dataflow=self.dataflow, gradient_source=self.gradient_source, seed=seed,
            micro_batches=self.micro_batches, predictor_every=self.predictor_every, gp_momentum=self.gp_momentum,
            predictions=self.predictions,
        )  # fmt: skip

    @property
    def image(self) -> tuple[int, int, int]:
        """Shape of an image; raises SettingsError."""
        try:
            c, h, w = (int(part) for part in self.shape.split(","))
        except ValueError:
            c = h = w = 0
        if min(c, h, w) < 1:
            raise SettingsError(f"shape = {self.shape!r} must be CHANNELS,HEIGHT,WIDTH, e.g. 3,32,32")
        return c, h, w
