"""Section of the page of pipelines about large batches, which are estimated: a part of ``results/pipelines.json``."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from textwrap import fill

from ...algorithm import paper_numbers as paper
from ...host.pipelines.counts import formula
from ...host.pipelines.schedules import SCHEDULES as KINDS
from ..benches.pipeline_estimates import BATCHES, PREFIX
from ..benches.pipelines import CASES, DEVICES, LINK, MIX, SCHEDULES, figure_name
from .reference import table

__all__ = ["estimates_section"]

SETTINGS, SHAPE = CASES["vgg13"].settings, CASES["vgg13"].shape
MICRO_BATCHES = SETTINGS.micro_batches
ONE = "one"
TARGET = 0.95
"""Part of a formula's gain that counts as reached."""
MANY = 128
"""Images of the batches that words are about."""
TITLES = {ONE: "one device"} | {figure_name(each): KINDS[each].title for each in SCHEDULES}
PRINTED = {figure_name(each): value for each, value in paper.PIPELINE_SPEEDUP.items()}
SIZES = tuple(f"{batch} images" for batch in BATCHES)


def estimates_section(figures: Mapping[str, float], details: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Words and tables; ``figures`` are those of all parts, since formulae take steps that were counted.

    ``details``: estimates by number of images, also those with links that take time.
    """
    found = {name.removeprefix(PREFIX): value for name, value in figures.items() if name.startswith(PREFIX)}
    steps = {name: _steps(figures, name) for name in TITLES}
    gains = {name: float(formula(*pair, MIX.share)) for name, pair in steps.items()}
    yield fill(_about(found), 120)
    yield table(("ADA-GP over itself", "by formula", *SIZES), [
        (title, f"{gains[name]:.3f}", *(f"{gain:.3f} ({100 * gain / gains[name]:.1f} %)" for gain in (
            found[f"gain_{name}_{batch}"] for batch in BATCHES)))
        for name, title in TITLES.items()
    ])  # fmt: skip
    yield fill(_reached(found, gains), 120, break_on_hyphens=False)
    yield table(("BP / GP, ADA-GP", "by formula", *SIZES), [
        (title, f"1 / {float(steps[name][1] / steps[name][0]):.2f}", *(
            f"{found[f'bp_ratio_{name}_{batch}']:.2f} / {found[f'gp_ratio_{name}_{batch}']:.2f}" for batch in BATCHES))
        for name, title in TITLES.items()
    ])  # fmt: skip
    yield fill(f"{_limits(figures, found)} {_links(details)}", 120, break_on_hyphens=False)
    alone = steps[ONE][0] * DEVICES
    yield table(("speed-up over one device", "by formula", *SIZES), [
        (title, f"{float(alone / steps[name][0]):.2f}", *(
            f"{found[f'speedup_{name}_{batch}']:.2f}" for batch in BATCHES))
        for name, title in TITLES.items() if name != ONE
    ])  # fmt: skip


def _steps(figures: Mapping[str, float], name: str) -> tuple[Fraction, Fraction]:
    """Steps of a BP batch, as counted, and of a GP batch without gaps; one device has no gaps."""
    bp = 3 * MICRO_BATCHES if name == ONE else round(figures[f"steps_bp_{name}"])
    return Fraction(bp), Fraction(MICRO_BATCHES)


def _about(found: Mapping[str, float]) -> str:
    least = BATCHES[0]
    return (
        f"VGG13 as above in larger batches, each in {MICRO_BATCHES} micro-batches; messages take no time. [The"
        " estimator](estimator.md) times each step of each device, and steps are laid out as measured ones are. "
        + " ".join(_errors(found, batch) for batch in BATCHES if f"error_cycles_{batch}" in found)
        + f" Measurements are of the commits named above, most of those in batches of {least} of older hardware than"
        " the estimates. In batches of 16 only 1F1B was measured, and one device without ADA-GP. All others are"
        " estimates alone. In brackets is the part of the formula's gain that is reached. A target that is met by"
        " less than these errors may be missed on hardware."
    )


def _errors(found: Mapping[str, float], batch: int) -> str:
    steps, *others = (100 * found[f"error_{kind}_{batch}"] for kind in ("steps", "cycles", "speedup", "gain"))
    cycles, speedup, gain = (f"{value:.2f} %" for value in others)
    return (
        f"In batches of {batch} images, estimates differ from the RTL by {steps:.2f} % in single steps (median), by"
        f" {cycles} at most in cycles of batches, by {speedup} in speed-ups and by {gain} in gains."
    )


def _first(found: Mapping[str, float], name: str, gain: float) -> str:
    """The batches that reach a gain's target."""
    size = next((batch for batch in BATCHES if found[f"gain_{name}_{batch}"] >= TARGET * gain), None)
    return "in none of these batches" if size is None else f"from {size} images on"


def _reached(found: Mapping[str, float], gains: Mapping[str, float]) -> str:
    def each(wanted: Mapping[str, float]) -> str:
        return ", ".join(f"over {TITLES[name]} {_first(found, name, gain)}" for name, gain in wanted.items())

    ours = {name: gain for name, gain in gains.items() if name != ONE}
    return (
        f"ADA-GP reaches {100 * TARGET:.0f} % of the formula's gain {each(ours)}. Of the paper's means it reaches as"
        f" much {each(PRINTED)}. A single device does {_first(found, ONE, gains[ONE])}. The next table has what a BP"
        " and a GP batch of ADA-GP take, over a BP batch without it; the formula has BP batches that are as long, and"
        f" GP batches of {MICRO_BATCHES} steps."
    )


def _limits(figures: Mapping[str, float], found: Mapping[str, float]) -> str:
    few, many = BATCHES[0], MANY
    bp, both = (round(figures[f"steps_{what}_chimera"]) for what in ("bp", "gp_bp"))
    own = float(formula(Fraction(bp), Fraction(both - bp), MIX.share))
    ratio = {name: found[f"bp_ratio_{name}_{many}"] for name in ("1f1b", "chimera", "zb_h1")}
    return (
        "The predictor works once a batch on all of VGG13's weights, however few images that has. So a BP batch of 1F1B"
        f" takes {found[f'bp_ratio_1f1b_{few}']:.2f} times as long in batches of {few} images, and {ratio['1f1b']:.2f}"
        f" times in those of {many}. Stages learn one after the other at a batch's end. GPipe and 1F1B have gaps there;"
        f" ZB-H1 and Chimera have filled theirs, and still take {ratio['zb_h1']:.2f} and {ratio['chimera']:.2f} times"
        f" as long in batches of {many}. A GP batch predicts and updates all weights, too. Chimera's GP batch takes"
        f" {both - bp} steps instead of {MICRO_BATCHES}, so its own formula gives {own:.3f}; {100 * TARGET:.0f} % of"
        f" that is reached {_first(found, 'chimera', own)}."
    )


def _links(details: Mapping[str, Mapping[str, float]]) -> str:
    """Sentences on messages that take time, which change Chimera most, and on the last table."""
    gain, ideal, speedup, alone = (
        [details[str(batch)][name] for batch in (BATCHES[0], MANY)]
        for name in ("gain_chimera_link", "gain_chimera", "speedup_chimera_link", "speedup_chimera")
    )
    return (
        f"Messages that take time change Chimera most, whose replicas exchange all gradients in BP batches: with links"
        f" of {LINK.latency} cycles and {LINK.bytes_per_cycle} bytes a cycle it gains {gain[0]:.3f} in batches of"
        f" {BATCHES[0]} images (without: {ideal[0]:.3f}) and {gain[1]:.3f} in those of {MANY} ({ideal[1]:.3f})."
        f" Without ADA-GP it is then {speedup[0]:.2f} times as fast as one device instead of {alone[0]:.2f} times, and"
        f" {speedup[1]:.2f} times instead of {alone[1]:.2f} times."
        " The last table has the schedules without ADA-GP, over one device with the same micro-batches."
    )
