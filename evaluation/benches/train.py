"""The default run, ``adagp train``, on the simulated accelerator and on the golden model: ``results/train.json``.

The simulated runs are processes that can't import the golden model; the first one also builds the simulator.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from ...gen.generated import generated
from ...gen.provenance import commit, provenance
from ...host.compiler.lowering import Kind
from ...host.console import writable
from ...host.devices.device import Device
from ...host.devices.simulated import SimDevice
from ...host.training.data import load_dataset
from ...host.training.models import build_model
from ...host.training.network import Network
from ...host.training.settings import TrainSettings
from ...host.training.trainer import Trainer
from ...spec.config import Config
from ...spec.presets import preset
from ..instruments.results import FOLDER, write_results

__all__ = ["COMMAND_LINE", "FAULT", "WITHOUT_GOLDEN", "main", "plant_fault", "training_macs"]

COMMAND = "python -m adagp.evaluation.benches.train"
FEW_IMAGES = 128
"""Images that the runs with and without a planted fault train on."""
FAULT_CYCLES = 20_000_000
"""Cycles after which a command of the faulty accelerator counts as hung."""

WITHOUT_GOLDEN = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name == "adagp.golden" or name.startswith("adagp.golden."):
            raise ImportError(f"{name} is out of bounds")

sys.meta_path.insert(0, Blocker())
"""
COMMAND_LINE = "from adagp.cli.main import main; main()"

FAULT = re.compile(
    r"(^module \S*epilogue\.lane0\.scale_x (?:(?!^endmodule).)*? = \$signed\([^;]*\)) \+ (?=\$signed\(\{ 1'h0, )",
    re.M | re.S,
)
"""In the Verilog: the addition by which the first output lane rounds up, of a number and a bit."""


def plant_fault(source: str) -> str:
    """The accelerator's Verilog with one operator changed: where its first output lane should round up, it rounds
    down. Raises ValueError where it isn't found."""
    faulty, count = FAULT.subn(r"\1 - ", source)
    if count != 1:
        raise ValueError(f"the operator to change must be there once, not {count} times")
    return faulty


def training_macs(network: Network, batches: int) -> int:
    """MACs of a run, from layer shapes alone; the first batch, which calibrates, is computed twice.

    Zeros of the padding count. In the gradient of the input, a pixel meets the taps that a stride leaves to it; one of
    a map that the kernel covers, its own.
    """

    def met(size, kernel, padding, stride):
        return sum((place + padding - tap) % stride == 0 for place in range(size) for tap in range(kernel))

    total = 0
    for place, layer in enumerate(layer for layer in network.layers if layer.kind is Kind.GEMM):
        taps, pixels = layer.r * layer.s, network.batch * layer.oh * layer.ow
        total += pixels * layer.q * taps * layer.c  # forward
        total += pixels * layer.q * (taps * layer.c + layer.bias)  # gradient of weights and bias
        if place:
            rows = met(layer.h, layer.r, layer.pad_y, layer.stride)
            columns = met(layer.w, layer.s, layer.pad_x, layer.stride)
            covered = (layer.h, layer.w, pixels) == (layer.r, layer.s, network.batch) and not layer.pad_y | layer.pad_x
            pairs = taps if covered else rows * columns
            total += network.batch * pairs * layer.c * layer.q  # gradient of the input
    return total * (batches + 1)


def run_command(device: str, cache: Path) -> tuple[dict, float]:
    """``adagp train --device DEVICE`` as a process: its summary, and its seconds from start to end."""
    print(f"adagp train --device {device}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        code = COMMAND_LINE if device == "golden" else WITHOUT_GOLDEN + COMMAND_LINE
        summary = Path(folder) / "summary.json"
        options = ["train", "--device", device, "--output", f"{folder}/run", "--json", str(summary)]
        began = time.perf_counter()
        environment = {**os.environ, "ADAGP_CACHE": str(cache)}
        subprocess.run([sys.executable, "-c", code, *options], check=True, env=environment)
        seconds = time.perf_counter() - began
        return json.loads(summary.read_text()), round(seconds, 1)


def run_few(settings: TrainSettings, device: Device) -> str:
    """The weights' hash after few batches; closes the device."""
    dataset = load_dataset(settings.data)
    model = build_model(settings.model, dataset.shape, dataset.n_classes, settings.seed)
    network = Network(model, dataset.shape, settings.batch, device.config)
    try:
        network.load_state(device, model.state_dict())
        Trainer(settings, network, device, dataset).run()
        return network.weights_hash(device)
    finally:
        device.close()


def fault_is_seen(settings: TrainSettings, config: Config) -> bool:
    """True if training ends with other weights after one operator in the Verilog was changed."""
    few = replace(settings, epochs=1, train_images=FEW_IMAGES, test_images=settings.batch)
    print(f"{FEW_IMAGES} images with and without a planted fault", flush=True)
    source = generated(config)
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder) / "top.v"
        top.write_text(plant_fault(source.read_text()))
        faulty = run_few(few, SimDevice(config, top=top, limit=FAULT_CYCLES))
    return faulty != run_few(few, SimDevice(config))


def main() -> None:
    """Entry point of ``nox -s bench_train``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--output", type=writable, default=FOLDER / "train.json")
    arguments = parser.parse_args()
    settings, source = TrainSettings(), commit()
    config = preset(settings.preset)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        cold, cold_seconds = run_command("sim", cache)
        warm, warm_seconds = run_command("sim", cache)
        golden, golden_seconds = run_command("golden", cache)
        os.environ["ADAGP_CACHE"] = folder
        seen = fault_is_seen(settings, config)
    dataset = load_dataset(settings.data)
    model = build_model(settings.model, dataset.shape, dataset.n_classes, settings.seed)
    network = Network(model, dataset.shape, settings.batch, config)
    macs = training_macs(network, settings.epochs * (len(dataset.train_y_N) // settings.batch))
    figures = {
        "sim_test_accuracy": cold["test_accuracy"],
        "hash_equal": cold["weights_hash"] == warm["weights_hash"] == golden["weights_hash"],
        "macs_equal": cold["macs"] == macs, "fault_changes_hash": seen,
        "command_seconds_cold": cold_seconds, "command_seconds_warm": warm_seconds,
        "golden_seconds": golden_seconds, "training_cycles": warm["cycles"],
        "cycles_per_second": round(warm["cycles"] / warm["device_seconds"]),
    }  # fmt: skip
    details = {"macs": macs, "cores": os.cpu_count(), "cold": cold, "warm": warm, "golden": golden}
    write_results(arguments.output, figures, details, provenance(COMMAND, config, settings.seed, source))
    for name, value in figures.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
