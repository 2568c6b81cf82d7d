"""``docs/accuracy.md``: the worth of predicted gradients, and the times of batches in PyTorch; with its plot.

``python -m adagp.evaluation.report.accuracy.page [PATH]`` writes the file from ``results/`` and draws the plot.
``--check`` only says whether the committed copy is up to date and its figures are current.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from ....algorithm import paper_numbers as paper
from ....experiments.comparison import BEYOND, TUNING_SEED
from ....experiments.methods.methods import METHODS
from ....gen.provenance import NOW
from ...checkout import require_checkout
from .. import figures
from ..reference import table
from .findings import LEVEL, Findings, Gap, close
from .methods import legend
from .plot import draw
from .predictions import learning, predictions
from .table1 import here, trained
from .times import times
from .verdicts import in_a_sentence, pairs, verdicts

__all__ = ["PATH", "PLOT", "document", "main"]

MODULE = "adagp.evaluation.report.accuracy.page"
PATH = Path(__file__).parents[3] / "docs" / "accuracy.md"
"""The committed copy."""
PLOT = PATH.parent / "images" / "accuracy.png"
RESULTS = figures.RESULTS / "accuracy.json"
"""Results that the page is made of, with ``table1.json`` and ``wall_time.json`` if they exist."""
HEAD = """# Accuracy

Written by `python -m {module}` from `results/` and from Table 1 of the paper (`algorithm/paper_numbers.py`);
edit nothing here.

{as_of}

A GP batch has no whole backward pass: ADA-GP predicts its gradients from each layer's output. Three comparisons show
the worth of that. "As accurate as backpropagation" isn't one of them: near saturation, a shorter training is that too.

- *Plain training of no higher cost*: the same network for fewer epochs, with its learning rates on the same curve in
  less time. The line joins the best of these budgets. A method is worth something if it is above that line.
- *Controls*: the same schedule with another gradient in place of the predictions. It is the predictions with random
  signs, no gradient, the last true one, a mean of the true ones, or synthetic gradients of outputs (DNI); `skip` leaves
  the batch out.
- *Networks near saturation and far from it*: the paper trains for 90 epochs, where much can be left out.

The line is built from the same test images, so luck favours plain training. A straight line between two budgets is a
little below the accuracy that plain training would reach there, which favours the methods.

Some methods are close to plain training, and may beat the line for that reason alone:

- `half` has fewer examples in GP batches, so smaller batches may be the cause of a gain. `half-1:0`, plain training
  with half batches after its warm-up, shows it.
- `skip` is plain training with fewer batches.
- `zero` is `skip` with one more step of momentum, like plain training with another momentum and learning rate. Plain
  training has one momentum here.
- `coarse` has images half as wide and high in GP batches. `coarse-1:0` has them in all batches after the warm-up.
  cifar16-steep is plain training with such images alone, for as many MACs as `coarse` takes in cifar32-steep. It is
  tested with small images too, so training isn't all that it lacks.

**Learning rates.** Every method has the rate with which it did best on validation images. All methods try the same few
rates with the same seeds. They try further rates as long as the first or last is the best, {beyond} at most. The two
best may have been tried with more seeds. (close) marks a rate if another rate's validation accuracy was less than a
standard error below. No interval includes the chance that another rate would have been chosen.

**Intervals.** Test accuracies come from other seeds. Differences are taken seed by seed, with {sure:.0%} confidence
intervals by Student's t. A *clear* difference is one at a level of {level:.0%} for a whole family together, by Holm's
procedure; this is stricter than an interval without 0. A family is a question's regimes in *In short*, and a
regime's methods in the tables after it. Intervals are over seeds (first weights, order of images) with one split of
the data; they say nothing about another test set. A run that diverged counts as 0. A run with less than half of plain
training's median accuracy went astray. A difference with such a run is never called clear.

**Costs** are multiply-accumulates, or cycles of the simulated accelerator; 1 is plain training for all epochs. Plain
training and `half` have the baseline's cycles. All other methods have those of MAX, which has a second array for them.
Cycles aren't seconds: the designs that predict reach lower clocks (`docs/implementation.md`), which isn't counted here.

`nox -s bench_accuracy` runs it all again; `--methods` gives it the methods of a regime whose table lacks some. Regimes
are in `experiments/regimes.py`, methods in `experiments/methods/methods.py`."""


CAPTION = """Marks are means with standard deviations over seeds. The dashed line is the best plain training of no
higher cost. Much worse results lie below a frame."""
REGIMES_HEAD = f"""## Regimes

In *steep* regimes accuracy still grows quickly with more training; *long* regimes are near saturation. Seeds from
{TUNING_SEED} on are those of learning rates. A field of cycles is empty if the method can't be run on the accelerator,
or wasn't. If a regime names PyTorch twice, the second version is the simulation's."""


def _above(found: Findings, method: str, gap: Gap | None) -> str:
    return "" if gap is None or not METHODS[method].entries else f"{gap}"


def _lost(found: Findings, method: str) -> str:
    """Number of a method's seeds that went astray, if any did."""
    lost = found.lost(method)
    return f" ({lost} lost)" if lost else ""


def _settings(found: Findings) -> str:
    """Network, data and number of batches of a regime."""
    regime, examples = found.regime, found.details["examples"]
    accuracy = found.of("accuracy", "bp-1") / 100
    sampling = 100 * math.sqrt(accuracy * (1 - accuracy) / examples["test"])
    ada_gp = found.details["methods"].get("ada-gp", {"runs": []})["runs"]
    learned = "".join(
        f" Before the first GP batch of `ada-gp` the predictor learned from {run['batches']['warmup']:,}."
        for run in ada_gp[:1]
    )
    return f"""`{regime["model"]}` on {regime["data"]}, {regime["image_size"]} x {regime["image_size"]} pixels,
{regime["epochs"]} epochs of batches of {regime["batch_size"]}; {examples["train"]:,} images to train with,
{examples["validation"]:,} to choose learning rates by, {examples["test"]:,} to test with. Other test images would
change plain training's accuracy by {sampling:.2f} points (a standard error). An epoch has
{_batches(regime, examples):,} batches; a cost of 1 is {_whole(found):,.1f}·10⁹ MACs, with all batches counted as
whole.{learned}{_tuning(found)} Trained with torch {regime["torch"]} on {regime.get("gpu", "a CPU")}."""


def _whole(found: Findings) -> float:
    """Cost 1 in 10⁹ MACs."""
    return float(found.details["methods"]["bp-1"]["runs"][0]["whole"]) / 1e9


def _tuning(found: Findings) -> str:
    """Number of seeds with which learning rates were tried."""
    runs = [(method, run["lr"]) for method, detail in found.details["methods"].items() for run in detail["tuning"]]
    counts = sorted(Counter(runs).values())
    if not counts:
        return ""
    best = f", the two best with {counts[-1]}" if counts[-1] > counts[0] else ""
    return f" Learning rates were tried with {counts[0]} seeds{best}."


def _batches(regime: Mapping, examples: Mapping) -> int:
    return -(-examples["train"] // regime["batch_size"])


def _regime(name: str, found: Findings, now: Mapping[str, str]) -> str:
    details, rows = found.details, []
    for method, detail in details["methods"].items():
        cycles = details["by_cycles"].get(method)
        chosen = detail["chosen"]
        rows.append((
            f"`{method}`",
            f"{found.of('accuracy', method):.2f} ± {found.of('sd', method):.2f}{_lost(found, method)}",
            f"{100 * found.gp_share(method):.0f}",
            f"{found.of('cost', method):.3f}",
            _above(found, method, found.above(method)),
            "" if cycles is None else f"{cycles['cost']:.3f}",
            _above(found, method, found.gap(method, cycles)),
            f"{chosen['lr']:g} of {chosen['tried']}" + " (edge)" * chosen["at_edge"]
            + " (close)" * close(detail["tuning"], chosen["lr"]),
        ))  # fmt: skip
    heads = ("method", "accuracy, %", "GP batches, %", "cost, MACs", "above plain", "cost, cycles",
             "above plain", "learning rate")  # fmt: skip
    return f"""### {name}

{_settings(found)}

{figures.where(found.origin, now)}

{table(heads, rows)}

Accuracies have standard deviations over seeds. *Learning rate*: the best of the number tried. (edge): it is the first
or last of them. (close): another did nearly as well. (lost): the number of seeds that went astray."""


def _some(images: int) -> str:
    return f"{images:,}" if images else "all"


def _table_1(by_regime: Mapping[str, Findings], folder: Path) -> str:
    found_here = here(folder)
    run = {(f.regime["model"], f.regime["data"]): name for name, f in by_regime.items()}
    rows = []
    for model, by_data in paper.ACCURACY.items():
        for data, (plain, ada_gp) in by_data.items():
            text = f"not run: `./adagp experiment --paper --model {model} --data {data} --data-dir FOLDER`"
            if name := run.get((model, data)):
                few = by_regime[name].regime
                text += f"; for {few['epochs']} epochs of {_some(few['images'])} images, see {name}"
            rows.append((model, data, f"{plain}", f"{ada_gp}", found_here.get((model, data), text)))
    gains = {
        data: fmean(by_data[data][1] - by_data[data][0] for by_data in paper.ACCURACY.values())
        for data in paper.ACCURACY_GAINS
    }
    means = ", ".join(f"{data} {gains[data]:+.2f} ({said:+.2f})" for data, said in paper.ACCURACY_GAINS.items())
    return f"""## Table 1 of the paper

In percent, from the paper, after {paper.EPOCHS} epochs. Mean gains of ADA-GP are in points; in brackets are those
of the paper's text: {means}.

{table(("network", "images", "BP", "ADA-GP", "here"), rows)}"""


def document(folder: Path = figures.RESULTS, now: Mapping[str, str] = NOW) -> str:
    """Text in Markdown, as of ``now``; raises OSError if ``accuracy.json`` isn't there."""
    by_regime = Findings.read(folder / "accuracy.json")
    as_of = figures.AS_OF.format(now=figures.listed(now), module=MODULE)
    parts = [
        HEAD.format(module=MODULE, as_of=as_of, beyond=BEYOND, level=LEVEL, sure=1 - LEVEL),
        f"## In short\n\n{in_a_sentence(by_regime)}\n\n{verdicts(by_regime)}",
        f"![Accuracy against cost](images/{PLOT.name})\n\n{CAPTION}",
        legend({method for found in by_regime.values() for method in found.details["methods"]}),
        f"## Methods with GP batches, over plain training of no higher cost\n\n{pairs(by_regime)}",
        REGIMES_HEAD, *(_regime(name, found, now) for name, found in by_regime.items()),
        predictions(by_regime), learning(folder), _table_1(by_regime, folder), trained(folder, now),
        times(folder, now),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Write the document and draw its plot, or check the document; exits with 1 if the check fails.

    Without results it only says that there are none yet.
    """
    if not RESULTS.exists():
        print(f"no {RESULTS.name} yet, so no docs/{PATH.name}: run nox -s bench_accuracy")
        return
    by_regime = Findings.read(RESULTS)
    others = [title for title in figures.earlier(NOW) if title.startswith("accuracy: ")]
    others += [f"{name} (the regime has changed)" for name, found in by_regime.items() if not found.current]
    figures.command(MODULE, __doc__, PATH, document(RESULTS.parent, NOW), others, argv)
    if not argv or "--check" not in argv:
        draw(by_regime, PLOT)


if __name__ == "__main__":
    require_checkout()
    main()
