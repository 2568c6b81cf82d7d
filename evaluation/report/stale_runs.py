"""Section of the page of pipelines about stale weights on devices: the part ``stale`` of ``results/pipelines.json``."""

from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Any

from ...host.pipelines.plan import STALE
from ...host.pipelines.schedules import SCHEDULES
from ..benches.pipelines import DEVICES, LINK
from ..benches.stale_pipelines import PART, SETTINGS, SHAPE
from .reference import table

__all__ = ["stale_section"]

MOST, HYBRIDS = 1.8, (1.24, 1.26, 1.28, 1.29)
"""Speed-ups of the paper that proposes the registers, on two GPUs: at most (its abstract), and of its four ResNets if
half of the training is pipelined."""
_HEAD = ("schedule", "a batch", "idle", "speed-up over one device", "links", "equal stages", "long batches",
         "hybrid, computed", "from one device")  # fmt: skip
_MEMORY = ("schedule", "stage", "updates missed", "micro-batches held", "activations", "weights",
           "PipeDream's old weights", "all memory of the device")  # fmt: skip


def stale_section(figures: Mapping[str, float], parts: Mapping[str, Any]) -> Iterator[str]:
    """Words and tables; ``parts`` are the details of all parts."""
    found = {name.removeprefix("stale_"): value for name, value in figures.items() if name.startswith("stale_")}
    names = {schedule.removeprefix("stale-"): SCHEDULES[schedule].title for schedule in STALE}
    one = found["cycles_one"]
    yield fill(_about(one), 120)
    rows: list[tuple[str, ...]] = [
        (title, _cycles(found[f"cycles_{name}"]), f"{100 * found[f'idle_{name}']:.1f} %",
         *(f"{found[f'{what}_{name}{end}']:.2f}" for what, end in (
             ("speedup", ""), ("speedup", "_link"), ("speedup", "_balanced"), ("limit", ""), ("hybrid", ""),
             ("formula", ""))))
        for name, title in names.items()
    ]  # fmt: skip
    alone = found["alone_paired"]
    rows.append(("each micro-batch alone", _cycles(alone), "", f"{one / alone:.2f}", "", "", "", "", ""))
    yield table(_HEAD, rows)
    yield fill(_words(found), 120)
    details = parts[PART]["details"]
    yield table(_MEMORY, [
        (SCHEDULES[schedule].title if not stage else "", str(stage), str(row["missed"]), str(row["held"]),
         *(f"{row[what]:,}" for what in ("activations", "weights", "stashed", "all")))
        for schedule in STALE for stage, row in enumerate(details[schedule]["memory"])
    ])  # fmt: skip
    yield fill(_memory(found, details), 120)


def _about(one: float) -> str:
    return (
        f"{SETTINGS.model} on {SHAPE[1]}x{SHAPE[2]} images, preset `{SETTINGS.preset}`, {DEVICES} devices of the"
        f" baseline design. A batch has {SETTINGS.micro_batches} micro-batches of an image, each with an update of its"
        f" own, and the pipeline runs empty after it. One device with as many updates takes {_cycles(one)} cycles."
        f" Links take {LINK.latency:g} cycles and carry {LINK.bytes_per_cycle:g} bytes a cycle; equal stages are laid"
        " out as above. In long batches fill and drain count for nothing. A hybrid has half of its batches without"
        " stale weights: each micro-batch passes all stages alone there, which is timed too. *From one device* is"
        " 2 / (1 + 1 / s) for a speed-up s, as if that half ran on one device."
    )


def _words(found: Mapping[str, float]) -> str:
    hybrids = ", ".join(f"{one:g}" for one in HYBRIDS)
    return (
        f"The paper that proposes the registers has {MOST:g} at most on two GPUs, and {hybrids} for four"
        f" hybrids. Here {DEVICES} devices give {found['speedup_paired']:.2f} and a hybrid of"
        f" {found['hybrid_paired']:.2f}, computed from the two times. With updates after each micro-batch, a"
        " pipeline without stale weights is as slow as one device. Schedules with a flush avoid that by"
        " an update once a batch."
    )


def _memory(found: Mapping[str, float], details: Mapping[str, Any]) -> str:
    rows = [row for schedule in STALE for row in details[schedule]["memory"]]
    held = all(row["held"] == min(row["missed"] + 1, SETTINGS.micro_batches) for row in rows)
    plans = "as the formula has it: one more than updates missed" if held else "other than updates missed and one"
    more = [100 * found[f"stash_{name}"] / found[f"memory_{name}"] for name in ("1f1b", "paired")]
    activations = [found[f"activations_{name}"] for name in ("1f1b", "paired")]
    return (
        f"In bytes, as the devices' memory plans have them. Micro-batches held are counted in the devices' lists,"
        f" {plans}. PipeDream would keep an older version of a stage's weights for each update missed: {more[0]:.1f} %"
        f" more memory for 1F1B, {more[1]:.1f} % more for registers. Registers hold"
        f" {activations[1] / activations[0]:.2f} times the activations of 1F1B, with their gradients."
    )


def _cycles(value: float) -> str:
    return f"{value / 1e6:.2f} M"
