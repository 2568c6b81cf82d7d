"""The bound by which tiles are chosen, against ZigZag's: writes ``results/zigzag.json``. Needs the extra ``zigzag``.

ZigZag (KU Leuven, MIT licence) searches mappings of a layer on an array and counts their cycles. Layers of the paper's
networks, at batch 8 and in three directions, are mapped to preset ``paper`` as the compiler does it. ZigZag gets the
same products as matrix products, worked out here from the layer alone: those of a strided layer's backward passes by
residue class. Its *ideal temporal cycles* are those of the loops that are left once rows and columns are filled. With
the operand in the array that our command keeps they must equal our bound (``tile_bound``) of a command in one tile.
In the tiles that the compiler chose the bound may be more, as the last tile of a dimension may fill less of the array.

ZigZag makes an unrolled size even, n / m of m steps, and then takes the ceiling of n over that. In floating point this
is m + 1 for some n: 75 / (75 / 7) is more than 7. Rows with such a size (``rounded_up``) are left out of the others.

``equal_*``: commands whose bound in one tile has ZigZag's cycles; ``tile_loss_*``: by what part tiles add to it. Two
minutes. Exits with 1 if a bound isn't ZigZag's, or tiles add more than uneven ones explain.
"""

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import product
from math import ceil
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ...gen.provenance import commit, provenance
from ...host.compiler.mapping import choose_mapping, tile_bound
from ...host.console import writable
from ...spec.commands import Command, Opcode
from ...spec.config import Config
from ...spec.presets import preset
from ..instruments.results import FOLDER, write_results
from ..instruments.single_command import bars

__all__ = ["DIRECTIONS", "LAYERS", "PRESET", "Gemm", "Layer", "bounds", "figures", "gemms", "main", "mistakes"]

COMMAND = "python -m adagp.evaluation.benches.zigzag"
PRESET, BATCH, SEED = "paper", 8, 0
WITHIN = 0.02
"""Part that tiles may add, the last ones of dimensions being smaller."""
DIRECTIONS = (Opcode.FORWARD, Opcode.BACKWARD_DATA, Opcode.BACKWARD_WEIGHT)


class Layer(NamedTuple):
    """A convolution of ``q`` filters of ``r`` x ``s`` over ``c`` channels of ``side`` x ``side`` pixels."""

    c: int
    q: int
    side: int
    r: int
    s: int
    stride: int = 1
    pad_y: int = 0
    pad_x: int = 0
    bias: int = 0

    @property
    def out(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        sizes = ((self.r, self.pad_y), (self.s, self.pad_x))
        high, wide = ((self.side + 2 * pad - taps) // self.stride + 1 for taps, pad in sizes)
        return high, wide


LAYERS = {
    "vgg13, third convolution at 32 pixels": Layer(64, 128, 16, 3, 3, 1, 1, 1, bias=1),
    "vgg13, last convolution at 32 pixels": Layer(512, 512, 2, 3, 3, 1, 1, 1, bias=1),
    "vgg19, classifier.3": Layer(4096, 4096, 1, 1, 1, bias=1),
    "resnet50, conv1": Layer(3, 64, 224, 7, 7, 2, 3, 3),
    "resnet50, layer2.0.conv2": Layer(128, 128, 56, 3, 3, 2, 1, 1),
    "resnet50, layer3.0.conv1": Layer(512, 256, 28, 1, 1),
    "resnet152, layer4.0.downsample": Layer(1024, 2048, 14, 1, 1, 2),
    "densenet121, denseblock2.conv2": Layer(128, 32, 28, 3, 3, 1, 1, 1),
    "densenet161, transition1": Layer(384, 192, 56, 1, 1),
    "inception-v3, Mixed_6b.branch7x7_2": Layer(128, 128, 17, 1, 7, 1, 0, 3),
    "inception-v4, Reduction-A": Layer(384, 384, 35, 3, 3, 2),
    "mobilenet-v2, features.3, expansion": Layer(24, 144, 56, 1, 1),
    "mobilenet-v2, features.18": Layer(320, 1280, 7, 1, 1),
    "yolo-v3, a scale's last convolution": Layer(256, 75, 52, 1, 1, bias=1),
}
"""Layers by network and place."""


class Gemm(NamedTuple):
    """A matrix product of a x k by k x b."""

    k: int
    a: int
    b: int


def command_of(layer: Layer, opcode: Opcode) -> Command:
    """A layer's command, without its tile."""
    high, wide = layer.out
    names = ("c", "q", "r", "s", "stride", "pad_y", "pad_x", "bias")
    sizes = {"n": BATCH, "h": layer.side, "w": layer.side, "oh": high, "ow": wide}
    return Command(opcode, sizes | {name: getattr(layer, name) for name in names})


def gemms(layer: Layer, opcode: Opcode) -> Iterator[Gemm]:
    """A direction's matrix products; backward by the taps that meet the same pixels of X."""
    high, wide = layer.out
    pixels = BATCH * high * wide
    if opcode == Opcode.FORWARD:
        yield Gemm(layer.c * layer.r * layer.s, pixels, layer.q)
        return
    axes = ((layer.r, layer.pad_y), (layer.s, layer.pad_x))
    lines, columns = (
        [
            (len(range(first, taps, layer.stride)), len(range((first - pad) % layer.stride, layer.side, layer.stride)))
            for first in range(layer.stride)
        ]
        for taps, pad in axes
    )  # fmt: skip
    bias = layer.bias
    for (rows, met_y), (cols, met_x) in product(lines, columns):
        if opcode == Opcode.BACKWARD_DATA and rows * cols:
            yield Gemm(layer.q * rows * cols, BATCH * met_y * met_x, layer.c)
        elif opcode == Opcode.BACKWARD_WEIGHT and rows * cols + bias:
            yield Gemm(pixels, layer.c * rows * cols + bias, layer.q)
            bias = 0


def _accelerator(config: Config) -> dict:
    """The array with a register for the operand that stays, before a memory that never limits it."""

    def memory(size: int, operands: list[str], ports: list[tuple[str, list[str]]], served: list[str], width: int):
        initials = {"read": "r", "write": "w", "read_write": "rw"}
        return {
            "size": size, "r_cost": 1, "w_cost": 1, "area": 0, "latency": 1, "operands": operands,
            "served_dimensions": served, "ports": [
                {"name": f"{initials[kind]}_port_{place}", "type": kind, "bandwidth_min": 16, "bandwidth_max": width,
                 "allocation": allocation}
                for place, (kind, allocation) in enumerate(ports, 1)
            ],
        }  # fmt: skip

    results = ["O, tl", "O, fl", "O, th", "O, fh"]
    whole = [("read_write", each) for each in (["I1, tl"], ["I2, tl"], results)]
    return {
        "name": f"array_{config.rows}x{config.cols}",
        "memories": {
            "register": memory(16, ["I2"], [("read", ["I2, tl"]), ("write", ["I2, fh"])], [], 16),
            "memory": memory(1 << 50, ["I1", "I2", "O"], whole, ["D1", "D2"], 1 << 20),
        },
        "operational_array": {
            "unit_energy": 1, "unit_area": 1, "dimensions": ["D1", "D2"], "sizes": [config.rows, config.cols],
        },
    }  # fmt: skip


def ideal_cycles(gemm: Gemm, config: Config, swap: int) -> int:
    """ZigZag's ideal temporal cycles of a matrix product whose operand B stays in the array, with ``swap`` A."""
    from zigzag.api import get_hardware_performance_zigzag  # the extra

    workload = [{
        "id": 0, "name": "layer", "operator_type": "Gemm", "equation": "O[b][k]+=I[b][c]*W[c][k]",
        "loop_dims": ["B", "K", "C"], "loop_sizes": [gemm.a, gemm.b, gemm.k],
        "operand_precision": {"I": 16, "W": 16, "O": 48, "O_final": 16},
    }]  # fmt: skip
    mapping = [{
        "name": "default", "spatial_mapping_hint": {"D1": ["C"], "D2": ["B" if swap else "K"]},
        "memory_operand_links": {"O": "O", "W": "I2", "I": "I1"},
    }]  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, what in (("array.yaml", _accelerator(config)), ("mapping.yaml", mapping)):
            (folder / file).write_text(json.dumps(what))  # which is YAML too
        *_, found = get_hardware_performance_zigzag(
            workload, str(folder / "array.yaml"), str(folder / "mapping.yaml"), dump_folder=str(folder / "out"),
            lpf_limit=4, loma_show_progress_bar=False,
        )  # fmt: skip
    (((evaluation, _),),) = (each[1] for each in found)
    return int(evaluation.ideal_temporal_cycle)


def rounded_up(gemm: Gemm, config: Config, swap: int) -> bool:
    """True if ZigZag takes a step too many along the array's rows or columns, by its floating point."""
    sizes = ((gemm.k, config.rows), (gemm.a if swap else gemm.b, config.cols))
    return any(ceil(size / (size / steps)) > steps for size, steps in ((n, -(-n // lanes)) for n, lanes in sizes))


def bounds(layer: Layer, opcode: Opcode, tile: dict[str, int], config: Config) -> dict[str, int]:
    """The bounds of a layer's command: in one tile, and in the given one."""
    command = command_of(layer, opcode)
    whole = {"nb": command.n, "yb": max(command.h, command.oh), "cb": command.c, "qb": command.q}
    return {
        name: tile_bound(Command(opcode, command.fields | tile | extents), config)
        for name, extents in (("one_tile", whole), ("tiled", {}))
    }


def row(name: str, opcode: Opcode, config: Config) -> dict:
    """A command's bounds and ZigZag's cycles."""
    layer, began = LAYERS[name], time.perf_counter()
    tile = choose_mapping(command_of(layer, opcode), config, name).fields()
    products = list(gemms(layer, opcode))
    theirs = sum(ideal_cycles(each, config, tile["swap"]) for each in products)
    return {
        "layer": name, "direction": opcode.name, "tile": tile, **bounds(layer, opcode, tile, config), "zigzag": theirs,
        "rounded_up": any(rounded_up(each, config, tile["swap"]) for each in products),
        "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip


def mistakes(rows: Iterable[dict]) -> list[str]:
    """A line for each bound that isn't ZigZag's, and for each command to which tiles add too much."""
    found = []
    for each in rows:
        what, one, tiled = f"{each['layer']}, {each['direction'].lower()}", each["one_tile"], each["tiled"]
        if one != each["zigzag"] and not each["rounded_up"]:
            found.append(f"{what}: {one:,} cycles in one tile, {each['zigzag']:,} by ZigZag")
        if not one <= tiled <= (1 + WITHIN) * one:
            found.append(f"{what}: {tiled:,} cycles in tiles, {one:,} in one")
    return found


def figures(rows: list[dict]) -> dict[str, float | int]:
    """Numbers of commands by direction and how many have ZigZag's cycles, and what tiles add."""
    found: dict[str, float | int] = {}
    fair = [each for each in rows if not each["rounded_up"]]
    for opcode in DIRECTIONS:
        own = [each["one_tile"] == each["zigzag"] for each in fair if each["direction"] == opcode.name]
        found |= {f"commands_{opcode.name.lower()}": len(own), f"equal_{opcode.name.lower()}": sum(own)}
    losses = [each["tiled"] / each["one_tile"] - 1 for each in rows]
    found |= {"tile_loss_median": round(median(losses), 5), "tile_loss_worst": round(max(losses), 5)}
    return {**found, "rounded_up": len(rows) - len(fair)}


def main(arguments: Iterable[str] | None = None) -> None:
    """Entry point of ``nox -s bench_zigzag``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--layers", nargs="+", choices=tuple(LAYERS), default=tuple(LAYERS), metavar="NAME",
                        help=f"of {'; '.join(LAYERS)} (default: all)")  # fmt: skip
    parser.add_argument("--json", type=writable, default=FOLDER / "zigzag.json", metavar="PATH")
    given = parser.parse_args(None if arguments is None else list(arguments))
    if find_spec("zigzag") is None:
        parser.error("ZigZag isn't installed: .venv/bin/pip install -c constraints.txt -e '.[zigzag]'")
    logging.disable(logging.WARNING)  # ZigZag tells each of its steps
    source, config, rows = commit(), preset(PRESET), list[dict]()
    with bars() as progress:
        for name, opcode in progress.track(list(product(given.layers, DIRECTIONS)), description="commands"):
            rows.append(row(name, opcode, config))
            last = rows[-1]
            progress.console.print(
                f"{name}, {opcode.name.lower()}: {last['one_tile']:,} cycles, {last['zigzag']:,} by ZigZag"
                f"{' (rounded up)' * last['rounded_up']}, {last['tiled']:,} in tiles"
            )
    write_results(Path(given.json), figures(rows), rows, provenance(COMMAND, None, SEED, source))
    if wrong := mistakes(rows):
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
