"""``adagp synth``: area, clock and power of the hardware, by open tools."""

from collections.abc import Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from ..host.console import numbers, resumable, screen, writable_folder
from ..host.training.settings import SettingsError, parse_switches
from ..spec.config import VARIANTS, Config
from ..spec.presets import preset
from .options import JsonOption, PresetOption, SwitchesOption, summarise

__all__ = ["changed", "synth"]

TARGETS = ("ecp5", "xilinx", "artix7", "ice40", "asic")
LARGEST_MHZ = 1000
"""The highest clock that may be asked for; no clock of these FPGAs is faster."""


def changed(config: Config, changes: Sequence[str]) -> Config:
    """Change fields of ``config`` by ``FIELD=NUMBER``, and its name with them; raises SettingsError, ConfigError.

    A field that is true or false is a 1 or a 0.
    """
    types: dict[str, Any] = {field.name: field.type for field in fields(config)}
    known = {name: kind for name, kind in types.items() if kind in (int, bool)}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in known:
            close = get_close_matches(name, known, 1)
            meant = f"did you mean {close[0]}?" if close else f"one of: {', '.join(known)}"
            raise SettingsError(f"--set {change}: the configuration has no field {name!r}; {meant}")
        if not value.isdecimal() or (known[name] is bool and value not in ("0", "1")):
            wanted = "0 or 1" if known[name] is bool else "a whole number"
            raise SettingsError(f"--set {change}: {value!r} must be {wanted}")
        config = Config.from_dict(
            {**config.to_dict(), name: known[name](int(value)), "name": f"{config.name}-{name}{value}"}
        )
    return config


def synth(
    target: Annotated[str, typer.Option(help=f"Technology: {', '.join(TARGETS)}.")] = "ecp5",
    preset_name: PresetOption = "ecp5",
    variant: Annotated[
        list[str] | None, typer.Option(help=f"Design, may be given several times: {', '.join(VARIANTS)}. Default: all.")
    ] = None,
    switches: SwitchesOption = "",
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change the preset: `--set rows=2 --set cols=4`.")
    ] = None,
    block: Annotated[str, typer.Option(help="Only this block of it, e.g. `array`, `core`, `drain`, `pe`.")] = "top",
    seeds: Annotated[
        str | None, typer.Option(help="Place and route with these seeds: `1-8`, `1,2,5`. Default: don't.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="Device: `85k`, `um5g-85k`, `up5k`, `xc7vx690t`, `xc7a100t`, ...")
    ] = None,
    package: Annotated[str | None, typer.Option(help="Package of the device, e.g. `CABGA756`.")] = None,
    speed: Annotated[str | None, typer.Option(help="Speed grade of the device.")] = None,
    freq: Annotated[
        float | None,
        typer.Option(help="MHz to place and route for. Default: the preset's, and late nets are routed anew."),
    ] = None,
    depth: Annotated[int, typer.Option(help="Levels of blocks that are shown; the JSON has all.", min=1)] = 3,
    liberty: Annotated[
        Path | None,
        typer.Option(help="asic: the cell library, as SG13G2's or SKY130's. Default: osu018 of Debian's qflow."),
    ] = None,
    power: Annotated[
        bool, typer.Option("--power", help="asic: power in a BP and a GP batch, by a simulation that counts toggles.")
    ] = False,
    vivado: Annotated[
        Path | None, typer.Option(help="xilinx: also write a batch project for Vivado to this folder.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Copy netlists, reports and logs to this folder.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Tools at once; each takes one core and some GB of memory.", min=1)] = 1,
    json_path: JsonOption = None,
) -> None:
    """Measure area, clock and power of the accelerator with open tools: Yosys, nextpnr, OpenSTA.

    Netlists and placed designs are kept in `~/.cache/adagp`: nothing is made twice, and a stopped run continues when
    the same command is given again. The other variants are compared with the first, block by block.

    Example: `adagp synth --preset tiny` (all four designs on an ECP5)

    `adagp synth --preset ecp5 --variant baseline --seeds 1-5` (places and routes; ten minutes a seed)

    `adagp synth --target xilinx --preset paper --vivado build/vivado`

    `adagp synth --target artix7 --preset tiny --variant baseline --seeds 1` (an open estimate of a clock on 7 series)

    `adagp synth --target ice40 --preset tiny --variant baseline --block array --set rows=2 --seeds 1-3`
    """
    on: dict[str, Any] = parse_switches(switches)
    config = changed(replace(preset(preset_name), **on), changes or ())
    chosen = [] if seeds is None else numbers(seeds)
    if target not in TARGETS:
        raise SettingsError(f"target = {target!r} must be one of: {', '.join(TARGETS)}")
    for name, value, only in (
        ("liberty", liberty, "asic"),
        ("vivado", vivado, "xilinx"),
        ("power", power or None, "asic"),
    ):
        if value is not None and target != only:
            raise SettingsError(f"--{name} is for --target {only}")
    for name, of_fpgas in (("part", part), ("package", package), ("speed", speed), ("freq", freq)):
        if of_fpgas is not None and target == "asic":
            raise SettingsError(f"--{name} isn't for --target asic")
    if chosen and target in ("xilinx", "asic"):
        hint = "; --target artix7 is placed" if target == "xilinx" else ""
        raise SettingsError(f"seeds = {seeds!r}: no open tool places and routes for {target}{hint}")
    if freq is not None and not 1 <= freq <= LARGEST_MHZ:
        raise SettingsError(f"--freq {freq:g} must be from 1 to {LARGEST_MHZ} MHz")
    if freq is not None and not chosen:
        raise SettingsError("--freq is for place and route: it needs --seeds")
    if power and (changes or switches):
        raise SettingsError("--power simulates a preset as it is: it can't go with --set or --switches")
    for name, folder in (("output", output), ("vivado", vivado)):
        if folder is not None:
            writable_folder(name, folder)
    from ..evaluation.instruments.synthesis import (
        cells,
        complain,
        progress_of,
    )  # here: Amaranth takes a while to import
    from ..evaluation.report.synth_tables import show
    from ..synth import flow
    from ..synth.design import Design

    designs = [Design(replace(config, variant=name), block) for name in dict.fromkeys(variant or VARIANTS)]
    with resumable(), progress_of(screen) as report:
        if target == "asic":
            found = cells(designs, liberty, power, jobs, report)
        else:
            options = flow.Options(part, package, speed, chosen, freq, jobs)
            found = flow.run(target, designs, options, report)
    show(found, depth)
    summarise({"target": target, "tools": flow.tools(target, bool(chosen)), "designs": found}, json_path)
    unfit = any("unfit" in figures for figures in found)
    if output is not None:
        for design, figures in zip(designs, found, strict=True):
            flow.keep(figures, output / design.name)
    if vivado is not None and not unfit:
        from ..synth.vivado import project

        for design in designs:
            print(project(design, vivado / design.name, part))
    complain(found)
