"""``adagp diff``: the first command and element in which two devices differ."""

from contextlib import closing
from typing import Annotated

import typer

from ..host.console import screen
from ..host.training.settings import SettingsError
from .network_options import NetworkOptions
from .option_groups import grouped
from .options import NO_LINE, JsonOption, LineOptions, summarise

__all__ = ["diff"]

DEFAULTS = NetworkOptions(batch=8, preset="tiny")
"""A network small enough to simulate at once."""


@grouped
def diff(
    compiled: NetworkOptions = DEFAULTS,
    devices: Annotated[str, typer.Option(help="Two devices, the reference first.")] = "golden,sim",
    line: LineOptions = NO_LINE,
    seed: Annotated[int, typer.Option(help="Decides weights, inputs and labels.", min=0)] = 0,
    json_path: JsonOption = None,
) -> None:
    """Run training batches on two devices and name the first command and element that differ (exit code 1).

    A design that predicts gradients runs a batch of each phase.

    Example: `adagp diff --model lenet --shape 1,28,28 --batch 4`

    Example: `adagp diff --devices golden,board --port /dev/ttyUSB1`
    """
    from ..host.training.session import DEVICES, open_device  # here, because torch takes seconds to import

    names = [name.strip() for name in devices.split(",")]
    if len(names) != 2 or not set(names) <= set(DEVICES):
        raise SettingsError(f"devices = {devices!r} must name two of {', '.join(DEVICES)}, e.g. golden,sim")
    port = line.port_of("board" if "board" in names else names[1])
    network, state = compiled.build(seed)
    from ..host.training.diff import compare

    def opened(name):
        return closing(open_device(name, network.config, **({"port": port} if name == "board" else {})))

    with (
        opened(names[0]) as reference,
        opened(names[1]) as other,
        screen.status(f"running {len(network.program)} commands on {names[0]} and {names[1]}"),
    ):
        difference = compare(network, reference, other, state, seed)
    summarise({"equal": difference is None, "difference": vars(difference) if difference else None}, json_path)
    if difference is not None:
        print(difference)
        raise typer.Exit(1)
    print(f"{names[0]} and {names[1]} agree on every element of {len(network.program)} commands")
