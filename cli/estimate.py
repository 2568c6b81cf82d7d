"""``adagp estimate``: cycles, bytes and energy of a network's batch by phase, without data."""

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..host.compiler.dataflow import DATAFLOWS, MODELLED
from ..host.console import screen
from ..host.training.settings import SettingsError
from ..spec.phases import BP, EVALUATION, GP, PHASE_NAMES, PHASE_TITLES
from .network_options import NetworkOptions
from .option_groups import grouped
from .options import EstimatedDataflowOption, JsonOption, SavingOptions, summarise

if TYPE_CHECKING:
    from torch import nn

    from ..evaluation.instruments.estimates import Batch
    from ..host.training.network import Network

__all__ = ["estimate"]

IMAGES = {
    "digits": ("1,8,8", 10, 1437), "fashion-mnist": ("1,28,28", 10, 60_000), "cifar10": ("3,32,32", 10, 50_000),
    "cifar100": ("3,32,32", 100, 50_000), "imagenet": ("3,224,224", 1000, 1_281_167),
}  # fmt: skip
"""Shape of an image, classes and training images, by data set."""
SHOWN = 5
"""Kinds of commands whose bytes are shown."""


@dataclass(frozen=True)
class EstimateOptions(NetworkOptions):
    """A network to estimate: also one of the paper's by its name, and a data set in place of shape and classes."""

    model: Annotated[
        str,
        typer.Option(
            help="A network of the paper that classifies images, as resnet50 or densenet121; a built-in one, see"
            " `adagp train --help`, as vgg13, which has no batch norm; `torchvision:NAME`, `timm:NAME`; or"
            " `file.py:function`."
        ),
    ] = NetworkOptions.model
    dataflow: EstimatedDataflowOption = "free"
    data: Annotated[
        str, typer.Option(help=f"Instead of --shape and --classes, those of a data set: {', '.join(IMAGES)}.")
    ] = ""

    def given(self) -> "EstimateOptions":
        """These options with the data set's shape and classes; raises SettingsError."""
        if self.dataflow not in (known := (*DATAFLOWS, *MODELLED)):
            raise SettingsError(f"dataflow = {self.dataflow!r} must be one of {', '.join(known)}")
        if not self.data:
            return self
        if self.data not in IMAGES:
            raise SettingsError(f"data = {self.data!r} must be one of {', '.join(IMAGES)}")
        defaults = EstimateOptions()
        if (self.shape, self.classes) != (defaults.shape, defaults.classes):
            raise SettingsError(f"data = {self.data!r} says shape and classes: leave out --shape and --classes")
        shape, classes, _ = IMAGES[self.data]
        return replace(self, shape=shape, classes=classes)

    @property
    def modelled(self) -> bool:
        """True if the dataflow is a model without hardware; what is compiled then is ``free``."""
        return self.dataflow in MODELLED

    def build(self, seed: int = 0) -> tuple["Network", dict]:
        """As of a network that is run, with a modelled dataflow too."""
        return NetworkOptions.build(replace(self, dataflow="free") if self.modelled else self, seed)

    def module(self, seed: int = 0) -> "nn.Module":
        """The network as PyTorch has it."""
        from ..experiments.networks.models import CNNS, build  # here, because torch takes seconds to import
        from ..host.training.library_models import LIBRARIES
        from ..host.training.models import MODELS

        if self.model in MODELS or ":" in self.model or self.model.endswith(".py"):
            return super().module(seed)
        if self.model not in CNNS:
            known = ", ".join(dict.fromkeys((*MODELS, *CNNS, *(f"{library}:NAME" for library in LIBRARIES))))
            raise SettingsError(f"no model {self.model!r}; there are: {known}, or give file.py:function")
        return build(self.model, self.classes, self.image[1], seed)


DEFAULTS = EstimateOptions()


@grouped
def estimate(
    estimated: EstimateOptions = DEFAULTS,
    against: Annotated[
        str | None, typer.Option(help="`sim`: also run the batches on the simulated RTL, and show the error.")
    ] = None,
    json_path: JsonOption = None,
) -> None:
    """Estimate a batch of each phase: cycles, useful utilisation of the array, DRAM bytes and energy, the busiest unit.

    Products with the zeros of padding aren't useful; the utilisation that counts them stands beside.

    Commands run in time alone, without data: their descriptors and the bytes that they write are exact, and cycles are
    those of engines that share the memory port. A design that predicts gradients is compared with the baseline by the
    paper's schedule of 90 epochs, and with predictions that cost nothing. Parts on the host take no time here.

    Example: `adagp estimate --model vgg13 --data cifar10 --preset paper --variant max`

    Example: `adagp estimate --model resnet50 --data imagenet --preset paper --switches all --variant max --dataflow ws`

    Example: `adagp estimate --preset tiny --batch 8 --against sim`
    """
    options = estimated.given()
    if against not in (None, "sim"):
        raise SettingsError(f"against = {against!r} must be sim")
    if against and options.modelled:
        raise SettingsError(f"against = 'sim': dataflow = {options.dataflow!r} is a model, of which there is no RTL")
    from ..evaluation.instruments import estimates  # here, because torch takes seconds to import

    began = time.perf_counter()
    network, _ = options.build()
    if against and len(network.compiled.graph.results) > 1:
        raise SettingsError("against = 'sim' needs a network with one result, whose loss is known")
    with screen.status(f"estimating {len(network.program)} commands"):
        found = estimates.estimated(network, phases := estimates.phases_of(network), row_stationary=options.modelled)
        gain, baseline = dict[str, float](), found
        if GP in phases:
            base, _ = replace(options, variant="baseline", **asdict(SavingOptions())).build()
            baseline = estimates.estimated(base, (BP, EVALUATION), row_stationary=options.modelled)
            gain = estimates.speed_up(
                baseline, found, options.variant, network.config.n_pes, options.predictor_every
            )  # fmt: skip
            gain["ideal_saving"] = estimates.ideal_saving(baseline)
    seconds = time.perf_counter() - began
    Console().print(_table(found, options.title))
    for name, batch in found.items():
        print(f"{_title(name)}: {_limit(batch)}; {_bytes(batch)}")
    if gain:
        print(
            f"{estimates.EPOCHS} epochs by the paper's schedule: {gain['speed_up']:.3f} times as fast as the baseline"
            f" (at most {gain['limit']:.3f}, if predictions were free), with {_saving(gain['dram_energy_saving'])}"
            f" (at most {100 * gain['ideal_saving']:.1f} %)"
        )
    run: dict[str, float] = {}
    if options.data:
        batches = IMAGES[options.data][2] // options.batch
        run = estimates.whole_run(
            estimates.means(baseline, found, options.predictor_every), batches, network.config.clock_hz
        )  # fmt: skip
        print(f"{estimates.EPOCHS} epochs of the data set: {_run_text(run, bool(gain))}")
    print(f"compiled and estimated in {seconds:.1f} s")
    islands = dict.fromkeys(stop.island.name for stop in network.compiled.stops if stop.island is not None)
    if islands:
        print(f"without the time of these parts on the host: {', '.join(islands)}")
    measured: dict[str, Batch] = {}
    if against:
        measured = estimates.measured(network, options.module(), phases)
        for name, batch in measured.items():
            print(f"{_title(name)} on the simulated RTL: {_errors(found[name], batch)}")
    summarise({
        "estimated": {name: _summary(batch) for name, batch in found.items()}, **gain, **run, "seconds": seconds,
        "simulated": {name: batch.counters for name, batch in measured.items()},
    }, json_path)  # fmt: skip


def _saving(part: float) -> str:
    return f"{100 * abs(part):.1f} % {'less' if part >= 0 else 'more'} DRAM energy"


def _title(name: str) -> str:
    return PHASE_TITLES[PHASE_NAMES.index(name)] if name in PHASE_NAMES else f"BP, {name}"


def _run_text(run: dict[str, float], predicts: bool) -> str:
    """Hours and energy, beside the baseline's for a design that predicts."""
    pairs = [(run[name], run[f"baseline_{name}"]) for name in ("hours", "kilojoules")]
    texts = [
        f"{ours:.4g} {unit}" + f" instead of {theirs:.4g}" * predicts
        for (ours, theirs), unit in zip(pairs, ("hours", "kJ of DRAM energy"), strict=True)
    ]
    return ", ".join(texts)


def _table(found: dict[str, "Batch"], title: str) -> Table:
    table = Table(title=title)
    table.add_column("phase", no_wrap=True)
    for column in ("cycles", "useful", "with zeros", "MB read", "written", "mJ"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, batch in found.items():
        counts = batch.counters
        table.add_row(
            _title(name), f"{batch.cycles:,}", f"{100 * batch.useful_utilisation:.1f} %",
            f"{100 * batch.utilisation:.1f} %", f"{counts['read_bytes'] / 1e6:.4g}",
            f"{counts['write_bytes'] / 1e6:.4g}", f"{batch.millijoules:.4g}",
        )  # fmt: skip
    return table


def _limit(batch: "Batch") -> str:
    """The unit that works in most cycles."""
    return f"limited by the {batch.limited_by}, {100 * batch.busy[batch.limited_by] / batch.cycles:.1f} % of cycles"


def _bytes(batch: "Batch") -> str:
    """The commands that move most bytes."""
    moved = batch.bytes_by_command()
    total = sum(moved.values())
    first = [f"{name} {100 * count / total:.1f} %" for name, count in list(moved.items())[:SHOWN]]
    return f"{total:,} bytes, of which {', '.join(first)}"


def _errors(ours: "Batch", theirs: "Batch") -> str:
    parts = []
    for name in ("cycles", "read_bytes", "write_bytes"):
        real = theirs.counters[name]
        parts.append(f"{real:,} {name.replace('_', ' ')} (error {100 * (ours.counters[name] / real - 1):+.2f} %)")
    return ", ".join(parts)


def _summary(batch: "Batch") -> dict:
    moved = {" ".join(key): count for key, count in batch.moved.items()}
    return {
        **batch.counters, "useful_macs": batch.useful_macs, "useful_utilisation": batch.useful_utilisation,
        "utilisation": batch.utilisation, "limited_by": batch.limited_by, "busy": batch.busy, "moved": moved,
        "millijoules": batch.millijoules, "millijoules_by_command": batch.millijoules_by_command(),
    }  # fmt: skip
