"""Stale weights on devices: each micro-batch has its own update and its own exponents.

A COMMIT follows each forward step and each update. So the exponents of a pass follow from the maxima of the same pass
of the micro-batch before, in whatever order a device takes its steps. A backward step reads activations that forward
steps of later micro-batches have left behind, at exponents that have moved since: the host keeps those at which each
micro-batch was written, and sets them around its backward step.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..compiler.ir import Step as Command
from ..compiler.lowering import Layer
from ..compiler.tensors import Tensor, layer_tensor
from ..devices.device import Device
from .sections import Sections
from .steps import BACKWARDS, Schedule, Step, What

__all__ = ["COMMITS", "HeldExponents", "alone", "moved"]

COMMITS = (What.FORWARD, What.UPDATE)
"""Steps that end with a COMMIT, in a schedule with an update for each micro-batch."""
_ORDER = (What.FORWARD, *BACKWARDS, What.UPDATE)


def alone(schedule: Schedule) -> Schedule:
    """The same steps without staleness: a micro-batch enters once the one before has been updated with."""
    rows = (sorted(row, key=lambda step: (step.micro_batch, _ORDER.index(step.what))) for row in schedule.lists)
    return replace(schedule, lists=tuple(map(tuple, rows)), staleness=(0,) * schedule.stages)


def moved(sections: Sections, stage: int, layers: Iterable[Layer], tensors: Mapping[str, Tensor]) -> tuple[int, ...]:
    """Numbers of the activations in a stage whose exponents may move before a micro-batch's backward step."""
    own = {layer_tensor(layer, part) for layer in layers for part in layer.state}
    names = _written(sections.of(What.FORWARD, stage)) - own
    names |= {each.tensor for each in sections.received(What.FORWARD, stage)}
    later = _written([*sections.of(What.BACKWARD, stage), *sections.of(What.UPDATE, stage)])
    found, others = ({tensors[name].number for name in each} for each in (names, later))
    assert not found & others, f"stage {stage}: tensors {found & others} are written in both passes"
    return tuple(sorted(number for number in found if number >= 0))


def _written(commands: Iterable[Command]) -> set[str]:
    """Names of the tensors whose maxima count."""
    return {command.numbers.get("out", command.operands["out"]) for command in commands if command.fields.get("track")}


class HeldExponents:
    """Exponents of the activations with ``numbers``, of each micro-batch between its two passes on a device.

    A worker calls :meth:`before` and :meth:`after` a step, and :meth:`ran` before it reads what the step has written.
    """

    def __init__(self, device: Device, numbers: Iterable[int]):
        self._device, self._numbers = device, tuple(numbers)
        self._latest: dict[int, int] = {}
        self._of: dict[int | None, dict[int, int]] = {}

    def before(self, step: Step) -> None:
        """Keep the exponents at which a forward step is going to write; set those that a backward step reads."""
        if step.what is What.FORWARD:
            self._of[step.micro_batch] = self._now()
        elif step.what is What.BACKWARD:
            self._latest = self._now()
            self._set(self._of.pop(step.micro_batch, {}))

    def ran(self, step: Step) -> None:
        """Set the exponents at which a forward step has written; a COMMIT has moved them."""
        if step.what is What.FORWARD:
            self._latest = self._now()
            self._set(self._of[step.micro_batch])

    def after(self, step: Step) -> None:
        """Set the exponents of the next forward step again."""
        if step.what in (What.FORWARD, What.BACKWARD):
            self._set(self._latest)

    def _now(self) -> dict[int, int]:
        return {number: self._device.exponents(number)[0] for number in self._numbers}

    def _set(self, exponents: Mapping[int, int]) -> None:
        for number, exponent in exponents.items():
            self._device.set_exponents(number, exponent)
