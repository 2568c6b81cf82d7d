"""PE utilisation of VGG13's layers and of a whole training step on the simulated RTL: ``results/utilisation.json``.

Every layer runs alone, a program of one command, and is held against its tile bound: the fewest cycles over the
two ways to map its GEMM, ceil(reduction / rows) * ceil(stationary / cols) * streamed, untiled.

The headline figures, by direction, are of all convolutions but the first, whose three input channels alone keep much of
the array from work: it is reported apart (``first_layer_*``), and so is
the classifier (``linear_*``). What ends in ``_least`` is of the worst layer, in ``_half_clock`` or ``_twice_clock``
with an accelerator of that clock before the same memory; what begins with ``step`` is of the whole training step, with
the first layer, pools, updates and all.

``*_useful_utilisation`` counts products without those of padding's zeros, ``*_utilisation`` all that the array makes:
``padding_share`` of the MACs of the headline's forward layers are of zeros. Each run fails in which the cycles that the
array worked or waited don't add up to all of them; ``counters_reconcile``: MACs are those of the shapes, bytes those
that the memory saw, in every run. A finished measurement is kept in ``build/bench_utilisation``: a bench that was
stopped goes on after the last one. ``--figures-of`` makes the figures of measurements that were written before.
"""

import argparse
import json
from dataclasses import replace
from itertools import product
from pathlib import Path

from torch import nn

from ...gen.provenance import commit, provenance
from ...host.compiler.useful_macs import useful_batch
from ...host.console import writable
from ...host.program import Line
from ...host.training.models import build_model
from ...host.training.network import Network
from ...spec.commands import Opcode
from ...spec.config import Config
from ...spec.operands import macs
from ...spec.phases import WARMUP
from ...spec.presets import preset
from ...spec.registers import COUNTERS
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
SHARES = ("useful_utilisation", "utilisation", "of_bound")
"""Shares of a command: of cycles times PEs, with a useful product and with any; of cycles, its tile bound."""
UNITS = ("bytes", "beats")
"""Counts of the DRAM model."""
CLOCKS = {"": 1, "_half_clock": 0.5, "_twice_clock": 2}
"""By what figures end with: how fast the clock is while the memory stays as it is."""


def _row(line: Line, counters: dict, config: Config, clock: str = "") -> dict:
    command, least = line.command, bound(line.command, config)
    return {
        **measured(line, counters, config), "first": command.layer == 0, "conv": command.r * command.s > 1,
        "clock": clock, "bound": least, "of_bound": round(least / counters["cycles"], 5),
    }  # fmt: skip


def weighted(rows: list[dict], config: Config) -> dict[str, float]:
    """The SHARES of several commands, as means weighted by MACs (harmonic)."""
    useful, total, cycles = (sum(row[name] for row in rows) for name in ("useful_macs", "macs", "cycles"))
    of_bound = total / sum(row["macs"] * row["cycles"] / row["bound"] for row in rows)
    found = (useful / cycles / config.n_pes, total / cycles / config.n_pes, of_bound)
    return {share: round(value, 5) for share, value in zip(SHARES, found, strict=True)}


def _shares(rows: list[dict], config: Config, name: str, clock: str) -> dict[str, float]:
    """The SHARES of some layers, and of the worst of them."""
    found = {f"{name}_{share}{clock}": value for share, value in weighted(rows, config).items()}
    if len(rows) > 1:
        found |= {f"{name}_{share}_least{clock}": min(row[share] for row in rows) for share in SHARES}
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
    headline = [row for row in rows if row["direction"] == "forward" and row["conv"] and not row["first"]]
    useful, done = (sum(row[name] for row in headline) for name in ("useful_macs", "macs"))
    found["padding_share"] = round(1 - useful / done, 5)
    found["gemm_of_bound"] = gemm["of_bound"]
    apart = sum(row["cycles"] for row in rows if not row["clock"])
    found["step_overhead"] = round(steps[""]["cycles"] / apart - 1, 5)
    for clock, counters in steps.items():
        name = f"step{clock}"
        found[f"{name}_cycles"] = counters["cycles"]
        pes = counters["cycles"] * config.n_pes
        found[f"{name}_useful_utilisation"] = round(counters["useful_macs"] / pes, 5)
        found[f"{name}_utilisation"] = round(counters["macs"] / pes, 5)
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
    parser.add_argument(
        "--figures-of", type=Path, metavar="FILE", help="measure nothing: take a result file's counters"
    )
    arguments = parser.parse_args()
    config, source = preset(PRESET), commit()
    module = build_model(MODEL, IMAGE, CLASSES, SEED)
    network = Network(module, IMAGE, BATCH, config)
    lines = [line for line in network.program if line.command.opcode in DIRECTIONS]
    plain = nn.Sequential(nn.Linear(GEMM, GEMM))
    large = Network(plain, (GEMM,), GEMM, config)
    line = next(line for line in large.program if line.command.opcode == Opcode.FORWARD)
    useful, expected = useful_batch(network.compiled, WARMUP), sum(macs(line.command) for line in lines)
    if arguments.figures_of is not None:
        kept = json.loads(arguments.figures_of.read_text())
        _write(arguments.output, *_kept(kept["details"], lines, line, useful, config), config, kept["provenance"])
        return
    with bars() as progress:
        task = progress.add_task("measurements", total=1 + len(CLOCKS) * (len(lines) + 1))
        bench, rows = Bench(WORK, config, progress), []

        def show(found):
            progress.advance(task)
            shares = "  ".join(f"{found[share]:.4f} {share}" for share in SHARES)
            progress.print(f"{found['layer']:12} {found['direction'] + found['clock']:27} {shares}")
            return found

        gemm = show(_row(line, bench("gemm", large, plain, config, alone(line, large)), config))
        steps = {}
        for clock, factor in CLOCKS.items():
            clocked = replace(config, clock_hz=int(config.clock_hz * factor))
            for line in lines:
                name = f"{line.command.layer}-{DIRECTIONS[line.command.opcode]}{clock}"
                counters = bench(name, network, module, clocked, alone(line, network))
                rows.append(show(_row(line, counters, config, clock)))
            counters = bench(f"step{clock}", network, module, clocked, network.program)
            steps[clock] = {**counters, "useful_macs": useful, **agreement(counters, expected)}
            progress.advance(task)
    _write(arguments.output, rows, gemm, steps, config, provenance(COMMAND, config, SEED, source))


def _kept(
    details: dict, lines: list[Line], large: Line, useful: int, config: Config
) -> tuple[list[dict], dict, dict[str, dict]]:  # fmt: skip
    """Rows, the large GEMM and steps by clock of an earlier measurement, made anew from its counters."""
    names = {*(name for name, _ in COUNTERS), *(f"dram_{way}_{unit}" for way in ("read", "write") for unit in UNITS)}

    def counters(row: dict) -> dict:
        return {name: value for name, value in row.items() if name in names}

    known = {(line.name, DIRECTIONS[line.command.opcode]): line for line in lines}
    rows = [
        _row(known[row["layer"], row["direction"]], counters(row), config, row["clock"]) for row in details["layers"]
    ]
    agreeing = ("macs_equal", "bytes_equal")
    steps = {
        name.removeprefix("step"): {**counters(step), "useful_macs": useful, **{each: step[each] for each in agreeing}}
        for name, step in details["steps"].items()
    }
    return rows, _row(large, counters(details["gemm"]), config), steps


def _write(output: Path, rows: list[dict], gemm: dict, steps: dict[str, dict], config: Config, origin: dict) -> None:
    found = figures(rows, gemm, steps, config)
    details = {"gemm": gemm, "layers": rows, "steps": {f"step{clock}": step for clock, step in steps.items()}}
    write_results(output, found, details, origin)
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
