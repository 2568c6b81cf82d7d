"""``adagp evaluate``: loss and accuracy of a trained network on the test images."""

from typing import Annotated

import typer

from ..host.console import screen
from ..host.training.run_folder import RunError, RunFolder
from ..host.training.settings import TrainSettings
from .option_groups import grouped
from .options import NO_LINE, JsonOption, LineOptions, RunArgument, shown, summarise, transfer_shown

__all__ = ["evaluate"]


@grouped
def evaluate(
    run: RunArgument,
    device: Annotated[
        str | None,
        typer.Option(help="`sim`, `golden` or `board`; default: where a finished run was trained, else `sim`."),
    ] = None,
    line: LineOptions = NO_LINE,
    trust_model: Annotated[
        bool, typer.Option("--trust-model", help="Run the model file though it isn't the file that was trained.")
    ] = False,
    json_path: JsonOption = None,
) -> None:
    """Load a run's last checkpoint and measure loss and accuracy on the test images.

    If the run's network is a file of yours, that file is run; it must be the file as it was trained.

    Example: `adagp evaluate runs/NAME --device golden`
    """
    folder = RunFolder(run)
    settings = TrainSettings.from_dict(folder.settings)
    if device is None:
        device = folder.trained_on or "sim"
    from ..host.training.inference import evaluate as measure
    from ..host.training.session import open_session
    from ..host.training.trainer import Trainer

    port = line.port_of(device)
    _check_model_file(folder, settings, trust_model)
    with open_session(settings, device, port=port, progress=transfer_shown()) as session:
        trainer = Trainer(settings, session.network, session.device, session.dataset, folder)
        trainer.restore()
        with screen.status("evaluating"):
            loss, accuracy = measure(session.network, session.device, trainer.test_x_NCHW, trainer.test_y_N)
    print(f"test loss {shown(loss)}  accuracy {100 * accuracy:.2f} %  ({len(trainer.test_y_N)} images)")
    summarise({"test_loss": loss, "test_accuracy": accuracy, "images": len(trainer.test_y_N)}, json_path)


def _check_model_file(folder: RunFolder, settings: TrainSettings, trusted: bool) -> None:
    """Say which file of the user's is about to run; raises RunError if it isn't known to be the file as trained."""
    from ..host.training.models import model_digest, model_file

    path = model_file(settings.model)
    if path is None:
        return
    kept = folder.read_checkpoint()[0].get("model_file")
    if kept != model_digest(settings.model) and not trusted:
        why = "isn't the file that was trained" if kept else "may be another file than was trained: no digest was kept"
        raise RunError(f"{path.absolute()}, the model of {folder.path}, {why}; --trust-model runs it all the same")
    screen.print(f"running the model file {path.absolute()}")
