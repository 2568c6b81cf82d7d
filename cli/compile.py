"""``adagp compile``: where each operator of a network runs, and its cost."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..gen.files import write_atomically
from ..host.training.settings import SettingsError
from .network_options import NetworkOptions
from .option_groups import grouped
from .options import JsonOption, StrictOption, is_given, refuse_host, summarise, told

if TYPE_CHECKING:
    from ..host.compiler.costs import Cost
    from ..host.training.network import Network

__all__ = ["compile_network"]

DEFAULTS = NetworkOptions()
SUMS = ("useful_macs", "macs", "bytes", "cycles")
"""A cost's numbers."""
SHOWN = {"useful_macs": "useful MACs", "bytes": "bytes", "cycles": "device cycles"}
"""Those in the table, with their titles."""
STAGES = {
    "capture": "the operators that PyTorch captures",
    "graph": "layers of the accelerator and islands of the host",
    "fusion": "the operators that each of them computes at once",
    "memory": "the memory plan, with the first and last step that uses each value",
    "tilings": "the tiles that commands are cut into",
    "dependencies": "the commands that each waits for",
    "program": "the commands",
}
"""Stages of the compiler whose results can be shown, in their order."""


@grouped
def compile_network(
    context: typer.Context,
    network: Annotated[
        str | None, typer.Argument(help="The network, as `adagp train --model` takes it; else --model.")
    ] = None,
    compiled: NetworkOptions = DEFAULTS,
    stage: Annotated[
        list[str] | None,
        typer.Option(
            help="Also show what the compiler makes of the network, stage by stage: "
            + "; ".join(f"`{name}`, {text}" for name, text in STAGES.items())
            + ". May be given several times."
        ),
    ] = None,
    drawing: Annotated[
        Path | None,
        typer.Option(
            "--dot",
            help="Also draw the graph, in Graphviz' language: the accelerator's layers blue, the host's islands orange,"
            " with the shapes that they pass on. `dot -Tsvg FILE` makes a picture of it.",
        ),
    ] = None,
    strict: StrictOption = False,
    json_path: JsonOption = None,
) -> None:
    """Compile a network and show, for each operator, where it runs, and its cost in a batch of backpropagation (BP).

    The device's operators come first, in the order of their commands, then the host's. Activations and other operators
    that a command or an island takes along have no line. MACs and bytes are those of the batch's commands, operands and
    results once each; useful MACs are the network's own, without products with the zeros of padding. Cycles are the
    device's, expected by the cost model that tiles are chosen by, as if commands didn't overlap; those of the host
    aren't known. MACs of the host are those of its convolutions and matrix products. What the machine lacks runs on the
    host, which `--strict` refuses; the reasons stand below the table. So does what GP batches don't train. An operator
    that the host computes for want of a switch runs on the device with `--switches batch_norm` and the like, or `all`.

    Example: `adagp compile vgg13 --shape 3,32,32 --preset paper --batch 8 --stage memory`

    Example: `adagp compile torchvision:resnet18 --shape 3,32,32 --preset paper --batch 8 --dot resnet18.dot`
    """
    for name in stage or ():
        if name not in STAGES:
            raise SettingsError(f"stage = {name!r} must be one of {', '.join(STAGES)}")
    if network is not None and is_given(context, "model"):
        raise SettingsError(f"{network} and --model {compiled.model} name a network each: give one of them")
    options = compiled if network is None else replace(compiled, model=network)
    built, state = options.build()
    from ..host.compiler.costs import costs, share, utilisation  # here, because torch takes seconds to import
    from ..host.compiler.reasons import host_reasons

    found = costs(built.compiled, state)
    of_device = share(found)
    if strict:
        refuse_host(of_device)
    Console().print(_table(found, options.title))
    useful, padded = utilisation(built.compiled, found)
    print(f"useful utilisation of the array {100 * useful:.1f} %, {100 * padded:.1f} % with the zeros of padding")
    if of_device.host_operators:
        print(of_device)
        print("\n".join(f"  {line}" for line in host_reasons(built.compiled.graph.islands)))
    if unpredicted := told(built.compiled):
        print(unpredicted)
    for name in stage or ():
        print(_stage(name, built, options))
    if drawing is not None:
        from ..host.compiler.drawing import dot

        write_atomically(drawing, dot(built.compiled.graph, f"{options.model}, batch {options.batch}").encode())
    summary = {"operators": [asdict(cost) for cost in found], "total": _total(found), **asdict(of_device)}
    summary |= {"useful_utilisation": useful, "utilisation": padded}
    reasons = {island.name: [list(pair) for pair in island.reasons] for island in built.compiled.graph.islands}
    summarise(summary | {"host_reasons": reasons, "unpredicted": built.compiled.unpredicted}, json_path)


def _stage(name: str, network: "Network", options: NetworkOptions) -> str:
    """A stage as text."""
    if name == "capture":
        return _captured(options, network.config.matmul)
    if name == "graph":
        return network.compiled.graph.describe()
    if name == "program":
        return network.program.listing()
    from ..host.compiler import stages

    if name == "fusion":
        return stages.fusion(network.compiled.graph)
    shown = {"memory": stages.memory, "tilings": stages.tilings, "dependencies": stages.dependencies}
    return shown[name](network.compiled)


def _captured(options: NetworkOptions, products: bool) -> str:
    """The captured operators, one a line; of chains of the machine's layers too, which are compiled without."""
    import torch

    from ..host.compiler.capture import capture

    return capture(options.module(), (torch.zeros(options.batch, *options.image),), products).describe()


def _total(found: list["Cost"]) -> dict[str, int]:
    return {column: sum(getattr(cost, column) or 0 for cost in found) for column in SUMS}


def _table(found: list["Cost"], title: str) -> Table:
    table = Table(title=title)
    for heading in ("operator", "runs on"):
        table.add_column(heading, overflow="fold")  # a narrow terminal must not cut names
    for column in SHOWN.values():
        table.add_column(column, justify="right", no_wrap=True)
    for cost in found:
        where = cost.where if cost.where == "device" else f"host: {' '.join(cost.operators)}"
        table.add_row(cost.name, where, *_numbers(asdict(cost)))
    table.add_section()
    table.add_row("total", "", *_numbers(_total(found)))
    return table


def _numbers(row: dict) -> list[str]:
    return ["-" if row[column] is None else f"{row[column]:,}" for column in SHOWN]
