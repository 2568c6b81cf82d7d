"""Time of a GP batch at the host's stops, estimated: goes on with ``results/predictor_stops.json``.

At a stop the machine waits for all its units. ``main``: cycles in which the main array's queue has commands, by design
(see DESIGNS); ``predictor``: cycles from its last command before a stop to the predictor's; ``update``: from both to
the update unit's; ``rest``: what is left. They add up to ``cycles``. ``*_busy``: cycles of work.
Network, design and estimator are those of ``results/figures_16_to_21.json``.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...gen.provenance import SWITCHED, commit, provenance
from ...host.console import screen, writable
from ...host.devices.estimator import EstimatorDevice
from ...host.estimate.repeats import Known
from ...host.training.network import Network
from ...spec.phases import GP
from ...spec.presets import preset
from ...spec.registers import Status
from ..instruments.paper_batches import Case, design, network_of
from ..instruments.results import FOLDER, merge_results

__all__ = ["DESIGNS", "UNITS", "main", "stops"]

COMMAND = "python -m adagp.evaluation.benches.predictor_stops"
PRESET, SEED, BATCH = "paper", 1, 32
CASE = Case("transformer", "multi30k", "free")
UNITS = ("main", "predictor", "update")
"""Units in the order in which waits count: each only what those before it don't take."""
DESIGNS: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "low": ("low", False, {}),
    "max_at_once": ("max", False, {}),
    "max_at_once_8x8": ("max", False, {"predictor_rows": 8, "predictor_cols": 8}),
    "max": ("max", True, {}),
    "max_streamed": ("max", True, {"streamed_predictions": True}),
}
"""Variant, if it predicts a layer while later ones are computed, and fields, by the design's name."""


def stops(network: Network, known: Known | None = None) -> dict[str, int]:
    """Cycles of a GP batch of a network: the main array's, those that a stop waits for another unit, and of work."""
    device = EstimatorDevice(network.config, known)
    network.install(device)
    device.start(network.program, GP)
    found: Counter[str] = Counter({"stops": -1})  # the batch's end isn't the host's
    begun, waits = 0, True
    while waits:
        waits = bool(device.wait() & Status.HOST)
        last, at = device.last, begun
        for unit in UNITS:
            ended = max(at, last.get(unit, 0))
            found[unit] += ended - at
            at = ended
        found["rest"] += last["now"] - at
        found["stops"] += 1
        begun = last["now"]
        if waits:
            device.resume()
    busy = device.busy(GP)
    work = {"predictor_busy": round(busy.get("predictor's array", 0)), "update_busy": round(busy["update unit"])}
    return {**found, "cycles": begun, **work}


def figures(found: Mapping[str, int], name: str) -> dict[str, int]:
    """A design's figures by name."""
    return {f"{what}_{name}": count for what, count in found.items()}


def main(arguments: Iterable[str] | None = None) -> None:
    """Entry point of ``nox -s bench_predictor_stops``."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("--designs", nargs="+", choices=tuple(DESIGNS), default=tuple(DESIGNS), help="(default: all)")
    parser.add_argument("--json", type=writable, default=FOLDER / "predictor_stops.json", metavar="PATH")
    given = parser.parse_args(None if arguments is None else list(arguments))
    source, known = commit(), Known()
    for name in given.designs:
        variant, later, fields = DESIGNS[name]
        config = replace(design(PRESET, variant), **fields)
        found = stops(network_of(CASE, BATCH, config, PRESET, SEED, later=later), known)
        screen.print(f"{name}: {found}")
        details = {"model": CASE.model, "data": CASE.data, "batch": BATCH, "later": later, **fields}
        origin = provenance(COMMAND, preset(PRESET), SEED, source, SWITCHED)
        merge_results(Path(given.json), name, figures(found, name), details, origin)


if __name__ == "__main__":
    main()
