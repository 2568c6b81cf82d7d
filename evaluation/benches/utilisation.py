"""PE utilisation of VGG13's layers and of a whole training step on the simulated RTL: ``results/utilisation.json``.

Every layer runs alone, a program of one command, and is held against its tile bound: the fewest cycles over the
two ways to map its GEMM, ceil(reduction / rows) * ceil(stationary / cols) * streamed, untiled.

The headline figures, by direction, are of all convolutions but the first, whose three input channels alone keep much of
the array from work: it is reported apart (``first_layer_*``; ``first_layer_raw``: in the forward direction), and so is
the classifier (``linear_*``). What ends in ``_least`` is of the worst layer, in ``_half_clock`` or ``_twice_clock``
with an accelerator of that clock before the same memory; what begins with ``step`` is of the whole training step, with
the first layer, pools, updates and all.

MACs with the zeros of padding count, for the array does them: ``padding_share`` of the MACs of the headline's forward
layers (in the other directions as many) are such. Each run fails in which the cycles that the array worked or
waited don't add up to all of them; ``counters_reconcile``: MACs are those of the shapes, bytes those that the memory
saw, in every run. A finished measurement is kept in ``build/bench_utilisation``: a bench that was stopped goes on after
the last one.
"""

import argparse
from dataclasses import replace
from itertools import product
from pathlib import Path

from torch import nn

from ...gen.provenance import commit, provenance
from ...host.console import writable
from ...host.program import Line
from ...host.training.models import build_model
from ...host.training.network import Network
from ...spec.commands import Opcode
from ...spec.config import Config
from ...spec.operands import macs
from ...spec.presets import preset
from ..instruments.results import FOLDER, write_results
from ..instruments.single_command import (
    CLASSES,
    DIRECTIONS,
    IMAGE,
    MODEL,
    SEED,
    Bench,
    agreement,
    alone,
    bars,
    bound,
    measured,
    real_macs,
)

__all__ = ["figures", "main", "weighted"]

COMMAND = "python -m adagp.evaluation.benches.utilisation"
WORK = Path("build/bench_utilisation")
PRESET, BATCH = "paper", 32
GEMM = 1440
"""Rows, columns and reduction of the large plain GEMM."""
PARTS = {"": (False, True), "first_layer_": (True, True), "linear_": (False, False)}
"""Layers that are reported together, by what their figures begin with: whether they are the first, whether
convolutions."""
CLOCKS = {"": 1, "_half_clock": 0.5, "_twice_clock": 2}
"""By what figures end with: how fast the clock is while the memory stays as it is."""


def _row(line: Line, counters: dict, config: Config, clock: str = "") -> dict:
    command, least = line.command, bound(line.command, config)
    return {
        **measured(line, counters, config), "first": command.layer == 0, "conv": command.r * command.s > 1,
        "clock": clock, "real_macs": real_macs(command) if command.opcode == Opcode.FORWARD else 0, "bound": least,
        "of_bound": round(least / counters["cycles"], 5),
    }  # fmt: skip


def weighted(rows: list[dict], config: Config) -> tuple[float, float]:
    """Share of the tile bound and raw utilisation of several commands, as means weighted by MACs (harmonic)."""
    total = sum(row["macs"] for row in rows)
    of_bound = total / sum(row["macs"] * row["cycles"] / row["bound"] for row in rows)
    return round(of_bound, 5), round(total / sum(row["cycles"] for row in rows) / config.n_pes, 5)


def _shares(rows: list[dict], config: Config, name: str, clock: str) -> dict[str, float]:
    """Share of the bound and raw utilisation of some layers, and of the worst of them."""
    found = dict(zip((f"{name}_of_bound{clock}", f"{name}_raw{clock}"), weighted(rows, config), strict=True))
    if len(rows) > 1:
        found |= {f"{name}_{share}_least{clock}": min(row[share] for row in rows) for share in ("of_bound", "raw")}
    return found


def figures(rows: list[dict], gemm: dict, steps: dict[str, dict], config: Config) -> dict:
    """The figures of finished measurements; ``steps`` by clock, as in CLOCKS."""
    found: dict = {}
    for clock, direction in product(CLOCKS, DIRECTIONS.values()):
        for part, (first, conv) in PARTS.items():
            wanted = (clock, direction, first, conv)
            chosen = [
                row for row in rows if tuple(row[key] for key in ("clock", "direction", "first", "conv")) == wanted
            ]
            if chosen:  # no gradient of the images is computed
                found |= _shares(chosen, config, part + direction, clock)
    headline = [row for row in rows if row["real_macs"] and row["conv"] and not row["first"]]
    real, done = (sum(row[name] for row in headline) for name in ("real_macs", "macs"))
    found["padding_share"] = round(1 - real / done, 5)
    found["gemm_of_bound"] = gemm["of_bound"]
    apart = sum(row["cycles"] for row in rows if not row["clock"])
    found["step_overhead"] = round(steps[""]["cycles"] / apart - 1, 5)
    for clock, counters in steps.items():
        name = f"step{clock}"
        found[f"{name}_cycles"] = counters["cycles"]
        found[f"{name}_raw"] = round(counters["macs"] / counters["cycles"] / config.n_pes, 5)
    found["first_layer_raw"] = found["first_layer_forward_raw"]
    found["counters_reconcile"] = all(
        row["macs_equal"] and row["bytes_equal"] for row in (*rows, gemm, *steps.values())
    )
    return found


def main() -> None:
    """Entry point of ``nox -s bench_utilisation``."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=writable, default=FOLDER / "utilisation.json", help="result file")
    arguments = parser.parse_args()
    config, source = preset(PRESET), commit()
    module = build_model(MODEL, IMAGE, CLASSES, SEED)
    network = Network(module, IMAGE, BATCH, config)
    lines = [line for line in network.program if line.command.opcode in DIRECTIONS]
    plain = nn.Sequential(nn.Linear(GEMM, GEMM))
    large = Network(plain, (GEMM,), GEMM, config)
    with bars() as progress:
        task = progress.add_task("measurements", total=1 + len(CLOCKS) * (len(lines) + 1))
        bench, rows = Bench(WORK, config, progress), []

        def show(found):
            progress.advance(task)
            shares = f"{found['of_bound']:.4f} of bound  {found['raw']:.4f} raw"
            progress.print(f"{found['layer']:12} {found['direction'] + found['clock']:27} {shares}")
            return found

        line = next(line for line in large.program if line.command.opcode == Opcode.FORWARD)
        gemm = show(_row(line, bench("gemm", large, plain, config, alone(line, large)), config))
        steps, expected = {}, sum(macs(line.command) for line in lines)
        for clock, factor in CLOCKS.items():
            clocked = replace(config, clock_hz=int(config.clock_hz * factor))
            for line in lines:
                name = f"{line.command.layer}-{DIRECTIONS[line.command.opcode]}{clock}"
                counters = bench(name, network, module, clocked, alone(line, network))
                rows.append(show(_row(line, counters, config, clock)))
            counters = bench(f"step{clock}", network, module, clocked, network.program)
            steps[clock] = {**counters, **agreement(counters, expected)}
            progress.advance(task)
    found = figures(rows, gemm, steps, config)
    details = {"gemm": gemm, "layers": rows, "steps": {f"step{clock}": step for clock, step in steps.items()}}
    write_results(arguments.output, found, details, provenance(COMMAND, config, SEED, source))
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
