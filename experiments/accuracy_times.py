"""What a batch takes in PyTorch, as ``results/wall_time.json`` has it, in a table and a sentence."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..gen.tables import table
from .bench_wall_time import SIZE

__all__ = ["times"]

OVERHEAD = 0.15
"""What hooks may cost at most, as a share of what a GP batch consists of."""


def _slower(found: Mapping[str, float], part: str, networks: Iterable[str]) -> str:
    """Whether a GP batch is worth its time, in a sentence."""
    slower = [name for name in networks if found[f"gp_over_bp_{name}_{part}"] > 1]
    many = [name for name in networks if found[f"overhead_{name}_{part}"] > OVERHEAD]
    time = f"GP batches take longer than BP batches with {', '.join(slower)}" if slower else (
        "GP batches take less time than BP batches"
    )  # fmt: skip
    return f"{time}; the overhead is above {100 * OVERHEAD:.0f} % with {', '.join(many) or 'none'}."


def times(folder: Path) -> str:
    """The section on ``wall_time.json``; "" if that isn't there."""
    path = folder / "wall_time.json"
    if not path.exists():
        return ""
    written = json.loads(path.read_text())
    parts = []
    for part, origin in written["provenance"].items():
        detail = written["details"][part]["details"]
        size = detail.get("size", SIZE)
        rows = []
        for model, seconds in detail["seconds"].items():
            f = {name: written["figures"][f"{name}_{model}_{part}"] for name in ("gp_over_bp", "overhead")}
            rows.append((model, *(f"{1000 * value:.1f}" for value in seconds.values()), f"{f['gp_over_bp']:.3f}",
                         f"{100 * f['overhead']:.1f} %"))  # fmt: skip
        kinds = next(iter(detail["seconds"].values()))
        parts.append(f"""Milliseconds on {origin["processor"]} ({part}, threads: {detail["threads"]}),
batches of {detail["batch"]} images of {size} x {size}, medians of {detail["rounds"]}.
By `{origin["command"]}` at commit `{origin["commit"][:12]}`; torch {origin["tools"]["torch"]}.

{table(("network", *(f"`{kind}`" for kind in kinds), "gp / bp", "overhead"), rows)}

{_slower(written["figures"], part, detail["seconds"])}""")
    told = "\n\n".join(parts)
    return f"""## What a batch takes in PyTorch

`bp`: plain training. `ada_bp`, `gp`: batches of `adagp.AdaGP` with true and with predicted gradients. `forward`,
`predictor`, `update`: what a GP batch consists of, each alone. *Overhead*: what `gp` takes beside these three,
as a share of their sum; the aim is {100 * OVERHEAD:.0f} % at most.
A step of the optimizer for each weight, and reorganisation, are in it: many small pieces of work, which weigh little
where layers are large, and much where a batch takes a GPU some milliseconds.

{told}"""
