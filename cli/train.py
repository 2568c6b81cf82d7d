"""The command that makes runs: train."""

import contextlib
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..host.console import screen
from ..host.devices.device import DeviceError
from ..host.pipelines.plan import PipelineFailure
from ..host.training.data import DATASETS
from ..host.training.divergence import DivergenceError
from ..host.training.run_folder import RunError, RunFolder
from ..host.training.settings import SCHEDULES, SettingsError, TrainSettings
from .option_groups import grouped
from .options import (
    NO_LINE,
    DataflowOption,
    DeviceOption,
    JsonOption,
    LineOptions,
    MicroBatchesOption,
    PresetOption,
    SavingOptions,
    SourceOption,
    StrictOption,
    SwitchesOption,
    VariantOption,
    refuse_host,
    summarise,
    told,
    transfer_shown,
)
from .report import batches_by_phase, draw, used, utilisations
from .train_pipeline import ONE_DEVICE, PipelineOptions
from .train_progress import events_of, record_timeline, recorded_once, shown_progress

if TYPE_CHECKING:  # at run time inside the functions, because torch takes seconds to import
    from ..host.devices.board import Port
    from ..host.training.trainer import Trainer

__all__ = ["train"]

DEFAULTS, SAVING = TrainSettings(), SavingOptions()
GO_ON = "the same command goes on from the last checkpoint"
NO_CHECKPOINT = "there is no checkpoint yet: the same command starts over"


def _summary(trainer: "Trainer", device_name: str, weights_hash: str, seconds: float) -> dict:
    last, link = trainer.progress.log[-1], getattr(trainer.device, "link", None)
    return {
        "settings": trainer.settings.to_dict(), "device": device_name, "weights_hash": weights_hash,
        "test_accuracy": last["test_accuracy"], "train_loss": last["train_loss"],
        **{name: last[name] for name in ("devices", "cycles", "useful_macs", "macs", "saturations") if name in last},
        **utilisations(last, trainer.settings),
        **{name: value for name, value in last.items() if name.startswith(("batches_", "cycles_"))},
        **{name: value for name, value in last.items() if name.endswith("_seconds")}, "seconds": round(seconds, 1),
        **({} if link is None else {"link": link.statistics.to_dict()}),
    }  # fmt: skip


def _name(settings: TrainSettings, device: str, several: PipelineOptions) -> str:
    """Name of the run's folder in ``runs/``; of a model's file the name without folder and ending."""
    where, _, which = settings.model.rpartition(":")
    parts = [*filter(None, [Path(where).stem]), which, settings.data, settings.preset, device, settings.seed]
    if settings.predicts:
        parts += [settings.variant, settings.gradient_source]
        parts += [f"every{settings.predictor_every}"] * (settings.predictor_every > 1)
        parts += [settings.gp_momentum] * (settings.gp_momentum != DEFAULTS.gp_momentum)
        parts += [settings.predictions] * (settings.predictions != DEFAULTS.predictions)
    if settings.switches:
        parts.append(settings.switches.replace(",", "+"))
    if settings.dataflow != DEFAULTS.dataflow:
        parts.append(settings.dataflow)
    if several.several:
        parts.append(f"{several.devices}x{several.pipeline}")
    return "-".join(map(str, parts))


@grouped
def train(
    device: DeviceOption = "sim",
    line: LineOptions = NO_LINE,
    several: PipelineOptions = ONE_DEVICE,
    preset_name: PresetOption = DEFAULTS.preset,
    model: Annotated[
        str,
        typer.Option(
            help="digits-cnn, mlp, lenet, vgg-small, vgg13; with branches and batch norm resnet20, resnet18-small,"
            " densenet-small, mobilenet-small; or `file.py:function`, `torchvision:NAME`, `timm:NAME` (see above)."
        ),
    ] = DEFAULTS.model,
    data: Annotated[str, typer.Option(help=f"One of {', '.join(DATASETS)}.")] = DEFAULTS.data,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the files of a data set not shipped.")] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the training images.")] = DEFAULTS.epochs,
    batch: Annotated[int, typer.Option(help="Images per batch.")] = DEFAULTS.batch,
    micro_batches: MicroBatchesOption = DEFAULTS.micro_batches,
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", "--lr", help="Learning rate, where the schedule begins.")
    ] = DEFAULTS.learning_rate,
    schedule: Annotated[str, typer.Option(help=f"Learning rate: {', '.join(SCHEDULES)}.")] = DEFAULTS.schedule,
    momentum: Annotated[float, typer.Option(help="Momentum of SGD.")] = DEFAULTS.momentum,
    weight_decay: Annotated[float, typer.Option(help="L2 penalty on all parameters.")] = DEFAULTS.weight_decay,
    seed: Annotated[int, typer.Option(help="Decides initial weights and the order of images.")] = DEFAULTS.seed,
    train_images: Annotated[int | None, typer.Option(help="Use only the first so many training images.")] = None,
    test_images: Annotated[int | None, typer.Option(help="Use only the first so many test images.")] = None,
    variant: VariantOption = DEFAULTS.variant,
    switches: SwitchesOption = DEFAULTS.switches,
    dataflow: DataflowOption = DEFAULTS.dataflow,
    gradient_source: SourceOption = DEFAULTS.gradient_source,
    saving: SavingOptions = SAVING,
    warmup_epochs: Annotated[int, typer.Option(help="Epochs before the first GP batch.")] = DEFAULTS.warmup_epochs,
    phases: Annotated[
        str,
        typer.Option(
            help="GP and BP batches in turn, by epochs: `EPOCHS*GP:BP ...`, the last of which goes on; `1:1` all along,"
            " or `2*4:1 1:1`, two epochs with four GP batches for each BP batch before. 255 batches each at most."
        ),
    ] = DEFAULTS.phases,
    predictor_rate: Annotated[float, typer.Option(help="Learning rate of the predictor.")] = DEFAULTS.predictor_rate,
    predictor_milestones: Annotated[
        str, typer.Option(help="Epochs, such as 30,60, after which the predictor's rate is multiplied by its gamma.")
    ] = DEFAULTS.predictor_milestones,
    predictor_gamma: Annotated[float, typer.Option(help="See milestones.")] = DEFAULTS.predictor_gamma,
    plateau_factor: Annotated[
        float, typer.Option(help="Schedule plateau: the learning rate is multiplied by it.")
    ] = DEFAULTS.plateau_factor,
    plateau_patience: Annotated[
        int, typer.Option(help="Schedule plateau: so many epochs without a lower validation loss change nothing.")
    ] = DEFAULTS.plateau_patience,
    validation_fraction: Annotated[
        float, typer.Option(help="Schedule plateau: share of the training images that it is decided by.")
    ] = DEFAULTS.validation_fraction,
    gate: Annotated[
        float, typer.Option(help="Cosine of prediction and true gradient that a run of GP batches needs; 0: none.")
    ] = DEFAULTS.gate,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Run folder; default: runs/NAME.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over, even if the folder holds an unfinished run.")
    ] = False,
    checkpoint_every: Annotated[int, typer.Option(help="Batches between checkpoints.", min=1)] = 50,
    trace: Annotated[
        str | None,
        typer.Option(help="Record waveforms of the commands `FIRST:LAST` (see disasm), once, in `trace.fst`."),
    ] = None,
    timeline: Annotated[
        str | None, typer.Option(help="Record what the units do in the batches `FIRST:LAST`, in `timeline.json`.")
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard's events (pip install 'adagp[tensorboard]').")
    ] = False,
    strict: StrictOption = False,
    json_path: JsonOption = None,
) -> None:
    """Train a network on the accelerator.

    Without options: a small CNN on scikit-learn's digits, on the simulated RTL. The run's folder gets the
    log (CSV and JSON), checkpoints, weights, a plot and a summary. A killed run goes on where it stopped when
    the same command is given again, and ends with the same bits. A finished run is replaced by the same command.

    A network of your own is a function `build(shape, n_classes)`, shape being (channels, height, width),
    that returns a `torch.nn.Module`; `adagp compile` shows where its operators run. `torchvision:NAME` and
    `timm:NAME` are networks of these libraries.

    With another variant than `baseline` batches have phases: warm-up, then GP batches, which do without a backward
    pass, and BP batches, from whose true gradients a predictor learns.

    Example: `adagp train --model my_net.py:build --device golden --epochs 5 --lr 0.05`

    Example: `adagp train --variant max --phases "2*4:1 1:1"`

    Example: `adagp train --variant max --batch 16 --micro-batches 4 --devices 2 --pipeline zb-h1`

    Example: `adagp train --device board --port /dev/ttyUSB1 --preset ecp5`
    """
    settings = TrainSettings(
        model=model, data=data, data_dir=str(data_dir) if data_dir else None, preset=preset_name, epochs=epochs,
        batch=batch, micro_batches=micro_batches, learning_rate=learning_rate, schedule=schedule, momentum=momentum,
        weight_decay=weight_decay, seed=seed, train_images=train_images, test_images=test_images, variant=variant,
        **asdict(saving), switches=switches, dataflow=dataflow, gradient_source=gradient_source,
        warmup_epochs=warmup_epochs,
        phases=phases, predictor_rate=predictor_rate, predictor_milestones=predictor_milestones,
        predictor_gamma=predictor_gamma, plateau_factor=plateau_factor, plateau_patience=plateau_patience,
        validation_fraction=validation_fraction, gate=gate,
    )  # fmt: skip
    if settings.unused:
        parts = [
            f"{', '.join(names)}: of no effect with {why} = {getattr(settings, why)!r}"
            for why, names in settings.unused.items()
        ]
        raise SettingsError("; ".join(parts))
    port = line.port_of(device)
    several.check(settings, device, trace)
    if several.follows:
        several.take_part(settings, device)
        return
    folder = RunFolder(output or Path("runs") / _name(settings, device, several))
    began = time.perf_counter()
    with folder.in_use():
        try:
            trainer, weights_hash, on_host = _run(
                settings, device, several, folder, fresh, checkpoint_every, trace, timeline, tensorboard, port, strict
            )  # fmt: skip
        except KeyboardInterrupt:
            goes_on = folder.has_checkpoint() and not folder.finished
            screen.print(f"interrupted; {GO_ON if goes_on else NO_CHECKPOINT}")
            raise typer.Exit(130) from None
        except PipelineFailure as error:
            goes_on = folder.has_checkpoint() and not folder.finished
            raise PipelineFailure(f"{error}; {GO_ON if goes_on else NO_CHECKPOINT}") from error
        except DeviceError as error:
            if folder.has_checkpoint() and not folder.finished:
                raise DeviceError(f"{error}; {GO_ON}", error.code, error.index) from error
            raise
        except DivergenceError as error:
            kept = "; the last checkpoint is kept" if folder.has_checkpoint() else ""
            raise DivergenceError(f"{error}{kept}") from None
        summary = _summary(trainer, device, weights_hash, time.perf_counter() - began) | on_host
        summary |= several.results(trainer)
        draw(folder)
        folder.write_summary(summary)
    cycles = f", {summary['cycles']:,} cycles; PEs multiply in {used(summary, settings)}" if summary["cycles"] else ""
    print(f"test accuracy {100 * summary['test_accuracy']:.2f} %  {summary['seconds']} s in all{cycles}")
    if settings.predicts:
        print(batches_by_phase(summary, settings.gradient_source))
    several.show(summary)
    print(f"weights {weights_hash}")
    if link := getattr(trainer.device, "link", None):
        print(f"link: {link.statistics}")
    print(f"log, plot and weights in {folder.path}")
    summarise(summary, json_path)


def _run(
    settings: TrainSettings, device: str, several: PipelineOptions, folder: RunFolder, fresh: bool,
    checkpoint_every: int, trace: str | None, timeline: str | None, tensorboard: bool = False,
    port: "Port | None" = None, strict: bool = False,
) -> tuple["Trainer", str, dict]:  # fmt: skip
    """Train to the end, from the folder's checkpoint if it holds an unfinished run; returns the weights' hash too."""
    from ..host.compiler.costs import costs, share
    from ..host.training.events import events_writer
    from ..host.training.session import open_session
    from ..host.training.timeline import check_window
    from ..host.training.trainer import Trainer

    if timeline is not None and device != "sim":
        raise SettingsError(f"timeline needs the device sim: {device} doesn't say what its units do")
    if timeline is not None:
        check_window(timeline)  # before a simulator is built
    if tensorboard:
        events_writer()  # raises SettingsError before the work if its package is missing
    goes_on = folder.has_checkpoint() and not fresh
    if goes_on and (differing := settings.differing(folder.settings)):
        raise RunError(f"{folder.path} holds a run with {differing}: give another --output, or --fresh")
    if goes_on:
        several.check_checkpoint(folder)
    with contextlib.ExitStack() as opened:
        session = opened.enter_context(open_session(
            settings, several.whole or device, trace=trace, folder=folder, port=port, progress=transfer_shown()
        ))  # fmt: skip
        shared = share(costs(session.network.compiled, session.network.islands.state.state_dict()))
        if strict:
            refuse_host(shared)
        on_host = asdict(shared) if shared.host_operators else {}
        trainer: Trainer
        if several.whole:
            trainer = opened.enter_context(several.opened(settings, device, session, folder, checkpoint_every))
        else:
            trainer = Trainer(settings, session.network, session.device, session.dataset, folder, checkpoint_every)
        trainer.several = several.kept
        if timeline is not None:
            record_timeline(timeline, trainer)
        if goes_on and not folder.finished:
            trainer.restore()
            screen.print(f"going on from epoch {trainer.progress.epoch + 1}, batch {trainer.progress.step}")
        else:
            if folder.finished:
                screen.print(f"replacing the finished run in {folder.path}")
            folder.begin(settings.to_dict())
        screen.print(str(session.dataset))
        tests = len(trainer.test_y_N)
        screen.print(f"batches an epoch: {trainer.steps_per_epoch:,} of {settings.batch} images; {tests:,} test images")
        if on_host:
            screen.print(str(shared), soft_wrap=True, highlight=False)
        if unpredicted := told(session.network.compiled):
            screen.print(unpredicted, soft_wrap=True, highlight=False)
        if on_host and settings.predicts:
            screen.print("in GP batches the program waits for the host at each of these operators, in the forward pass")
        recorded = None if trace is None else recorded_once(trace, trainer)
        with events_of(trainer, folder, tensorboard) as events, shown_progress(trainer, events, recorded):
            trainer.run()
        session.save_state(folder)
        return trainer, session.network.weights_hash(session.device), on_host
