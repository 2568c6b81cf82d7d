"""A session: the data set, network and device of a run, opened and closed together."""

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...gen.files import write_atomically
from ...spec.config import Config
from ..devices.device import Device
from .data import load_dataset
from .dataset import Dataset
from .models import ModelError, build_model
from .network import Network
from .run_folder import RunError, RunFolder
from .settings import SettingsError, TrainSettings, parse_phases

__all__ = ["DEVICES", "Session", "open_device", "open_session"]

DEVICES = ("sim", "golden", "board")

if TYPE_CHECKING:
    from ..devices.board import Port


@dataclass
class Session:
    """The network, device and data set that a run works with."""

    network: Network
    device: Device
    dataset: Dataset

    def save_state(self, folder: RunFolder) -> None:
        """Write the trained weights as a torch state dict, ``weights.pt``."""
        import torch

        buffer = io.BytesIO()
        torch.save(self.network.state_dict(self.device), buffer)
        write_atomically(folder.path / "weights.pt", buffer.getvalue())


def open_device(name: str, config: Config, **options) -> Device:
    """Open the device called ``name``; raises SettingsError.

    ``options`` are those of the simulation, or the board's ``port``.
    """
    if name == "sim":
        from ..devices.simulated import SimDevice

        return SimDevice(config, **options)
    if name == "golden":
        from ..devices.golden import GoldenDevice

        return GoldenDevice(config)
    if name == "board":
        from ..devices.board import BoardDevice

        if "port" not in options:
            raise SettingsError("the device board needs a port")
        return BoardDevice(config, **options)
    raise SettingsError(f"no device {name!r}; there are: {', '.join(DEVICES)}")


def _window(trace: str | None, folder: RunFolder | None, n_commands: int) -> dict:
    """Options of the simulation that record waveforms of the commands ``FIRST:LAST``."""
    if trace is None:
        return {}
    first, colon, last = trace.partition(":")
    numbers = colon and first.isdecimal() and last.isdecimal()
    if not (numbers and int(first) <= int(last) < n_commands):
        raise SettingsError(f"trace = {trace!r} must be FIRST:LAST with FIRST <= LAST < {n_commands}, the commands")
    if folder is None:
        raise RunError("a waveform needs a run folder")
    folder.path.mkdir(parents=True, exist_ok=True)
    return {"trace": folder.path / "trace.fst", "trace_commands": (int(first), int(last))}


@contextlib.contextmanager
def _shown(device: Device, progress: Callable[[int, int], None] | None, n_bytes: int) -> Iterator[None]:
    """Report transfers to and from a board to ``progress``; the board's memory must have ``n_bytes``."""
    from ..devices.board import BoardDevice

    assert isinstance(device, BoardDevice)
    device.require_memory(n_bytes)
    device.progress = progress
    yield
    device.progress = None


@contextlib.contextmanager
def open_session(
    settings: TrainSettings, device_name: str, *, trace: str | None = None, folder: RunFolder | None = None,
    dataset: Dataset | None = None, port: "Port | None" = None, progress: Callable[[int, int], None] | None = None,
    options: dict | None = None,
) -> Iterator[Session]:  # fmt: skip
    """Load the data, compile the network, open the device, load initial weights; close the device at the end.

    ``dataset`` replaces the settings' own. ``port`` is the place of the device ``board``, and ``progress`` is called
    with bytes done and to do during long transfers to it. ``options`` are further options of the simulation.

    Raises the errors of all these steps: DataError, ModelError, LoweringError, MappingError, CapacityError ...
    """
    if device_name == "estimate":
        raise SettingsError("the estimator has no data, so nothing trains on it: see `adagp estimate`")
    if device_name not in DEVICES:
        raise SettingsError(f"no device {device_name!r}; there are: {', '.join(DEVICES)}")
    if trace is not None and device_name != "sim":
        raise SettingsError(f"trace needs the device sim: {device_name} has no waveforms")
    config = settings.config
    dataset = load_dataset(settings.data, settings.data_path) if dataset is None else dataset
    model = build_model(settings.model, dataset.shape, dataset.n_classes, settings.seed)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ModelError(f"{settings.model}: every parameter is frozen or there is none, so nothing would be trained")
    ring, source = 1, None
    if settings.predicts:
        ring, source = 1 + max(entry.gp for entry in parse_phases(settings.phases)), settings.gradient_source
    network = Network(
        model, dataset.shape, settings.batch, config, ring_entries=ring, source=source, dataflow=settings.dataflow,
        micro_batches=settings.micro_batches, predictor_every=settings.predictor_every,
        gp_momentum=settings.gp_momentum,
    )  # fmt: skip
    if (results := len(network.compiled.graph.results)) != 1:
        raise ModelError(
            f"{settings.model} has {results} results, a classifier has one: train it by Network and a loss of your own"
        )
    if network.n_outputs != dataset.n_classes:
        raise ModelError(
            f"{settings.model} has {network.n_outputs} outputs, {settings.data} has {dataset.n_classes} classes"
        )
    chosen = _window(trace, folder, len(network.program)) | (options or {})
    if port is not None:
        chosen["port"] = port
    device = open_device(device_name, config, **chosen)
    try:
        with contextlib.nullcontext() if port is None else _shown(device, progress, network.compiled.plan.n_bytes):
            network.load_state(device, model.state_dict(), settings.seed)
        yield Session(network, device, dataset)
    finally:
        device.close()
