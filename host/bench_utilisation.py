"""PE utilisation of VGG13's layers and of a whole training step on the simulated RTL: ``results/utilisation.json``.

Every layer runs alone, a program of one command, and is held against its tile bound: the fewest cycles over the
two ways to map its GEMM, ceil(reduction / rows) * ceil(stationary / cols) * streamed, untiled.

The headline figures, by direction, are of all convolutions but the first, whose three input channels alone keep much of
the array from work: it is reported apart (``first_layer_*``; ``first_layer_raw``: in the forward direction), and so is
the classifier (``linear_*``). What ends in ``_least`` is of the worst layer, what begins with ``step`` of the whole
training step, with the first layer, pools, updates and all. Each run fails in which the cycles that the array worked or
waited don't add up to all of them; ``counters_reconcile``: MACs are those of the shapes, bytes those that the memory
saw, in every run. A finished measurement is kept in ``build/bench_utilisation``: a bench that was stopped goes on after
the last one.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from torch import nn

from ..golden.operands import macs
from ..spec.commands import Opcode
from ..spec.config import Config
from ..spec.presets import preset
from .assembler import Line
from .measurement import CLASSES, DIRECTIONS, IMAGE, MODEL, SEED, Bench, agreement, alone, bars, bound, measured
from .models import build_model
from .network import Network
from .results import FOLDER, commit, provenance, write_results

__all__ = ["figures", "main", "weighted"]

COMMAND = "python -m adagp.host.bench_utilisation"
WORK = Path("build/bench_utilisation")
PRESET, BATCH = "paper", 32
GEMM = 1440
"""Rows, columns and reduction of the large plain GEMM."""
PARTS = {"": (False, True), "first_layer_": (True, True), "linear_": (False, False)}
"""Layers that are reported together, by what their figures begin with: whether they are the first, whether
convolutions."""
CLOCKS = {"step": 1, "step_half_clock": 0.5, "step_twice_clock": 2}
"""Whole steps: how fast the clock is while the memory stays as it is."""


def _row(line: Line, counters: dict, config: Config) -> dict:
    command, least = line.command, bound(line.command, config)
    return {
        **measured(line, counters, config), "first": command.layer == 0, "conv": command.r * command.s > 1,
        "bound": least, "of_bound": round(least / counters["cycles"], 5),
    }  # fmt: skip


def weighted(rows: list[dict], config: Config) -> tuple[float, float]:
    """Share of the tile bound and raw utilisation of several commands, as means weighted by MACs (harmonic)."""
    total = sum(row["macs"] for row in rows)
    of_bound = total / sum(row["macs"] * row["cycles"] / row["bound"] for row in rows)
    return round(of_bound, 5), round(total / sum(row["cycles"] for row in rows) / config.n_pes, 5)


def figures(rows: list[dict], gemm: dict, steps: dict[str, dict], config: Config) -> dict:
    """The figures of finished measurements."""
    found: dict = {}
    for direction in DIRECTIONS.values():
        for part, (first, conv) in PARTS.items():
            chosen = [row for row in rows if (row["direction"], row["first"], row["conv"]) == (direction, first, conv)]
            if not chosen:  # no gradient of the images is computed
                continue
            name = part + direction
            found[f"{name}_of_bound"], found[f"{name}_raw"] = weighted(chosen, config)
            if len(chosen) > 1:
                found |= {f"{name}_{share}_least": min(row[share] for row in chosen) for share in ("of_bound", "raw")}
    found["gemm_of_bound"] = gemm["of_bound"]
    apart = sum(row["cycles"] for row in rows)
    found["step_overhead"] = round(steps["step"]["cycles"] / apart - 1, 5)
    for name, counters in steps.items():
        found[f"{name}_cycles"] = counters["cycles"]
        found[f"{name}_raw"] = round(counters["macs"] / counters["cycles"] / config.n_pes, 5)
    found["first_layer_raw"] = found["first_layer_forward_raw"]
    found["counters_reconcile"] = all(
        row["macs_equal"] and row["bytes_equal"] for row in (*rows, gemm, *steps.values())
    )
    return found


def main() -> None:
    """Entry point of ``nox -s bench_utilisation``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--output", type=Path, default=FOLDER / "utilisation.json")
    arguments = parser.parse_args()
    config, source = preset(PRESET), commit()
    module = build_model(MODEL, IMAGE, CLASSES, SEED)
    network = Network(module, IMAGE, BATCH, config)
    lines = [line for line in network.program if line.command.opcode in DIRECTIONS]
    plain = nn.Sequential(nn.Linear(GEMM, GEMM))
    large = Network(plain, (GEMM,), GEMM, config)
    with bars() as progress:
        task = progress.add_task("measurements", total=len(lines) + 1 + len(CLOCKS))
        bench, rows = Bench(WORK, config, progress), []

        def show(found):
            progress.advance(task)
            shares = f"{found['of_bound']:.4f} of bound  {found['raw']:.4f} raw"
            progress.print(f"{found['layer']:12} {found['direction']:16} {shares}")
            return found

        line = next(line for line in large.program if line.command.opcode == Opcode.FORWARD)
        gemm = show(_row(line, bench("gemm", large, plain, config, alone(line, large)), config))
        for line in lines:
            name = f"{line.command.layer}-{DIRECTIONS[line.command.opcode]}"
            counters = bench(name, network, module, config, alone(line, network))
            rows.append(show(_row(line, counters, config)))
        steps, expected = {}, sum(macs(line.command) for line in lines)
        for name, factor in CLOCKS.items():
            clocked = replace(config, clock_hz=int(config.clock_hz * factor))
            counters = bench(name, network, module, clocked, network.program)
            steps[name] = {**counters, **agreement(counters, expected)}
            progress.advance(task)
    found = figures(rows, gemm, steps, config)
    write_results(
        arguments.output, found, {"gemm": gemm, "layers": rows, "steps": steps},
        provenance(COMMAND, config, SEED, source),
    )  # fmt: skip
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
