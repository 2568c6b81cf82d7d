"""``adagp experiment``: methods of training compared in PyTorch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ..host.console import resumable, screen
from .options import JsonOption, summarise

if TYPE_CHECKING:  # at run time inside the functions, because torch takes seconds to import
    from ..experiments.experiment import Experiment

__all__ = ["experiment"]


def experiment(
    model: Annotated[
        str,
        typer.Option(
            help="small-cnn, small-cnn5, small-resnet, lenet5, small-vgg, resnet20, or one of the paper's:"
            " inception-v4, inception-v3, densenet201, densenet169, densenet161, densenet121, resnet152, resnet101,"
            " resnet50, vgg19, vgg16, vgg13, mobilenet-v2,"
            " transformer (translates), yolo-v3 (detects)."
        ),
    ] = "small-cnn",
    data: Annotated[
        str | None,
        typer.Option(
            help="digits (needs no files), fashion-mnist, cifar10, cifar100, tiny-imagenet10, imagenet, multi30k, voc."
            " Default: digits, for the paper's cifar10, multi30k or voc."
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the data set's files as they are published; none are downloaded.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="With commas between them, or `all`. Plain training for a share of the epochs: bp-1, bp-0.85, bp-0.7,"
            " bp-0.55, bp-0.4 (two or more are the line others are compared with). Predicted gradients: ada-gp (the"
            " paper's schedule), ada-gp-2:1, ada-gp-1:1, ada-gp-1:2, ada-gp-raw (the paper's predictor), ada-gp-gated,"
            " ada-gp-every-4 (the predictor learns in one of four batches with true gradients), ada-gp-keep (GP batches"
            " leave momentum as it is), ada-gp-every-4-keep, ada-gp-every-16-keep, ada-gp-deferred"
            " (steps of GP batches wait for the next batch with true gradients), ada-gp-every-4-deferred."
            " In place of predictions: random-1:1 (their signs at random), zero-1:1, last-1:1, mean-1:1, dni-1:1, and"
            " with these schedules skip, skip-2:1, skip-1:1, skip-1:2. Less than the true gradient: half-1:1,"
            " half-3:1, half-1:0, sparse-1:1, narrow-1:1, late-1:1, late-mean-1:1, hard-1:1, drawn-1:1, coarse,"
            " coarse-1:1, coarse-1:0. A pipeline without a flush, cut after the first layer, in the first half or"
            " before each layer: stale-early, stale-half, stale-deep. As deep: stale-1f1b (half as stale), stale-stash"
            " (old weights kept), stale-hybrid (for the first half of the epochs); not part of `all`. Default: bp-1,"
            " ada-gp, skip, and of predictions and what is in their place all with 1:1."
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Each method is run from each: weights, order of examples. Default: 0,1,2.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Of whole training; schedules of phases are scaled to it. Default: 12.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Examples per batch. Default: 64.")] = None,
    lr: Annotated[
        float | None,
        typer.Option(
            help="Learning rate at the beginning. Default: 0.05 with sgd, 0.001 with the others, 0.0001 for transformer"
            " and yolo-v3."
        ),
    ] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="sgd, adam or adamw. Default: sgd, for transformer and yolo-v3 adam.")
    ] = None,
    lr_schedule: Annotated[
        str | None,
        typer.Option(
            help="cosine (to 0, batch by batch), plateau (ReduceLROnPlateau with its defaults, by the validation loss)"
            " or constant. Default: cosine."
        ),
    ] = None,
    momentum: Annotated[float | None, typer.Option(help="Of sgd. Default: 0.9.")] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="L2 penalty; with adamw decoupled. Default: 0.0005 with sgd, else 0.")
    ] = None,
    image_size: Annotated[
        int | None,
        typer.Option(help="Side of images; a whole part of the data set's. Any for imagenet (224) and voc (416)."),
    ] = None,
    images: Annotated[int, typer.Option(help="Train with so many examples only; 0: with all.")] = 0,
    augment: Annotated[bool, typer.Option("--augment", help="Training images are shifted and mirrored.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    autocast: Annotated[str, typer.Option(help="Mixed precision: off, bf16 or fp16 (with scaled losses).")] = "off",
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="The paper's settings, section 5.2, where no option says otherwise: 90 epochs, sgd, learning rate"
            " 0.001 (yolo-v3: 0.00003, weight decay 0.0001), plateau; and ada-gp-raw among the methods.",
        ),
    ] = False,
    jobs: Annotated[int, typer.Option(help="Runs at a time, each in a process.", min=1)] = 1,
    threads: Annotated[int, typer.Option(help="Of PyTorch in each process; sums depend on it.")] = 1,
    run: Annotated[
        Path | None, typer.Option(help="Folder for everything; default: runs/experiment-MODEL-DATA.")
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard's events (pip install 'adagp[tensorboard]').")
    ] = False,
    json_path: JsonOption = None,
) -> None:
    """Train with plain backpropagation, ADA-GP and its controls from the same seeds, and compare.

    The folder gets the table's numbers (outcomes.json), metrics of predictions by layer (metrics.csv, metrics.json)
    and plots: accuracy over epochs and against cost, MAPE and MSE, cosine, signs and norms by layer. A killed command
    goes on where it was when it is given again, and ends with the same numbers; with more seeds or methods it runs
    those alone. Costs are multiply-accumulates. See docs/pytorch.md for how to read the table.

    Example: `adagp experiment --methods bp-1,bp-0.55,bp-0.4,ada-gp,zero-1:1 --seeds 0,1,2 --epochs 12`

    Example: `adagp experiment --model small-resnet --methods bp-1,stale-early,stale-deep,stale-hybrid --lr 0.01`

    Example: `adagp experiment --model vgg13 --data cifar10 --data-dir ~/cifar --paper --device cuda`
    """
    with screen.status("loading"):
        from ..experiments.experiment import Experiment
        from ..experiments.experiment_folder import ExperimentFolder
        from ..experiments.settings import chosen, parse_methods, parse_seeds
        from ..host.training.events import events_writer

        settings = chosen(model, paper, {
            "data": data, "methods": None if methods is None else parse_methods(methods),
            "seeds": None if seeds is None else parse_seeds(seeds), "epochs": epochs, "batch": batch, "lr": lr,
            "optimizer": optimizer, "lr_schedule": lr_schedule, "momentum": momentum, "weight_decay": weight_decay,
            "image_size": image_size, "images": images, "augment": augment, "device": device, "autocast": autocast,
            "threads": threads,
        })  # fmt: skip
        if tensorboard:
            events_writer()
        folder = ExperimentFolder(run or Path("runs") / f"experiment-{settings.model}-{settings.data}")
        made = Experiment(settings, data_dir, folder)
    for line in made.remarks():
        screen.print(line)
    with folder.in_use(settings):
        with resumable():
            outcomes = _finish(made, jobs)
        summary = _report(made, outcomes, tensorboard)
    summarise(summary, json_path)


def _finish(made: "Experiment", jobs: int) -> list[dict]:
    """Run the runs that have not ended yet, with progress on the screen."""
    from ..experiments.progress import RunsProgress

    n_runs, n_left = len(made.runs), len(made.left)
    if n_left < n_runs:
        screen.print(f"{n_runs - n_left} of {n_runs} runs have ended before")
    with RunsProgress(screen, n_runs - n_left, n_runs) as shown:
        return made.finish(jobs, shown.told, shown.ended)


def _report(made: "Experiment", outcomes: list[dict], tensorboard: bool) -> dict:
    """Print the table, write the files and draw the plots; returns the summary."""
    from dataclasses import asdict

    from ..experiments.experiment_folder import without_nan
    from ..experiments.plots import plot_experiment
    from ..experiments.results import remarks, results, table, write_events, write_metrics
    from ..experiments.tasks import task_of

    settings, folder = made.settings, made.folder
    task, found = task_of(settings.data), results(outcomes)
    title = f"{settings.model}, {settings.data}: {settings.epochs} epochs, {len(settings.seeds)} seeds"
    folder.write_json("outcomes.json", [{k: v for k, v in one.items() if k != "quality"} for one in outcomes])
    write_metrics(folder, outcomes)
    files = plot_experiment(outcomes, found, task.score_name, title, folder.path)
    if tensorboard:
        write_events(folder.path / "tensorboard", outcomes)
    Console().print(table(found, task, title))
    for remark in remarks(outcomes):
        screen.print(remark)
    print(f"outcomes.json, metrics.csv, metrics.json, {', '.join(path.name for path in files)} in {folder.path}")
    rows = [{**asdict(one.point), "measures": one.measures, "by_seed": one.by_seed} for one in found]
    return without_nan({"settings": asdict(settings), "score": task.score_name, "methods": rows,
                        "folder": str(folder.path)})  # fmt: skip
