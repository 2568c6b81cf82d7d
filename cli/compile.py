"""``adagp compile``: where each operator of a network runs, and its cost."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..host.training.settings import SettingsError
from .network_options import NetworkOptions
from .option_groups import grouped
from .options import JsonOption, StrictOption, refuse_host, summarise

if TYPE_CHECKING:
    from ..host.compiler.costs import Cost
    from ..host.training.network import Network

__all__ = ["compile_network"]

DEFAULTS = NetworkOptions()
STAGES = ("memory", "program")


@grouped
def compile_network(
    network: Annotated[
        str | None, typer.Argument(help="The network, as `adagp train --model` takes it; else --model.")
    ] = None,
    compiled: NetworkOptions = DEFAULTS,
    stage: Annotated[
        list[str] | None, typer.Option(help=f"Also show a stage: {', '.join(STAGES)}. May be given twice.")
    ] = None,
    strict: StrictOption = False,
    json_path: JsonOption = None,
) -> None:
    """Compile a network and show, for each operator, where it runs, and its cost in a BP batch.

    MACs and bytes are those of the batch's commands, operands and results once each; cycles are expected by the cost
    model that tiles are chosen by, as if commands didn't overlap. What the machine lacks runs on the host.

    Example: `adagp compile vgg13 --shape 3,32,32 --preset paper --batch 8 --stage memory`
    """
    for name in stage or ():
        if name not in STAGES:
            raise SettingsError(f"stage = {name!r} must be one of {', '.join(STAGES)}")
    options = compiled if network is None else replace(compiled, model=network)
    built, state = options.build()
    from ..host.compiler.costs import costs, share  # here, because torch takes seconds to import

    found = costs(built.compiled, state)
    of_device = share(found)
    if strict:
        refuse_host(of_device)
    Console().print(_table(found, f"{options.model}, batch {options.batch}, {options.preset} {options.variant}"))
    if of_device.host_operators:
        print(of_device)
    for name in stage or ():
        print(_memory(built) if name == "memory" else built.program.listing())
    summarise({"operators": [asdict(cost) for cost in found], "total": _total(found), **asdict(of_device)}, json_path)


def _total(found: list["Cost"]) -> dict[str, int]:
    return {column: sum(getattr(cost, column) for cost in found) for column in ("macs", "bytes", "cycles")}


def _table(found: list["Cost"], title: str) -> Table:
    table = Table("operator", "runs on", title=title)
    for column in ("MACs", "bytes", "cycles"):
        table.add_column(column, justify="right", no_wrap=True)
    for cost in found:
        where = cost.where if cost.where == "device" else f"host: {' '.join(cost.operators)}"
        table.add_row(cost.name, where, *_numbers(asdict(cost)))
    table.add_section()
    table.add_row("total", "", *_numbers(_total(found)))
    return table


def _numbers(row: dict) -> list[str]:
    return [f"{row[column]:,}" for column in ("macs", "bytes", "cycles")]


def _memory(network: "Network") -> str:
    """The memory plan, one block a line."""
    blocks = [f"{block.address:10x}  {block.n_bytes:12,}  {block.name}" for block in network.compiled.plan]
    return "\n".join([*blocks, f"{network.compiled.plan.n_bytes:,} bytes in all"])
