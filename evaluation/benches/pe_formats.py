"""PEs of three number formats, synthesised, placed and routed: ``results/pe_formats.json``.

``int16`` and ``int8`` are ``rtl/compute/pe.py`` as the accelerator has it (mantissas of block floating point, exact
integer
psums); ``bf16`` is ``rtl/bfloat16/pe.py`` (bfloat16 operands, float32 psums), which is an option of the PE alone.

A PE between pins flatters or punishes: so a mesh of PEs stands between registers (``synth/pe_mesh.py``), and what is
reported is the difference between a mesh and one of fewer rows, per PE. Cells are counted as `adagp synth` counts them:
LUTs on ECP5 are those of logic and two for each CCU2C (two bits of a carry chain); on 7 series LUTs of any size and
shift registers count one each, and what is reported is Yosys' count, which Vivado's isn't. Fmax is nextpnr's for the
larger mesh, median of several seeds; with open tools there is none for 7 series. ``ecp5_narrow`` is ECP5 again, without
LUTs of more than four inputs (two to eight LUT4 with multiplexers after them), which Yosys uses where it expects them
to be faster: only bf16 has any.

Netlists and reports are kept in the cache: a bench that was stopped goes on after the last one.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ...gen.provenance import commit, provenance
from ...gen.verilog import Flat, Vendor, to_rtlil
from ...host.console import writable
from ...rtl.bfloat16.pe import PEBfloat16
from ...rtl.compute.pe import PE
from ...spec.presets import preset
from ...synth.design import PREFIX
from ...synth.ecp5 import ECP5, ROUTER
from ...synth.errors import RouteError, ToolError
from ...synth.flow import median_mhz, tools
from ...synth.harness import DESIGN, PinHarness
from ...synth.netlist import count
from ...synth.parallel import ended_by_signals
from ...synth.pe_mesh import PEMesh
from ...synth.placement import fmax_mhz
from ...synth.target import Target
from ...synth.xilinx import XILINX
from ...synth.yosys import synthesise
from ..instruments.results import FOLDER, write_results
from ..instruments.single_command import bars
from ..instruments.synthesis import complain, mistakes_in_a_line

__all__ = ["FORMATS", "MESHES", "TARGETS", "figures", "main", "per_pe", "placed", "synthesised"]

COMMAND = "python -m adagp.evaluation.benches.pe_formats"
CONFIG = replace(preset("ecp5"), registered_products=False)  # bf16's PE has no such register to compare
FORMATS: dict[str, tuple] = {
    "int16": (PE, CONFIG), "int8": (PE, replace(CONFIG, operand_width=8, acc_width=32)), "bf16": (PEBfloat16,),
}  # fmt: skip
"""The PE of each, and what it is made for."""
MESHES = ((3, 2), (1, 2))
"""Rows and columns of the mesh that is placed, and of the one that is subtracted."""
SEEDS = (1, 2, 3)
PART = ROUTER.options("25k", "CABGA381", "6")
FREQ_MHZ = 150.0
"""Clock that nextpnr is asked for."""
DSP = ("multiplier", "dsp48")
"""Names of the resource on the targets."""


TARGETS: dict[str, tuple[Target, bool, tuple[str, ...]]] = {
    "ecp5": (ECP5, True, tuple(FORMATS)),
    "ecp5_narrow": (replace(ECP5, passes="synth_ecp5 -nowidelut -top adagp"), True, ("bf16",)),
    "xilinx": (XILINX, False, tuple(FORMATS)),
}
"""Each with whether it can be placed, and the formats that are measured on it."""


def per_pe(target: Target, meshes: Sequence[tuple[PEMesh, Mapping[str, int]]]) -> dict[str, float]:
    """Resources that a PE of the first mesh has cost beyond the second."""
    (large, large_cells), (small, small_cells) = meshes
    n_pes = sum(map(len, large.pes)) - sum(map(len, small.pes))
    more, less = target.resources(large_cells), target.resources(small_cells)
    found = {resource: (more[resource] - less[resource]) / n_pes for resource in target.counted}
    return found | {"dsp": sum(found.get(name, 0) for name in DSP)}


def synthesised(target: str, form: str, advance: Callable[[str], None]) -> tuple[dict, Path]:
    """Resources per PE of a format on a target, and the larger mesh's netlist; ``advance`` is told of each step."""
    chosen, (make, *arguments) = TARGETS[target][0], FORMATS[form]
    meshes: list[tuple[PEMesh, Mapping[str, int]]] = []
    folders = []
    for rows, cols in MESHES:
        name = f"{target}-{form}-{rows}x{cols}"
        advance(f"{name}: synthesis")
        mesh = PEMesh(partial(make, *arguments), rows, cols)
        with TemporaryDirectory() as scratch:
            text = Path(scratch) / "input.il"
            top, scope = Flat(mesh), PREFIX
            if chosen.harness:
                top, scope = PinHarness(top), f"{DESIGN}.{PREFIX}"
            text.write_text(to_rtlil(top, Vendor(chosen.family)))
            folders.append(synthesise(name, text, chosen.script, after=chosen.after))
        cells = count(folders[-1], scope).total()
        if unknown := chosen.uncounted(cells):
            raise ToolError(f"{name} has cells that are no resource of {chosen.title}: {', '.join(unknown)}")
        meshes.append((mesh, cells))
    row: dict = {"target": target, "format": form, **per_pe(chosen, meshes)}
    row["cells"] = [dict(sorted(found.items())) for _, found in meshes]
    return row, folders[0]


def placed(row: dict, netlist: Path, seeds: Iterable[int], advance: Callable[[str], None]) -> dict:
    """``row`` with frequencies by seed, where the target has a tool for it; seeds without a route are ``unrouted``."""
    name = f"{row['target']}-{row['format']}"
    if not TARGETS[row["target"]][1]:
        return row
    speeds: dict[int, float] = {}
    unrouted: dict[int, str] = {}
    for seed in seeds:
        advance(f"{name}: place and route, seed {seed}")
        try:
            speeds[seed] = fmax_mhz(ROUTER.run(name, netlist, PART, FREQ_MHZ, seed).place())
        except RouteError as error:
            unrouted[seed] = str(error)
    return row | {"fmax_mhz": speeds, "unrouted": unrouted}


def figures(rows: list[dict]) -> dict:
    """Figures by target and format."""
    found: dict = {}
    for row in rows:
        where = f"{row['target']}_{row['format']}"
        for resource in ("lut", "ff", "dsp"):
            found[f"{resource}_{where}"] = round(row[resource], 2)
        if row.get("fmax_mhz"):
            speeds = row["fmax_mhz"].values()
            found[f"fmax_median_mhz_{where}"] = median_mhz(speeds, len(row.get("unrouted", ())))
            found[f"fmax_least_mhz_{where}"], found[f"fmax_best_mhz_{where}"] = min(speeds), max(speeds)
    for form, (pe, *_) in FORMATS.items():
        found[f"latency_{form}"], found[f"psum_latency_{form}"] = pe.latency, pe.psum_latency
    return found


def _arguments(argv):
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help=f"of place and route, default {SEEDS}")
    parser.add_argument("--output", type=writable, default=FOLDER / "pe_formats.json")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``nox -s bench_pe_formats``."""
    arguments = _arguments(argv)
    with mistakes_in_a_line(), ended_by_signals():
        _bench(arguments)


def _bench(arguments):
    source = commit()
    origin = provenance(COMMAND, CONFIG, list(arguments.seeds), source, "PEs")
    origin["tools"] |= tools("ecp5", True)  # and a missing one is better known before the work than after
    work = [(name, form) for name, (_, _, forms) in TARGETS.items() for form in forms]
    steps = sum(len(MESHES) + TARGETS[name][1] * len(arguments.seeds) for name, _ in work)
    with bars() as progress:
        task = progress.add_task("PEs", total=steps, completed=-1)

        def advance(text):
            progress.update(task, description=text, advance=1)

        made = [synthesised(name, form, advance) for name, form in work]
        rows = [placed(row, netlist, arguments.seeds, advance) for row, netlist in made]
        advance("done")
    found = figures(rows)
    details = {"rows": rows, "meshes": MESHES, "part": PART, "freq_mhz": FREQ_MHZ}
    write_results(arguments.output, found, details, origin)
    for name, value in found.items():
        print(f"{name}: {value}")
    complain(rows)


if __name__ == "__main__":
    main()
