"""``adagp info``: the presets and their figures."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..spec.config import Config
from ..spec.presets import PRESETS, preset
from .options import JsonOption, summarise

__all__ = ["info"]


def _facts(config: Config) -> dict[str, str]:
    def kib(elements: int, bits: int) -> str:
        return f"2x{elements * bits // 8192} KiB"

    pads = (config.a_elements, config.b_elements, config.c_elements)
    dram = config.dram
    return {
        "PEs": f"{config.rows} x {config.cols} = {config.n_pes}",
        "clock": f"{config.clock_hz / 1e6:g} MHz",
        "peak": f"{2 * config.n_pes * config.clock_hz / 1e9:g} GOPS",
        "operand / accumulator": f"{config.operand_width} / {config.acc_width} bits",
        "scratchpads A, B, C": " + ".join(kib(elements, config.operand_width) for elements in pads),
        "accumulator": kib(config.acc_depth * config.cols, config.acc_width),
        "results a cycle": str(config.epilogue_width),
        "weights updated a cycle": f"{config.update_lanes / config.update_cycles:.2g}",
        "memory port": f"{config.port_width} bits, {config.beat_bytes * config.clock_hz / 1e9:g} GB/s",
        "memory part": f"{dram.name}, {dram.bandwidth_bytes / 1e9:g} GB/s, {dram.capacity_bytes >> 20} MiB",
        "gradients predicted": f"of {config.n_filters} filters of {config.n_predicted} weights",
        "predictor's PEs in max": f"{config.predictor_rows} x {config.predictor_cols}",
        "commands that wait for them": str(config.predictor_depth),
        "config hash": f"{config.config_hash:08x}",
    }


def info(
    preset_name: Annotated[str | None, typer.Option("--preset", help="Show this accelerator only.")] = None,
    json_path: JsonOption = None,
) -> None:
    """Show the presets: array, scratchpads, port, memory part, the largest layer whose gradients can be predicted.

    Example: `adagp info --preset paper`
    """
    configs = [preset(preset_name)] if preset_name else list(PRESETS.values())
    facts = [_facts(config) for config in configs]
    table = Table("", *(config.name for config in configs), title="accelerators")
    for label in facts[0]:
        table.add_row(label, *(column[label] for column in facts))
    Console().print(table)
    summarise({config.name: {**config.to_dict(), "config_hash": config.config_hash} for config in configs}, json_path)
