"""Three layers of VGG13 on arrays and memory ports of many sizes, simulated: ``results/scaling.json``.

Where does each become memory-bound, and does it where the roofline says? Of preset ``paper`` only array and port
change, and with them what they decide: banks (the scratchpads' and the accumulator's capacities stay), update lanes,
and the memory: as many chips of DDR3-800 side by side as move what the port can, so that reads and writes together
have exactly a beat per cycle, the roofline's slope. Clock and timing stay.

A layer has the same images on every array, so few (early 2, middle 2, late 8 instead of 32) that each has 75 M MACs
in each direction, under 5 M cycles on the smallest array; fewer images mean fewer MACs per byte of weights, so that
layers become memory-bound earlier than in larger batches (``--batch``).

A point is memory-bound by the roofline if its MACs per byte that crossed the port are fewer than peak MACs per peak
byte; and by the counters if the array waits for operands, or for results to leave, in more than a tenth of the cycles.
A finished point is kept in ``build/bench_scaling``: a bench that was stopped goes on after the last one. The smallest
array comes first.
"""

import argparse
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import product
from pathlib import Path

from ...gen.provenance import commit, provenance
from ...host.compiler.mapping import choose_mapping
from ...host.console import writable
from ...host.training.models import build_model
from ...host.training.network import Network
from ...spec.config import Config
from ...spec.operands import macs
from ...spec.presets import DRAM_PARTS, preset
from ..instruments.results import FOLDER, write_results
from ..instruments.roofline import judge, knees
from ..instruments.single_command import CLASSES, DIRECTIONS, IMAGE, MODEL, SEED, Bench, alone, bars, bound, measured

__all__ = ["ARRAYS", "LAYERS", "MEASURED", "PORTS", "Networks", "Point", "configuration", "figures", "main", "points"]

COMMAND = "python -m adagp.evaluation.benches.scaling"
WORK = Path("build/bench_scaling")
ARRAYS = ((4, 4), (8, 8), (12, 15), (16, 16), (32, 32))
PORTS = (64, 128, 256)
LAYERS = {"early": ("2.Conv2d", 2), "middle": ("12.Conv2d", 2), "late": ("22.Conv2d", 8)}
"""Name in VGG13 and images: 64 channels at 32x32, 256 at 8x8, 512 at 2x2."""
MEASURED = ("forward", "backward_weight")
CHIP = DRAM_PARTS["ddr3-800-x16"]
BUILD_SECONDS, BUILD_SECONDS_PE = 50, 0.5
POINT_SECONDS, CYCLE_SECONDS, CYCLE_SECONDS_PE = 3, 1.5e-6, 0.012e-6
"""Rough times on one core, for the estimate: of a simulator and each of its PEs, of a point and each of its cycles."""


def configuration(rows: int, cols: int, port: int) -> Config:
    """Preset ``paper`` with another array and port: the same capacities, and a memory as fast as the port.

    The epilogue's lanes are as large a share of the array's results as in the preset.
    """
    paper = preset("paper")
    chips = port // 8 * paper.clock_hz // CHIP.bandwidth_bytes
    part = replace(
        CHIP, name=f"ddr3-800-x{16 * chips}", bandwidth_bytes=chips * CHIP.bandwidth_bytes,
        capacity_bytes=chips * CHIP.capacity_bytes, burst_bytes=chips * CHIP.burst_bytes,
    )  # fmt: skip
    least = paper.a_elements // 64  # legal with any array's banks, so that the configuration can say how many
    shape = replace(
        paper, name=f"scaling-{rows}x{cols}-{port}", rows=rows, cols=cols, port_width=port, dram=part,
        epilogue_lanes=-(-paper.epilogue_lanes * max(rows, cols) // paper.result_lanes),
        update_lanes=max(1, paper.update_lanes * port // paper.port_width), a_depth=least, b_depth=least, c_depth=least,
    )  # fmt: skip
    words = paper.a_elements // cols  # as many psums as operands
    return replace(
        shape, a_depth=paper.a_elements // shape.banks, b_depth=paper.b_elements // shape.banks,
        c_depth=paper.c_elements // shape.banks, acc_depth=1 << (words.bit_length() - 1),
    )  # fmt: skip


def figures(rows: list[dict]) -> dict:
    """The figures of judged points; a knee is in PEs, 0 where no array is memory-bound."""
    sloped = [row["of_roofline"] for row in rows if row["memory_bound_by_roofline"]]
    flat = [row["of_roofline"] for row in rows if not row["memory_bound_by_roofline"]]
    found: dict = {"points": len(rows), "memory_bound_points": len(sloped)}
    for name, shares in (("memory_bound", sloped), ("compute_bound", flat)):
        if shares:
            found[f"{name}_of_roofline"] = round(sum(shares) / len(shares), 5)
            found[f"{name}_of_roofline_least"] = min(shares)
    found["verdicts_agree"] = round(sum(row["agree"] for row in rows) / len(rows), 5)
    for knee in knees(rows):
        name = f"{knee['layer']}_{knee['direction']}_{knee['port']}_knee"
        found[name], found[f"{name}_by_roofline"] = knee["counters"], knee["roofline"]
    found["knees_agree"] = all(knee["agree"] for knee in knees(rows))
    found["counters_reconcile"] = all(row["macs_equal"] and row["bytes_equal"] for row in rows)
    return found


# --- the measurements -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """One measurement: a layer in a direction on an accelerator."""

    config: Config
    layer: str
    direction: str
    images: int

    @property
    def name(self) -> str:
        """Such as 4x4-64-early-forward; with other than the usual images also their number."""
        usual = self.images == LAYERS[self.layer][1]
        text = f"{self.config.name.removeprefix('scaling-')}-{self.layer}-{self.direction}"
        return text if usual else f"{text}-{self.images}"


def points(arrays: Iterable[tuple[int, int]], ports: Iterable[int], batch: int | None = None) -> list[Point]:
    """All points of the given arrays and ports, small arrays first."""
    configs = sorted((configuration(*array, port) for array, port in product(arrays, ports)), key=_size)
    return [
        Point(config, layer, direction, batch or images)
        for config in configs
        for layer, (_, images) in LAYERS.items()
        for direction in MEASURED
    ]


def _size(config):
    return config.n_pes, config.port_width


class Networks:
    """VGG13 compiled for an accelerator and a number of images; the last one is kept."""

    def __init__(self):
        self.module = build_model(MODEL, IMAGE, CLASSES, SEED)
        self.made: dict[tuple[Config, int], Network] = {}

    def line(self, point):
        """The network, and its line that computes the point."""
        key = point.config, point.images
        if key not in self.made:
            self.made = {key: Network(self.module, IMAGE, point.images, point.config)}
        network, (name, _) = self.made[key], LAYERS[point.layer]
        (line,) = (
            line for line in network.program
            if line.name == name and DIRECTIONS.get(line.command.opcode) == point.direction
        )  # fmt: skip
        return network, line


def _estimate(chosen, networks):
    """Say for each accelerator how long it will take, about, on one core."""
    total = 0.0
    work: dict[tuple[str, str], int] = {}  # MACs, the same on every accelerator
    for config in dict.fromkeys(point.config for point in chosen):
        here = [point for point in chosen if point.config == config]
        for point in here:
            key = point.layer, point.direction
            work[key] = work.get(key) or macs(networks.line(point)[1].command)
        cycles = sum(work[point.layer, point.direction] for point in here) / config.n_pes
        build = BUILD_SECONDS + BUILD_SECONDS_PE * config.n_pes
        run = len(here) * POINT_SECONDS + cycles * (CYCLE_SECONDS + CYCLE_SECONDS_PE * config.n_pes)
        total += build + run
        print(f"{config.name:20} {len(here)} points, {cycles / 1e6:5.1f} M cycles: {build:5.0f} s + {run:4.0f} s")
    print(f"about {total / 60:.0f} minutes on one core if nothing is built or measured yet", flush=True)


def _array(text):
    found = re.fullmatch(r"(\d+)x(\d+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} isn't of the form RxC, such as 12x15")
    return int(found[1]), int(found[2])


def _arguments(argv):
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arrays", type=_array, nargs="+", default=ARRAYS, metavar="RxC", help="only these arrays")
    parser.add_argument("--ports", type=int, nargs="+", default=PORTS, choices=PORTS, help="only these ports")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="only points so called, as 16x16-*-late-*")
    parser.add_argument("--batch", type=int, help="images of every layer, instead of the usual ones")
    parser.add_argument("--estimate", action="store_true", help="only say how long it will take")
    parser.add_argument(
        "--output", type=writable, help="default, if all usual points are measured: results/scaling.json"
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``nox -s bench_scaling``."""
    arguments, source, networks = _arguments(argv), commit(), Networks()
    chosen = [
        point for point in points(arguments.arrays, arguments.ports, arguments.batch)
        if fnmatch(point.name, arguments.only)
    ]  # fmt: skip
    if not chosen:
        raise SystemExit(f"no point is called {arguments.only}; there is {points(ARRAYS, PORTS)[0].name}")
    _estimate(chosen, networks)
    if arguments.estimate:
        return
    rows: list[dict] = []
    bench: Bench | None = None
    with bars() as progress:
        task = progress.add_task("points", total=len(chosen))
        for point in chosen:
            config = point.config
            if bench is None or bench.folder.name != config.name:
                bench = Bench(WORK / config.name, config, progress)
            network, line = networks.line(point)
            counters = bench(point.name, network, networks.module, config, alone(line, network))
            row = measured(line, counters, config)
            rows.append({
                "point": point.name, **row, **judge(row, config), "layer": point.layer, "rows": config.rows,
                "cols": config.cols, "pes": config.n_pes, "port": config.port_width, "images": point.images,
                "bound": bound(line.command, config),
                "expected_cycles": round(choose_mapping(line.command, config).cycles),
            })  # fmt: skip
            progress.advance(task)
            progress.print(_text(rows[-1]), soft_wrap=True)
    found = figures(rows)
    output = arguments.output or (FOLDER / "scaling.json" if chosen == points(ARRAYS, PORTS) else None)
    if output is not None:
        configs = {point.config.name: point.config.to_dict() for point in chosen}
        origin = provenance(COMMAND, preset("paper"), SEED, source)
        origin["config"] = "paper, other arrays and ports"
        write_results(output, found, {"points": rows, "knees": knees(rows), "configurations": configs}, origin)
    for name, value in found.items():
        print(f"{name}: {value}")


def _text(row):
    verdicts = "/".join("memory" if row[f"memory_bound_by_{by}"] else "compute" for by in ("roofline", "counters"))
    return (
        f"{row['point']:32} {row['cycles']:9} cycles {row['useful_utilisation']:.3f} useful {row['utilisation']:.3f}"
        f" of peak  {row['intensity']:6.1f} MACs/byte"
        f" (ridge {row['ridge']:.1f})  {row['of_roofline']:.3f} of roofline"
        f"  waits {row['waiting']:.3f} + {row['blocked']:.3f}  {verdicts}"
    )


if __name__ == "__main__":
    main()
