"""What a batch takes in PyTorch, as ``results/wall_time.json`` has it, in a table and a sentence."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..gen.tables import table
from .bench_wall_time import AT_ONCE, SIZE

__all__ = ["times"]

OVERHEAD = 0.15
"""What hooks may cost at most, as a share of what a GP batch consists of."""


def _slower(found: Mapping[str, float], part: str, networks: Iterable[str], how: str) -> str:
    """Whether a GP batch of a kind is worth its time, in a sentence."""
    slower = [name for name in networks if found[f"gp{how}_over_bp_{name}_{part}"] > 1]
    many = [name for name in networks if found[f"overhead{how}_{name}_{part}"] > OVERHEAD]
    than = f"longer than BP batches with {', '.join(slower)}" if slower else "less time than BP batches"
    return f"`gp{how}` takes {than}; its overhead is above {100 * OVERHEAD:.0f} % with {', '.join(many) or 'none'}."


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
        kinds = next(iter(detail["seconds"].values()))
        hows = [how for how in ("", "_at_once") if f"gp{how}" in kinds]
        rows = []
        for model, seconds in detail["seconds"].items():
            row = [model, *(f"{1000 * value:.1f}" for value in seconds.values())]
            for how in hows:
                ratio, overhead = (written["figures"][f"{name}_{model}_{part}"] for name in
                                   (f"gp{how}_over_bp", f"overhead{how}"))  # fmt: skip
                row += f"{ratio:.3f}", f"{100 * overhead:.1f} %"
            rows.append(row)
        head = [title for how in hows for title in (f"`gp{how}` / `bp`", "overhead")]
        told_of = " ".join(_slower(written["figures"], part, detail["seconds"], how) for how in hows)
        parts.append(f"""Milliseconds on {origin["processor"]} ({part}, threads: {detail["threads"]}),
images of {size} x {size}, {detail["batch"]} in a batch, medians of {detail["rounds"]}.
By `{origin["command"]}` at commit `{origin["commit"][:12]}`; torch {origin["tools"]["torch"]}.

{table(("network", *(f"`{kind}`" for kind in kinds), *head), rows)}

{told_of}""")
    told = "\n\n".join(parts)
    return f"""## What a batch takes in PyTorch

`bp`: plain training. `ada_bp`, `gp`: batches of `adagp.AdaGP` with true and with predicted gradients. `forward`,
`predictor`, `update`: what a GP batch consists of, each alone. *Overhead*: what `gp` takes beside these three,
as a share of their sum; the aim is {100 * OVERHEAD:.0f} % at most.
A step of the optimizer for each weight, and reorganisation, are in it: many small pieces of work, which weigh little
where layers are large, and much where a batch takes a GPU some milliseconds. `gp_at_once`: `layers_at_once={AT_ONCE}`,
with fewer and larger pieces; its overhead is over a predictor that is given as many layers at once. What was measured
before there was that is without it.

{told}"""
