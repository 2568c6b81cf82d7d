"""``adagp evaluate``: loss and accuracy of a trained network on the test images."""

from typing import Annotated

import typer

from ..host.console import screen
from ..host.training.run_folder import RunFolder
from ..host.training.settings import TrainSettings
from .option_groups import grouped
from .options import NO_LINE, JsonOption, LineOptions, RunArgument, summarise, transfer_shown

__all__ = ["evaluate"]


@grouped
def evaluate(
    run: RunArgument,
    device: Annotated[
        str | None,
        typer.Option(help="`sim`, `golden` or `board`; default: where a finished run was trained, else `sim`."),
    ] = None,
    line: LineOptions = NO_LINE,
    json_path: JsonOption = None,
) -> None:
    """Load a run's last checkpoint and measure loss and accuracy on the test images.

    Example: `adagp evaluate runs/NAME --device golden`
    """
    folder = RunFolder(run)
    settings = TrainSettings.from_dict(folder.settings)
    if device is None:
        device = folder.summary["device"] if folder.finished else "sim"
    from ..host.training import trainer as training
    from ..host.training.session import open_session

    port = line.port_of(device)
    with open_session(settings, device, port=port, progress=transfer_shown()) as session:
        trainer = training.Trainer(settings, session.network, session.device, session.dataset, folder)
        trainer.restore()
        with screen.status("evaluating"):
            loss, accuracy = training.evaluate(session.network, session.device, trainer.test_x_NCHW, trainer.test_y_N)
    print(f"test loss {loss:.4f}  accuracy {100 * accuracy:.2f} %  ({len(trainer.test_y_N)} images)")
    summarise({"test_loss": loss, "test_accuracy": accuracy, "images": len(trainer.test_y_N)}, json_path)
