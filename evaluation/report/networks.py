"""The paper's networks on the accelerator, joined from results of several benches, as a section of a page."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ...spec.config import SWITCHES
from .reference import table

__all__ = ["networks"]

HEAD = """## Networks

The results of several benches, by network. Each design has all switches; what they add to a machine stands
[below](#area-of-the-switches). [Figures](figures.md) says which results are of earlier hardware."""
EQUAL = """A BP batch in the designs `baseline` and `max`, and a GP batch in the latter, of {images} images or
sentences, on the simulated RTL of preset `{preset}` and on the golden model (`python -m
adagp.evaluation.benches.models`). *Bits equal*: batches after which both have the same weights, momenta, exponents
and state of host islands. The parts on the device are of a BP batch. Cycles of so few images say no speed-up: MAX's
predictor learns as much from two as from many."""
KINDS = """Cycles of a BP batch at 32x32 by kind of command, on the simulated RTL of preset `paper` (`python -m
adagp.evaluation.benches.kinds`). *Waiting*: no command computes."""
DELTAS = """Accuracy after training on golden, in int16, and in PyTorch, in fp32 (`nox -s bench_numerics --
--graphs`). The networks are small siblings of the paper's. *Difference*: the mean over seeds in points, with its
standard error; two trainings in fp32 differ [as much](decisions/numerics-bench.md)."""
NAMED = 4
"""Operators of the host that a row names."""


def networks(folder: Path) -> str:
    """The tables of all that was measured of networks; "" if nothing was."""
    found = {name: json.loads(path.read_text()) for name in ("models", "kinds", "numerics_graphs")
             if (path := folder / f"{name}.json").exists()}  # fmt: skip
    makers = {"models": _models, "kinds": _kinds, "numerics_graphs": _deltas}
    sections = [makers[name](written) for name, written in found.items()]
    return "\n\n".join([HEAD, *sections]) if sections else ""


def _models(written: Mapping) -> str:
    rows, sizes, presets = [], set[int](), set[str]()
    for name, part in written["details"].items():
        design, figure = part["details"]["baseline"], _figures(written, name)
        if sorted(design["config"]["switches"]) != sorted(SWITCHES):
            raise ValueError(f"models.json: {name} was measured without all switches")
        sizes.add(design["batch"])
        presets.add(design["config"]["preset"])
        inputs = " and ".join("x".join(map(str, shape)) for shape in design["inputs"])
        equal = ", ".join(phase.upper() for phase in ("bp", "gp") if figure(f"hash_equal_{phase}")) or "none"
        shares = (_percent(figure(f"device_share_of_{what}")) for what in ("macs", "bytes"))
        cycles = (f"{figure(f'cycles_{phase}'):,}" for phase in ("bp", "gp"))
        commit = f"`{written['provenance'][name]['commit'][:12]}`"
        rows.append((name, inputs, equal, *shares, _host(design["host_operators"]), *cycles, commit))
    heads = ("network", "input", "bits equal", "MACs on the device", "bytes on the device", "operators on the host",
             "cycles of BP, baseline", "cycles of GP, MAX", "commit")  # fmt: skip
    head = EQUAL.format(images=" or ".join(map(str, sorted(sizes))), preset="`, `".join(sorted(presets)))
    return f"{head}\n\n{table(heads, sorted(rows))}"


def _host(operators: Mapping[str, int]) -> str:
    """The host's operators, those of which there are most by name."""
    counts = Counter(operators).most_common()
    more = [f"{sum(count for _, count in counts[NAMED:])} others"] if counts[NAMED:] else []
    return ", ".join([*(f"{count} {name}" for name, count in counts[:NAMED]), *more]) or "none"


def _kinds(written: Mapping) -> str:
    names = sorted(written["details"])
    figure = {name: _figures(written, name) for name in names}
    kinds = Counter[str]()
    for name in names:
        for key in written["details"][name]["figures"]:
            kind = key.removeprefix("share_").removesuffix(f"_{_suffix(name)}")
            kinds[kind] += figure[name](f"share_{kind}") if key.startswith("share_") else 0
    rows = [
        (kind.replace("_", " "), *(_percent(figure[name](f"share_{kind}", None)) for name in names))
        for kind, share in kinds.most_common() if share
    ]  # fmt: skip
    rows.append(("cycles", *(f"{figure[name]('cycles'):,}" for name in names)))
    rows.append(("images", *(written["details"][name]["details"]["batch"] for name in names)))
    rows.append(("commit", *(f"`{written['provenance'][name]['commit'][:12]}`" for name in names)))
    return f"{KINDS}\n\n{table(('kind', *names), rows)}"


def _deltas(written: Mapping) -> str:
    rows = []
    for title, part in written["details"].items():
        runs, figures = part["details"]["runs"]["int16"], written["figures"]
        model, data = (runs[0]["settings"][key].split()[0] for key in ("model", "data"))
        seeds = [run["settings"]["seed"] for run in runs]
        trained = (f"{figures[f'{title}_train_images']:,}", figures[f"{title}_epochs"])
        accuracies = (f"{100 * figures[f'{title}_{kind}_accuracy']:.2f} %" for kind in ("fp32", "int16"))
        delta = f"{figures[f'{title}_delta_points']:+.2f} ± {figures[f'{title}_delta_sem_points']:.2f}"
        commit = f"`{written['provenance'][title]['commit'][:12]}`"
        rows.append((model, data, f"{min(seeds)} to {max(seeds)}", *trained, *accuracies, delta, commit))
    heads = ("network", "data", "seeds", "images", "epochs", "fp32", "int16", "difference", "commit")
    return f"{DELTAS}\n\n{table(heads, sorted(rows))}"


def _suffix(name: str) -> str:
    return name.replace("-", "_")


def _figures(written: Mapping, name: str):
    """Figures of a network by the names that they have without its own; a second argument is given if there is none."""

    def figure(key, *missing):
        whole = f"{key}_{_suffix(name)}"
        return written["figures"].get(whole, *missing) if missing else written["figures"][whole]

    return figure


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"
