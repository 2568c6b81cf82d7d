"""PE utilisation of VGG13's layers and of a whole training step on the simulated RTL: ``results/utilisation.json``.

Every convolution runs alone, a program of one command, and is held against its tile bound: the fewest cycles over the
two ways to map its GEMM, ceil(reduction / rows) * ceil(stationary / cols) * streamed, untiled. A finished measurement
is kept in ``build/bench_utilisation``: a bench that was stopped goes on after the last one.
"""

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import nn

from ..golden.operands import macs
from ..sim.build import library, verilog
from ..spec.commands import Command, Opcode, Phase
from ..spec.config import Config
from ..spec.presets import preset
from .assembler import Line, Program
from .models import build_model
from .network import Network
from .results import FOLDER, commit, provenance, write_results
from .run_folder import write_atomically
from .sim_device import SimDevice
from .tiling import Shape

__all__ = ["DIRECTIONS", "bound", "figures", "main", "weighted"]

COMMAND = "python -m adagp.host.bench_utilisation"
WORK = Path("build/bench_utilisation")
PRESET, MODEL, IMAGE, CLASSES, BATCH = "paper", "vgg13", (3, 32, 32), 10, 32
SEED = 1
DIRECTIONS = {
    Opcode.FORWARD: "forward", Opcode.BACKWARD_DATA: "backward_data", Opcode.BACKWARD_WEIGHT: "backward_weight",
}  # fmt: skip
GEMM = 1440
"""Rows, columns and reduction of the large plain GEMM."""
CLOCKS = {"half_clock": 0.5, "twice_clock": 2.0}
WARMUP = 0


def bound(command: Command, config: Config) -> int:
    """Fewest array cycles of a GEMM command, whatever the tiles: one streamed vector a cycle, no pauses."""
    shape = Shape.of(command)
    whole = (shape.n, shape.out_h, shape.ic, shape.oc)
    return min(
        -(-reduction // config.rows) * -(-stationary // config.cols) * streamed
        for reduction, streamed, stationary in (shape.gemm(*whole, swap) for swap in (0, 1))
    )


def _alone(line: Line, network: Network) -> Program:
    """A program of one command, which waits for nothing."""
    free = Command(line.command.opcode, {**line.command.fields, "wait_main": 0, "wait_update": 0})
    end = Line(Command(Opcode.END, {"phase_mask": int(Phase.ALL)}))
    return Program([network.program.lines[0], Line(free, line.name), end], network.program.address)


def _open(network: Network, module: nn.Sequential, config: Config) -> SimDevice:
    """A simulated accelerator with random weights, activations and gradients in its memory."""
    device = SimDevice(config, top=verilog(preset(config.name)))  # the clock isn't in the Verilog
    network.load_state(device, module.state_dict())
    rng = np.random.default_rng(SEED)
    network.write_input(device, rng.random((network.batch, *network.input_shape)))
    for tensor in network.tensors.values():
        if tensor.name.endswith((".output", ".gradient", ".weight_gradient")):
            device.write(tensor.address, rng.integers(-999, 1000, tensor.shape).astype(tensor.dtype))
    return device


def _measure(device: SimDevice, program: Program, progress: Progress) -> dict:
    """Run a program once: its counters, and what the DRAM model saw meanwhile."""
    task = progress.add_task("cycles", total=None)
    base = device.simulation.cycles
    device.progress = lambda cycles: progress.update(task, completed=(device.simulation.cycles - base) // 1000)
    device.write(program.address, program.words())
    device.reset_counters()
    before = device.simulation.dram_totals
    device.start(program, WARMUP)
    device.wait()
    if any(line.command.opcode == Opcode.HOST for line in program):
        device.resume()
        device.wait()
    after, counters = device.simulation.dram_totals, device.counters(WARMUP)
    progress.remove_task(task)
    dram = {f"dram_{name}": getattr(after, name) - getattr(before, name) for name in ("read_bytes", "write_bytes")}
    return {**counters, **dram}


class Bench:
    """Measurements by name, done once for each state of the hardware."""

    def __init__(self, progress: Progress):
        self.progress = progress
        self.simulator = library(preset(PRESET)).name  # names all that it's made of, the DRAM model too

    def __call__(self, name: str, network: Network, module, config: Config, program: Program) -> dict:
        path = WORK / f"{name}.json"
        known = {
            "simulator": self.simulator, "program": program.digest, "clock_hz": config.clock_hz,
            "part": asdict(config.dram),
        }  # fmt: skip
        if path.exists() and (record := json.loads(path.read_text()))["of"] == known:
            return record["counters"]
        device = _open(network, module, config)
        try:
            counters = _measure(device, program, self.progress)
        finally:
            device.close()
        write_atomically(path, (json.dumps({"of": known, "counters": counters}, indent=1) + "\n").encode())
        return counters


def _row(line: Line, counters: dict, config: Config) -> dict:
    command, cycles = line.command, counters["cycles"]
    expected = macs(command)
    return {
        "layer": line.name, "direction": DIRECTIONS[command.opcode], "first": command.layer == 0,
        "conv": command.r * command.s > 1, "macs": expected, "bound": bound(command, config),
        "of_bound": round(bound(command, config) / cycles, 5), "raw": round(expected / cycles / config.n_pes, 5),
        "macs_equal": counters["macs"] == expected,
        "bytes_equal": all(counters[name] == counters[f"dram_{name}"] for name in ("read_bytes", "write_bytes")),
        **counters,
    }  # fmt: skip


def weighted(rows: list[dict], config: Config) -> tuple[float, float]:
    """Share of the tile bound and raw utilisation of several commands, as means weighted by MACs (harmonic)."""
    total = sum(row["macs"] for row in rows)
    of_bound = total / sum(row["macs"] * row["cycles"] / row["bound"] for row in rows)
    return round(of_bound, 5), round(total / sum(row["cycles"] for row in rows) / config.n_pes, 5)


def figures(rows: list[dict], gemm: dict, steps: dict[str, dict], config: Config) -> dict:
    """The figures of finished measurements."""
    found = {}
    for name in DIRECTIONS.values():
        chosen = [row for row in rows if row["direction"] == name and row["conv"] and not row["first"]]
        found[f"{name}_of_bound"], found[f"{name}_raw"] = weighted(chosen, config)
    found["gemm_of_bound"] = gemm["of_bound"]
    for row in rows:
        if row["first"] and row["direction"] == "forward":
            found["first_layer_raw"] = row["raw"]
        elif row["first"]:
            found[f"first_layer_{row['direction']}_raw"] = row["raw"]
    alone = sum(row["cycles"] for row in rows)
    found["step_overhead"] = round(steps["step"]["cycles"] / alone - 1, 5)
    for name, counters in steps.items():
        found[f"{name}_cycles"] = counters["cycles"]
        found[f"{name}_raw"] = round(counters["macs"] / counters["cycles"] / config.n_pes, 5)
    found["counters_reconcile"] = all(row["macs_equal"] and row["bytes_equal"] for row in (*rows, gemm))
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
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("measurements", total=len(lines) + 2 + len(CLOCKS))
        bench, rows = Bench(progress), []

        def show(row):
            progress.advance(task)
            progress.print(
                f"{row['layer']:12} {row['direction']:16} {row['of_bound']:.4f} of bound  {row['raw']:.4f} raw"
            )
            return row

        line = next(line for line in large.program if line.command.opcode == Opcode.FORWARD)
        gemm = show(_row(line, bench("gemm", large, plain, config, _alone(line, large)), config))
        for line in lines:
            name = f"{line.command.layer}-{DIRECTIONS[line.command.opcode]}"
            counters = bench(name, network, module, config, _alone(line, network))
            rows.append(show(_row(line, counters, config)))
        steps = {"step": bench("step", network, module, config, network.program)}
        progress.advance(task)
        for name, factor in CLOCKS.items():
            other = replace(config, clock_hz=int(config.clock_hz * factor))
            steps[f"step_{name}"] = bench(f"step-{name}", network, module, other, network.program)
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
