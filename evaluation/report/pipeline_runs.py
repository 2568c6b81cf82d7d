"""Section of the page of pipelines about measured ones: ``results/pipelines.json`` as tables, with what it means."""

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from textwrap import fill

from ...algorithm import paper_numbers as paper
from ...host.pipelines.counts import formula
from ...host.pipelines.schedules import SCHEDULES as KINDS
from ..benches.pipelines import CASES, LINK, MIX, SCHEDULES
from .figures import RESULTS
from .provenance import details, fold, session
from .reference import table

__all__ = ["measured"]

SETTINGS, SHAPE = CASES["vgg-small"].settings, CASES["vgg-small"].shape
ENDS = {"": "as measured", "_link": "links", "_balanced": "equal stages"}
"""Titles of what figures suppose, by the ends of their names."""


def measured(folder: Path = RESULTS) -> str:
    """The section; the age of its figures is in the page of all figures."""
    results = json.loads((folder / "pipelines.json").read_text())
    figures = results["figures"]
    names = [schedule.replace("-", "_") for schedule in SCHEDULES]
    titles = [KINDS[schedule].title for schedule in SCHEDULES]
    printed = [f"{paper.PIPELINE_SPEEDUP[each]:.3f}" if each in paper.PIPELINE_SPEEDUP else "" for each in SCHEDULES]
    head = (
        "schedule", "steps, counted", "BP, baseline", "BP / GP, ADA-GP", "speed-up over one device",
        "ADA-GP over itself", "by formula, GP in 4", "the paper", "ADA-GP over one device",
    )  # fmt: skip
    gain = f"{figures['gain_one']:.3f}"
    rows = [(
        "one device", "", _cycles(figures["cycles_bp_one"]), _pair(figures, "one"), "1", gain, "",
        f"{paper.SPEEDUP:.2f}", gain,
    )]  # fmt: skip
    for name, title, there in zip(names, titles, printed, strict=True):
        bp, both = (round(figures[f"steps_{what}_{name}"]) for what in ("bp", "gp_bp"))
        expects = formula(Fraction(bp), Fraction(SETTINGS.micro_batches), MIX.share)
        rows.append((
            title, f"{bp}, {both}", _cycles(figures[f"cycles_bp_{name}"]), _pair(figures, name),
            f"{figures[f'speedup_{name}']:.2f}", f"{figures[f'gain_{name}']:.3f}", f"{float(expects):.3f}", there,
            f"{figures[f'total_{name}']:.2f}",
        ))  # fmt: skip
    others = [
        (title, *(" / ".join(f"{figures[f'{what}_{name}{end}']:.{digits}f}" for end in ENDS)
                  for what, digits in (("speedup", 2), ("gain", 3), ("total", 2))))
        for name, title in zip(names, titles, strict=True)
    ]  # fmt: skip
    return "\n\n".join([
        fold(f"By <code>{session(results['provenance']['command'])}</code>", details(results["provenance"])),
        fill(_about(), 120), table(head, rows), fill(_after(figures), 120),
        table(("schedule", *(f"{what}: {' / '.join(ENDS.values())}" for what in (
            "speed-up over one device", "ADA-GP over itself", "ADA-GP over one device"))), others),
        fill(_left(figures), 120), fill(_chimera(figures), 120),
    ])  # fmt: skip


def _cycles(value: float) -> str:
    return f"{value / 1e6:.2f} M"


def _longer(figures: Mapping[str, float], name: str) -> str:
    return f"{100 * (figures[f'ada_bp_{name}'] / figures[f'cycles_bp_{name}'] - 1):.1f} %"


def _pair(figures: Mapping[str, float], name: str) -> str:
    return " / ".join(_cycles(figures[f"ada_{phase}_{name}"]) for phase in ("bp", "gp"))


def _about() -> str:
    return (
        f"Steps are counted in runs on four equal stages. Cycles are those of the simulated RTL: {SETTINGS.model} on"
        f" {SHAPE[1]}x{SHAPE[2]} images, preset `{SETTINGS.preset}`, a batch of {SETTINGS.batch} images in"
        f" {SETTINGS.micro_batches} micro-batches, four devices. ADA-GP is on the design MAX, all else on the baseline"
        f" design. Its gain is that of {MIX.epochs} epochs in the paper's phases. Messages take no time here."
    )


def _after(figures: Mapping[str, float]) -> str:
    largest = figures["largest_share_1f1b"]
    return (
        f"The longest stage has {100 * largest:.1f} % of a batch's cycles, so no schedule with one replica is more than"
        f" {1 / largest:.2f} times as fast as one device. A BP batch of ADA-GP takes {_longer(figures, '1f1b')} longer"
        f" over 1F1B, on one device {_longer(figures, 'one')}: the predictor works once a batch, however few images"
        " that has, and stages learn one after the other. The formula leaves that out. The following table has the same"
        " with links that take"
        f" {LINK.latency:g} cycles and carry {LINK.bytes_per_cycle:g} bytes a cycle, and with equal stages: each kind"
        " of step takes its mean over the devices, as if a perfect cut existed. That is laid out, not run."
    )


def _left(figures: Mapping[str, float]) -> str:
    gpipe, zero = figures["gain_gpipe_balanced"], figures["gain_zb_h1_balanced"]
    ratio = figures["total_zb_h1"] / figures["speedup_gpipe"]
    share = 100 * (figures["gain_zb_h1"] - 1) / (figures["gain_gpipe"] - 1)
    return (
        f"A schedule with small bubbles leaves ADA-GP less. Over ZB-H1 it gains {figures['gain_zb_h1']:.3f} times,"
        f" which is {share:.0f} % of the gain over GPipe ({figures['gain_gpipe']:.3f}); with equal stages {zero:.3f}"
        f" beside {gpipe:.3f}. A single device gains {figures['gain_one']:.3f}. ZB-H1 with ADA-GP is {ratio:.2f} times"
        f" as fast as GPipe without; ZB-H1 alone is {figures['speedup_zb_h1'] / figures['speedup_gpipe']:.2f} times."
    )


def _chimera(figures: Mapping[str, float]) -> str:
    bp, both = (round(figures[f"steps_{what}_chimera"]) for what in ("bp", "gp_bp"))
    in_run = float(formula(Fraction(bp), Fraction(both - bp), MIX.share))
    return (
        f"Chimera takes {both} steps for a GP and a BP batch, where the paper counts"
        f" {paper.PIPELINE_STEPS['chimera'][1]}: its devices have a stage of each replica, and end a batch in both"
        " before they begin the next ([the decision](decisions/replicas.md#predicted-gradients)). With"
        f" {both - bp} steps for a GP batch the formula gives {in_run:.3f}, and the paper has"
        f" {paper.PIPELINE_SPEEDUP['chimera']:.3f}. Measured it is {figures['gain_chimera']:.3f}, with equal stages"
        f" {figures['gain_chimera_balanced']:.3f}. A BP batch with ADA-GP takes {_longer(figures, 'chimera')} longer:"
        " the first replica judges predictions and learns after the second one has added up the gradients. Without"
        f" predictions Chimera is {figures['speedup_chimera']:.2f} times as fast as one device."
    )
