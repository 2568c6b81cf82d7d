"""Expected times of a pipeline before it runs: cycles of the cost model, laid out as the schedule says."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...spec.opcodes import COMPUTE, UPDATES
from ..compiler.compiler import assembled
from ..compiler.costs import cycles_of
from .device_program import Staged
from .staged_network import Link
from .steps import BACKWARDS, Step, What
from .worker import HEADER_BYTES

__all__ = ["Expected", "StageRow", "expected"]


@dataclass(frozen=True)
class StageRow:
    """A stage as a table shows it: ``cycles`` and ``link_bytes`` (sent to other devices) are of a whole batch.

    ``held``: micro-batches whose activations its device holds at once, at most; ``memory_bytes``: of its device.
    """

    stage: int
    device: int
    layers: tuple[str, ...]
    cycles: int
    share: float
    link_bytes: int
    held: int
    memory_bytes: int


@dataclass(frozen=True)
class Expected:
    """A pipeline's batch by the cost model: cycles of the pipeline and of one device, and its stages."""

    cycles: float
    one_device_cycles: int
    stages: tuple[StageRow, ...]

    @property
    def speedup(self) -> float:
        """Over one device that runs the same micro-batched program."""
        return self.one_device_cycles / self.cycles


def expected(staged: Staged, link: Link) -> Expected:
    """Times of a batch that doesn't calibrate, and the stages that take them."""
    times = _Times(staged)
    totals = [0] * staged.schedule.stages
    for steps in staged.schedule.lists:
        for step in steps:
            totals[step.stage] += times.of(step.what, step.stage)
    whole = sum(totals)
    rows = []
    for stage, cycles in enumerate(totals):
        place = staged.device_of(stage)
        device = staged.devices[place]
        sent = sum(_sent(staged, what, stage) for what in (What.FORWARD, What.BACKWARD))
        rows.append(StageRow(
            stage, place, tuple(name for name, of in staged.stage_of.items() if of == stage), cycles, cycles / whole,
            staged.schedule.micro_batches * sent, len(device.slots), device.plan.n_bytes,
        ))  # fmt: skip
    return Expected(_makespan(staged, times, link), whole, tuple(rows))


class _Times:
    """Expected cycles of steps by kind and stage."""

    def __init__(self, staged: Staged):
        self._staged = staged
        self._known: dict[tuple[What, int], int] = {}

    def of(self, what: What, stage: int) -> int:
        """Cycles of a step."""
        if (what, stage) not in self._known:
            staged = self._staged
            self._known[what, stage] = sum(
                cycles_of(assembled(each, staged.graph, staged.batch, staged.config, staged.tensors, 0).command,
                          staged.config)
                for each in staged.sections.of(what, stage) if each.opcode in COMPUTE or each.opcode in UPDATES
            )  # fmt: skip
        return self._known[what, stage]


def _sent(staged: Staged, what: What, stage: int) -> int:
    """Bytes that a step sends to other devices."""
    tensors = [staged.tensors[each.tensor] for each in staged.sections.sent(what, stage) if staged.has_message(each)]
    return sum(HEADER_BYTES + each.n_bytes for each in tensors)


def _makespan(staged: Staged, times: _Times, link: Link) -> float:
    """Cycles until the last device is done, if each takes its steps in order, as soon as it can."""
    schedule, ends = staged.schedule, dict[Step, float]()
    left: list[Sequence[Step]] = list(schedule.lists)
    free = [0.0] * schedule.devices

    def arrival(need: Step, step: Step) -> float:
        crosses = schedule.device(need) != schedule.device(step)
        return ends[need] + crosses * link.cycles(_sent(staged, need.what, need.stage))

    while any(left):
        for place, steps in enumerate(left):
            if steps and all(need in ends for need in schedule.needs(steps[0])):
                step = steps[0]
                own = [need for need in schedule.needs(step) if step.what is not What.UPDATE or need.what in BACKWARDS]
                begin = max([free[place], *(arrival(need, step) for need in own)])
                ends[step] = free[place] = begin + times.of(step.what, step.stage)
                left[place] = steps[1:]
    return max(free)
