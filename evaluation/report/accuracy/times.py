"""Times of batches in PyTorch from ``results/wall_time.json``, in tables and a sentence."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...benches.wall_time import HOWS, SIZE, half_predicted
from ..figures import where
from ..reference import table

__all__ = ["times"]

OVERHEAD = 0.15
"""Largest cost that hooks may have, as a share of a GP batch's parts."""


def _worth(detail: Mapping, figures: Mapping[str, float], part: str, how: str) -> str:
    """Sentences on the time of a GP batch of a kind, and of training with it."""
    seconds = detail["seconds"]
    slower = [name for name in seconds if figures[f"gp{how}_over_bp_{name}_{part}"] > 1]
    longer = [name for name, each in seconds.items() if half_predicted(each, how) > 1]
    many = [name for name in seconds if figures[f"overhead{how}_{name}_{part}"] > OVERHEAD]
    above = f"above {100 * OVERHEAD:.0f} % with {', '.join(many)}" if many else f"{100 * OVERHEAD:.0f} % at most"
    return (
        f"`gp{how}` takes {_than(slower)} a BP batch of plain training; its overhead is {above}. "
        f"If it predicts half of all batches, training takes {_than(longer)} plain training with as many batches."
    )


def _than(longer: Sequence[str]) -> str:
    return f"longer, with {', '.join(longer)}, than" if longer else "less time than"


def _milliseconds(detail: Mapping) -> list[list[str]]:
    """By network and kind of batch, with interquartile ranges where they were taken."""
    rows = []
    for model, seconds in detail["seconds"].items():
        spread = {kind: f" ({100 * share:.0f} %)" for kind, share in detail.get("spread", {}).get(model, {}).items()}
        rows.append([model, *(f"{1000 * value:.1f}{spread.get(kind, '')}" for kind, value in seconds.items())])
    return rows


def _ratios(detail: Mapping, figures: Mapping[str, float], part: str, hows: Sequence[str]) -> list[list[str]]:
    """By network: GP batches over batches of plain training, and their overhead."""
    rows = []
    for model, seconds in detail["seconds"].items():
        row = [model]
        for how in hows:
            ratio, overhead = (figures[f"{name}_{model}_{part}"] for name in (f"gp{how}_over_bp", f"overhead{how}"))
            row += f"{ratio:.3f}", f"{half_predicted(seconds, how):.3f}", f"{100 * overhead:.1f} %"
        rows.append(row)
    return rows


def _part(written: Mapping, part: str, now: Mapping[str, str]) -> str:
    """The measurements of a part, in two tables and sentences."""
    origin, detail = written["provenance"][part], written["details"][part]["details"]
    size, kinds = detail.get("size", SIZE), next(iter(detail["seconds"].values()))
    hows = [how for how in HOWS if f"gp{how}" in kinds]
    head: list[str] = []
    for how in hows:
        head += f"`gp{how}` / `bp`", f"half `gp{how}`", f"overhead of `gp{how}`"
    spread = " (interquartile ranges)" if "spread" in detail else ""
    at_once = f"; at once: {detail['at_once']}" if "at_once" in detail else ""
    return f"""Milliseconds on {origin["processor"]} ({part}, threads: {detail["threads"]}),
images of {size} x {size}, {detail["batch"]} in a batch, medians of {detail["rounds"]}{spread}{at_once}.

{where(origin, now)}

{table(("network", *(f"`{kind}`" for kind in kinds)), _milliseconds(detail))}

{table(("network", *head), _ratios(detail, written["figures"], part, hows))}

{" ".join(_worth(detail, written["figures"], part, how) for how in hows)}"""


def times(folder: Path, now: Mapping[str, str]) -> str:
    """The section on ``wall_time.json``; "" if that isn't there; ages as of ``now``."""
    path = folder / "wall_time.json"
    if not path.exists():
        return ""
    written = json.loads(path.read_text())
    told = "\n\n".join(_part(written, part, now) for part in written["provenance"])
    return f"""## Times of batches in PyTorch

`bp` is a batch of plain training. `ada_bp` and `gp` are batches of `adagp.AdaGP` with true and with predicted
gradients. `forward`, `predictor` and `update` are the parts of a GP batch, each alone. *Overhead* is the time of `gp`
beyond these three, as a share of their sum; the aim is {100 * OVERHEAD:.0f} % at most. *Half* is a GP batch and a BP
batch of AdaGP's, over two of plain training. In BP batches the predictor learns, which takes time too.

The overhead includes reorganisation and, in tables of an earlier library, a step of the optimizer for each weight; now
there is one step a batch. These are many small pieces of work. They weigh little where layers are large, and much
where a batch takes a GPU some milliseconds. `gp_at_once` uses `weights_at_once`, which makes fewer and larger pieces;
its overhead is over the faster of both predictors. All batches have `metrics=False`; metrics take time in BP batches. A
table without `gp_at_once` is older than that option. Its `update` is a step with all parameters instead of the
predicted ones, which makes its overhead somewhat too small. In a table of `graphs` every kind, also of plain training,
is a CUDA graph (`adagp.algorithm.graphed`): the host sends a batch as one piece, so what is left is the GPU's own time.

In short: on a GPU the aim is met with CUDA graphs alone, and a training whose batches are half predicted takes about as
long as plain training there, since in BP batches the predictor learns.

{told}"""
