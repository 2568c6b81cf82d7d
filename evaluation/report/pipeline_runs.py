"""Section of the page of pipelines about measured ones: ``results/pipelines.json`` as tables, with what it means.

It has a part for each network, and one that is estimated.
"""

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from textwrap import fill

from ...algorithm import paper_numbers as paper
from ...host.pipelines.counts import formula
from ...host.pipelines.schedules import SCHEDULES as KINDS
from ..benches.pipeline_estimates import PART as ESTIMATED
from ..benches.pipeline_estimates import PREFIX
from ..benches.pipelines import CASES, LINK, MIX, SCHEDULES, figure_name
from .figures import RESULTS
from .pipeline_estimates import estimates_section
from .provenance import details, fold, session
from .reference import table
from .stale_runs import stale_section

__all__ = ["measured"]

SETTINGS, SHAPE = CASES["vgg-small"].settings, CASES["vgg-small"].shape
LARGER = CASES["vgg13"]
ENDS = {"": "as measured", "_link": "links", "_balanced": "equal stages"}
"""Titles of what figures suppose, by the ends of their names."""


def measured(folder: Path = RESULTS) -> str:
    """The section; the age of its figures is in the page of all figures."""
    results = json.loads((folder / "pipelines.json").read_text())
    figures, origins = results["figures"], results["provenance"]
    names = [figure_name(schedule) for schedule in SCHEDULES]
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
        _origin(origins["vgg-small"]), fill(_about(), 120), table(head, rows), fill(_after(figures), 120),
        table(("schedule", *(f"{what}: {' / '.join(ENDS.values())}" for what in (
            "speed-up over one device", "ADA-GP over itself", "ADA-GP over one device"))), others),
        fill(_left(figures), 120), fill(_chimera(figures), 120),
        *_larger(figures, origins), "### Larger batches, estimated", _origin(origins[ESTIMATED]),
        *estimates_section(figures, results["details"][ESTIMATED]["details"]),
        *(("### Measured stale weights", _origin(origins["stale"]), *stale_section(figures, results["details"]))
          if "stale" in origins else ()),
    ])  # fmt: skip


def _origin(origin: Mapping) -> str:
    return fold(f"By <code>{session(origin['command'])}</code>", details(origin))


def _larger(figures: Mapping[str, float], origins: Mapping) -> Iterator[str]:
    """The part about the larger network: what was measured of it."""
    settings, batch = LARGER.settings, LARGER.settings.batch
    found = {name.removeprefix(LARGER.prefix): value for name, value in figures.items()
             if name.startswith(LARGER.prefix)}  # fmt: skip
    names = {figure_name(schedule): KINDS[schedule].title for schedule in SCHEDULES}
    estimates = {name: f"{figures[f'{PREFIX}gain_{name}_{batch}']:.3f}" for name in ("one", *names)}
    alone = f"{found['alone_gain_one']:.3f}"
    apart = {name.removeprefix("alone_"): value for name, value in found.items() if name.startswith("alone_")}
    rows: list[tuple[str, ...]] = [
        ("one device", _cycles(found["cycles_bp_one"]), "", "1", *[""] * 5),
        ("one device, by itself", _cycles(apart["cycles_bp_one"]), _pair(apart, "one"), "", alone, "", "",
         estimates["one"], alone),
    ]  # fmt: skip
    rows += [
        (title, _cycles(found[f"cycles_bp_{name}"]), _pair(found, name), f"{found[f'speedup_{name}']:.2f}",
         *(f"{found[f'gain_{name}{end}']:.3f}" for end in ENDS), estimates[name], f"{found[f'total_{name}']:.2f}")
        for name, title in names.items()
    ]  # fmt: skip
    yield "### VGG13"
    parts = ("vgg13", "vgg13-one-device", "vgg13-batch16")
    yield "\n\n".join(_origin(origins[part]) for part in parts if part in origins)
    yield fill(
        f"VGG13 on {LARGER.shape[1]}x{LARGER.shape[2]} images, preset `{settings.preset}`, a batch of {batch} images in"
        f" {settings.micro_batches} micro-batches, four devices, measured as above. The three columns of ADA-GP over"
        " itself are as measured, with links and with equal stages; the one after them is"
        " [estimated](#larger-batches-estimated). A single device by itself was measured on later hardware; no ratio to"
        " another row has its cycles.", 120,
    )  # fmt: skip
    yield table(("schedule", "BP, baseline", "BP / GP, ADA-GP", "speed-up over one device", "ADA-GP over itself",
                 "links", "equal stages", "estimated", "ADA-GP over one device"), rows)  # fmt: skip
    gains = ", ".join(f"{found[f'gain_{name}']:.3f} over {title}" for name, title in names.items())
    yield fill(
        f"In batches of {batch} images ADA-GP gains {gains}; below 1 it loses. The predictor works once a batch,"
        " however few images that has, and it has as much to do as VGG13 has weights. So gains grow with the batch."
        " With links Chimera's replicas exchange sums of all gradients in BP batches, and in GP batches none."
        + _sixteen(figures), 120, break_on_hyphens=False,
    )  # fmt: skip


def _sixteen(figures: Mapping[str, float]) -> str:
    """The sentence about the batch of 16 images that was measured, if it was."""
    case = CASES["vgg13-batch16"]
    found = {name.removeprefix(case.prefix): value for name, value in figures.items() if name.startswith(case.prefix)}
    if "gain_1f1b" not in found:
        return ""
    return (
        f" In batches of {case.settings.batch} images, measured at the last commit named above, a BP batch of 1F1B"
        f" takes {_cycles(found['cycles_bp_1f1b'])} cycles without ADA-GP, and {_pair(found, '1f1b')} with it: a gain"
        f" of {found['gain_1f1b']:.3f}, where {figures[f'{PREFIX}gain_1f1b_{case.settings.batch}']:.3f} is estimated."
    )


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
