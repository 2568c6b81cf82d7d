"""Speed of the two devices: ``results/simulation.json``. Run it with no other load.

The simulator of the ``paper`` preset is built from nothing, started again from the cache, and trains batches of the
default network, several times: its speed is the median, the best and the least are beside it. ``build_seconds`` are for
making the simulator of the Verilog, which takes ``generate_seconds``. The golden model trains an epoch of digits.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

import torch

from ...gen.generated import generated
from ...gen.provenance import commit, provenance
from ...host.console import writable
from ...host.training.session import Session, open_session
from ...host.training.settings import TrainSettings
from ...host.training.trainer import Trainer
from ...sim.build import library
from ...spec.presets import preset
from ..instruments.results import FOLDER, write_results

__all__ = ["main"]

COMMAND = "python -m adagp.evaluation.benches.simulation"
PRESET = "paper"
IMAGES = 1024
"""Images that the simulation trains on."""
RUNS = 5
START = (
    "from adagp.host.devices.simulated import SimDevice; from adagp.spec.presets import preset; SimDevice(preset({!r}))"
)


def _seconds(work) -> float:
    began = time.perf_counter()
    work()
    return round(time.perf_counter() - began, 2)


def _train(session: Session, settings: TrainSettings) -> dict:
    progress = Trainer(settings, session.network, session.device, session.dataset).run()
    return {"device_seconds": progress.device_seconds, **progress.counters}


def main() -> None:
    """Entry point of ``nox -s bench_simulation``."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=writable, default=FOLDER / "simulation.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config, source = preset(PRESET), commit()
    settings = TrainSettings(preset=PRESET, epochs=1, train_images=IMAGES, test_images=TrainSettings().batch)
    found = {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ADAGP_CACHE"] = cache
        found["generate_seconds"] = _seconds(lambda: generated(config))
        found["build_seconds"] = _seconds(lambda: library(config))
        command = [sys.executable, "-c", START.format(PRESET)]
        found["warm_start_seconds"] = _seconds(lambda: subprocess.run(command, check=True))
        runs = []
        for _ in range(RUNS):
            with open_session(settings, "sim") as session:
                runs.append(_train(session, settings))
    speeds = [round(run["cycles"] / run["device_seconds"]) for run in runs]
    found["cycles_per_second"] = round(statistics.median(speeds))
    found["cycles_per_second_best"], found["cycles_per_second_least"] = max(speeds), min(speeds)
    digits = replace(TrainSettings(preset=PRESET), epochs=1)
    with open_session(digits, "golden") as session:
        trainer = Trainer(digits, session.network, session.device, session.dataset)
        found["golden_epoch_seconds"] = _seconds(trainer.run)
    details = {"simulated": runs[0], "cycles_per_second": speeds, "images": IMAGES, "cores": os.cpu_count()}
    write_results(arguments.output, found, details, provenance(COMMAND, config, settings.seed, source))
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
