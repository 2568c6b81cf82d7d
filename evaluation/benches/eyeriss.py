"""The row-stationary model against Eyeriss' silicon: writes ``results/eyeriss.json``.

Convolutions of AlexNet and VGG16 on the chip's 12 x 14 PEs. What the chip does is as its authors measured it, at
200 MHz (Chen, Krishna, Emer, Sze: "Eyeriss: An Energy-Efficient Reconfigurable Accelerator for Deep Convolutional
Neural Networks", IEEE JSSC 52(1), 2017, tables III, V and VI): PEs that its mapping uses, milliseconds of processing,
and with what DRAM adds. The model has neither the chip's scratchpads nor its buffer and network,
so it is expected to be faster.

``utilisation_*``: products over PEs and cycles, of the model, of processing and of all the time; ``pes_*``: PEs at
work. Seconds, as nothing is simulated.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

from ...gen.provenance import commit, provenance
from ...host.console import writable
from ...host.estimate.row_stationary import work_of
from ...spec.commands import Command, Opcode
from ..instruments.results import FOLDER, write_results

__all__ = ["BATCHES", "CLOCK_HZ", "LAYERS", "ROWS", "Layer", "figures", "main", "row"]

COMMAND = "python -m adagp.evaluation.benches.eyeriss"
ROWS, COLS, CLOCK_HZ = 12, 14, 200e6
BATCHES = {"alexnet": 4, "vgg16": 3}
"""Images in a batch."""


class Layer(NamedTuple):
    """A convolution, and what was measured: PEs in use, milliseconds of a batch's processing and of all of it.

    ``c``: channels that a filter reads, where they are in groups; ``out``: rows and columns of the result.
    """

    c: int
    q: int
    out: int
    kernel: int
    stride: int
    pes: int
    processing_ms: float
    total_ms: float


LAYERS = {
    "alexnet": {
        "CONV1": Layer(3, 96, 55, 11, 4, 154, 16.5, 20.9), "CONV2": Layer(48, 256, 27, 5, 1, 135, 39.2, 41.9),
        "CONV3": Layer(256, 384, 13, 3, 1, 156, 21.8, 23.6), "CONV4": Layer(192, 384, 13, 3, 1, 156, 16.0, 18.4),
        "CONV5": Layer(192, 256, 13, 3, 1, 156, 10.0, 10.5),
    },
    "vgg16": {
        "CONV1-1": Layer(3, 64, 224, 3, 1, 156, 38.0, 76.2), "CONV1-2": Layer(64, 64, 224, 3, 1, 156, 810.6, 910.3),
        "CONV2-1": Layer(64, 128, 112, 3, 1, 156, 405.3, 470.3),
        "CONV2-2": Layer(128, 128, 112, 3, 1, 156, 810.8, 894.3),
        "CONV3-1": Layer(128, 256, 56, 3, 1, 156, 204.0, 241.1),
        "CONV3-2": Layer(256, 256, 56, 3, 1, 156, 408.1, 460.9),
        "CONV3-3": Layer(256, 256, 56, 3, 1, 156, 408.1, 457.7),
        "CONV4-1": Layer(256, 512, 28, 3, 1, 168, 105.1, 135.8),
        "CONV4-2": Layer(512, 512, 28, 3, 1, 168, 210.0, 254.8),
        "CONV4-3": Layer(512, 512, 28, 3, 1, 168, 210.0, 246.3),
        "CONV5-1": Layer(512, 512, 14, 3, 1, 168, 48.3, 54.3), "CONV5-2": Layer(512, 512, 14, 3, 1, 168, 48.5, 53.7),
        "CONV5-3": Layer(512, 512, 14, 3, 1, 168, 48.5, 53.7),
    },
}  # fmt: skip


def row(network: str, name: str) -> dict[str, str | int | float]:
    """A layer's products, cycles by the model, PEs at work in them, and what was measured."""
    layer = LAYERS[network][name]
    side = (layer.out - 1) * layer.stride + layer.kernel
    sizes = {"n": BATCHES[network], "c": layer.c, "q": layer.q, "h": side, "w": side, "oh": layer.out, "ow": layer.out}
    command = Command(Opcode.FORWARD, sizes | {"r": layer.kernel, "s": layer.kernel, "stride": layer.stride})
    work = work_of(command, ROWS, COLS)
    assert work is not None
    return {
        "network": network, "layer": name, "macs": work.macs, "cycles": work.cycles,
        "pes": round(work.macs / work.cycles, 2), "ms": round(1e3 * work.cycles / CLOCK_HZ, 3),
        "measured_pes": layer.pes, "processing_ms": layer.processing_ms, "total_ms": layer.total_ms,
    }  # fmt: skip


def figures(rows: list[dict]) -> dict[str, float]:
    """Utilisation of each network's convolutions, and mean PEs at work while they are processed."""
    found = {}
    for network in BATCHES:
        own = [each for each in rows if each["network"] == network]
        macs = sum(each["macs"] for each in own)
        times = {"model": "ms", "processing": "processing_ms", "total": "total_ms"}
        for name, key in times.items():
            cycles = sum(each[key] for each in own) * 1e-3 * CLOCK_HZ
            found[f"utilisation_{network}_{name}"] = round(macs / cycles / (ROWS * COLS), 4)
        found[f"pes_{network}_model"] = round(macs / sum(each["cycles"] for each in own), 1)
    return found


def main() -> None:
    """Entry point of ``nox -s bench_eyeriss``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=writable, default=FOLDER / "eyeriss.json", metavar="PATH")
    path = Path(parser.parse_args().json)
    rows = [row(network, name) for network, layers in LAYERS.items() for name in layers]
    found = figures(rows)
    write_results(path, found, rows, provenance(COMMAND, None, 0, commit()))
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
