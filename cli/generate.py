"""``adagp generate``: the accelerator as Verilog, its description and a C header."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..host.console import screen
from ..host.training.settings import SettingsError, parse_switches
from ..spec.config import FAMILIES
from ..spec.presets import preset
from ..spec.schedule import PREDICTIONS, STREAM
from .options import JsonOption, PresetOption, SwitchesOption, VariantOption, summarise

__all__ = ["generate"]


def generate(
    preset_name: PresetOption = "ecp5",
    variant: VariantOption = "baseline",
    switches: SwitchesOption = "",
    random_signs: Annotated[
        bool, typer.Option("--random-signs", help="With what `adagp train --gradient-source random` needs.")
    ] = False,
    predictions: Annotated[
        str,
        typer.Option(help="`stream`: with what `adagp train --predictions stream` needs, in variant max; or `spill`."),
    ] = "spill",
    output_stationary: Annotated[
        bool, typer.Option("--output-stationary", help="With an array that keeps sums (`--dataflow os` elsewhere).")
    ] = False,
    target: Annotated[
        str | None,
        typer.Option(help=f"Use the blocks of an FPGA family: {', '.join(FAMILIES)}. Default: plain Verilog."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files.")] = Path("build"),
    json_path: JsonOption = None,
) -> None:
    """Write the accelerator as Verilog (`top.v`), its description (`top.json`) and a C header (`adagp.h`).

    Example: `adagp generate --preset paper --variant max -o build/paper-max`
    """
    more: dict[str, Any] = {"variant": variant, "random_signs": random_signs, **parse_switches(switches)}
    more |= {"output_stationary": output_stationary, "streamed_predictions": predictions == STREAM}
    config = replace(preset(preset_name), **more)
    if random_signs and not config.predicts:
        raise SettingsError("random_signs = True needs a variant that predicts gradients")
    if predictions not in PREDICTIONS or config.streamed_predictions > config.streams:
        raise SettingsError(f"predictions = {predictions!r} must be spill; variant max also has stream")
    if target is not None and target not in FAMILIES:
        raise SettingsError(f"target = {target!r} must be one of: {', '.join(FAMILIES)}")
    output.mkdir(parents=True, exist_ok=True)
    from ..gen.verilog import GATED, Vendor  # here, because Amaranth takes a while to import
    from ..gen.verilog import generate as write_files

    began = time.perf_counter()
    screen.print(f"generating {preset_name} {variant} ({config.rows}x{config.cols} PEs)")

    def begins(step: str) -> None:
        shown.update(step)
        screen.print(f"{time.perf_counter() - began:5.0f} s  {step}")

    with screen.status("describing the design") as shown:
        platform = GATED if target is None else Vendor(target)
        folder = write_files(config, output, platform=platform, progress=begins).parent
    screen.print(f"{time.perf_counter() - began:5.0f} s  done")
    paths = [str(folder / name) for name in ("top.v", "top.json", "adagp.h")]
    print("\n".join(paths))
    made = {"preset": preset_name, "variant": variant, "switches": switches}
    summarise({**made, "config_hash": config.config_hash, "files": paths}, json_path)
