"""Expected times of a pipeline before it runs: cycles of the cost model, laid out as the schedule says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...spec.commands import Phase
from ...spec.opcodes import COMPUTE, UPDATES
from ...spec.phases import GP
from ..compiler.compiler import assembled
from ..compiler.costs import cycles_of
from ..compiler.ir import Step as Command
from ..compiler.predictor_steps import GRADIENTS
from .device_program import DeviceProgram, Staged
from .replicas import unjudged
from .staged_network import Link
from .steps import BACKWARDS, Step, What
from .worker import HEADER_BYTES, agreed_bytes

__all__ = ["Expected", "StageRow", "agreed", "expected", "free_after"]


@dataclass(frozen=True)
class StageRow:
    """A stage as a table shows it: ``cycles`` and ``link_bytes`` (sent to other devices) are of a whole batch.

    ``held``: micro-batches whose activations its device holds at once, at most; ``memory_bytes``: of its device;
    ``missed``: updates of its weights that a forward pass doesn't see yet.
    """

    stage: int
    device: int
    layers: tuple[str, ...]
    cycles: int
    share: float
    link_bytes: int
    held: int
    memory_bytes: int
    missed: int = 0


@dataclass(frozen=True)
class Expected:
    """A pipeline's batch by the cost model: cycles of the pipeline and of one device, and its stages.

    ``gp_cycles``, ``gp_one_device_cycles``: of a GP batch as one of many; 0 without predictions. ``alone_cycles``: of a
    batch without stale weights, in a hybrid; else 0.
    """

    cycles: float
    one_device_cycles: int
    stages: tuple[StageRow, ...]
    gp_cycles: float = 0
    gp_one_device_cycles: int = 0
    alone_cycles: float = 0

    def speedup(self, gp_share: float = 0.0, alone_share: float = 0.0) -> float:
        """Over one device that runs the same micro-batched program, with a share of GP batches or without staleness."""
        if alone_share:
            mixed = (1 - alone_share) * self.cycles + alone_share * self.alone_cycles
            return self.one_device_cycles / mixed
        alone = (1 - gp_share) * self.one_device_cycles + gp_share * self.gp_one_device_cycles
        return alone / ((1 - gp_share) * self.cycles + gp_share * self.gp_cycles)


def expected(staged: Staged, link: Link) -> Expected:
    """Times of a batch that doesn't calibrate, and the stages that take them."""
    times, gp_times = _Times(staged, Phase.BP), _Times(staged, Phase.GP)
    totals = dict.fromkeys(staged.schedule.places, 0)
    for device in staged.devices:
        for step in device.steps:
            totals[step.replica, step.stage] += times.of_step(step)
    rows = []
    for (replica, stage), cycles in sorted(totals.items(), key=lambda item: item[0][::-1]):
        place = staged.schedule.places[replica, stage].forward
        device, passed = staged.devices[place], len(staged.schedule.of_replica(replica))
        sent = sum(_message_bytes(staged, what, stage) for what in (What.FORWARD, What.BACKWARD))
        summed = _message_bytes(staged, What.UPDATE, stage) + passed * replica * _mean_bytes(staged, stage)
        if staged.schedule.replicas > replica + 1:  # once for both stages of a device
            summed += agreed_bytes(staged, place)
        rows.append(StageRow(
            stage, place, tuple(name for name, of in staged.stage_of.items() if of == stage), cycles,
            cycles / sum(totals.values()), passed * sent + summed, device.held, device.plan.n_bytes,
            staged.schedule.staleness[stage],
        ))  # fmt: skip
    gp_rows = [device.gp_steps for device in staged.devices]
    if staged.schedule.replicas > 1:  # a device ends a batch before it begins the next
        gp = gp_times.makespan(gp_rows, link)
    else:
        gp = max(sum(map(gp_times.of_step, steps)) for steps in gp_rows)
    whole, gp_whole = times.alone(lambda device: device.steps), gp_times.alone(lambda device: device.gp_steps)
    end = times.makespan([device.steps for device in staged.devices], link)
    slow = times.makespan([device.alone_steps for device in staged.devices], link)
    return Expected(end, whole, tuple(rows), gp, gp_whole, slow)


class _Times:
    """Expected cycles of steps in a phase, by kind and stage."""

    def __init__(self, staged: Staged, phase: Phase):
        self._staged, self._phase = staged, phase
        self._known: dict[tuple[What, int], int] = {}

    def of_step(self, step: Step) -> int:
        """Cycles of a step, with the sums that replicas make before their update."""
        if step.what is What.UPDATE and step.replica and step.phase != GP:
            updates = unjudged(self._staged.sections.of(step.what, step.stage))
            return self._cycles([*self._staged.sums_of(step), *updates])
        return self.of(step.what, step.stage) + self._cycles(self._staged.sums_of(step))

    def makespan(self, rows: Sequence[Sequence[Step]], link: Link) -> float:
        """Cycles until the last device is done with its row of steps."""
        timed = [[(step, self.of_step(step)) for step in row] for row in rows]
        return max(free_after(self._staged, timed, [0.0] * len(timed), link))

    def alone(self, steps_of: Callable[[DeviceProgram], Sequence[Step]]) -> int:
        """Cycles of all steps on one device, which makes each update once, and one step ADAM."""
        steps = [step for device in self._staged.devices for step in steps_of(device)
                 if not (step.what is What.UPDATE and step.replica)]  # fmt: skip
        more = sum(step.what is What.ADAM for step in steps) - 1
        return sum(self.of(step.what, step.stage) for step in steps) - max(0, more) * self.of(What.ADAM, 0)

    def of(self, what: What, stage: int) -> int:
        """Cycles of a step; each device has a step ADAM, with the commands of stage 0."""
        stage = 0 if what is What.ADAM else stage
        if (what, stage) not in self._known:
            self._known[what, stage] = self._cycles(self._staged.sections.of(what, stage))
        return self._known[what, stage]

    def _cycles(self, commands: Sequence[Command]) -> int:
        staged = self._staged
        return sum(
            cycles_of(assembled(each, staged.graph, staged.batch, staged.config, staged.tensors, 0).command,
                      staged.config)
            for each in commands
            if each.phases & self._phase and (each.opcode in COMPUTE or each.opcode in UPDATES)
        )  # fmt: skip


def _message_bytes(staged: Staged, what: What, stage: int) -> int:
    """Bytes that a step sends to other devices; of the predictor's gradients, which go apart, the longer one's.

    Those of an update are the sums of gradients that replicas exchange.
    """
    if what is What.LEARN:
        return max(HEADER_BYTES + staged.tensors[name].n_bytes for name in GRADIENTS)
    if what is What.UPDATE:
        return sum(HEADER_BYTES + staged.tensors[name].n_bytes for name in staged.exchange.sums(stage))
    tensors = [staged.tensors[each.tensor] for each in staged.sections.sent(what, stage) if staged.has_message(each)]
    return sum(HEADER_BYTES + each.n_bytes for each in tensors)


def _needed(staged: Staged, step: Step) -> list[Step]:
    """The steps that a step of a single batch waits for."""
    if step.what is What.ADAM:
        return [Step(What.LEARN, 0, None, step.batch)]
    if step.what is What.LEARN:
        after = step.stage + 1
        return [Step(What.LEARN, after, None, step.batch)] if after < staged.schedule.stages else []
    ends = (*BACKWARDS, What.UPDATE, *[What.FORWARD] * (step.phase == GP))
    return [each for each in staged.schedule.needs(step) if step.what is not What.UPDATE or each.what in ends]


def _arrival(staged: Staged, step: Step, need: Step, place: int, link: Link) -> float:
    """Cycles from the end of a step until the device that takes the next one has its results."""
    if staged.schedule.device(need) == place:
        return 0.0
    if step.what is not What.UPDATE:
        return link.cycles(_message_bytes(staged, need.what, need.stage))
    n_bytes = _mean_bytes(staged, step.stage) if step.phase == GP else _message_bytes(staged, What.UPDATE, step.stage)
    return link.cycles(n_bytes)


def _mean_bytes(staged: Staged, stage: int) -> int:
    """Bytes of the predictor's inputs of a stage, which replicas exchange."""
    return sum(HEADER_BYTES + staged.tensors[name].n_bytes for name in staged.exchange.means(stage))


def agreed(staged: Staged, free: Sequence[float], link: Link) -> list[float]:
    """Cycles after which each device may begin the next batch: once it has agreed on exponents with its partner."""
    if staged.schedule.replicas == 1:
        return list(free)
    return [max(own, free[staged.schedule.partner(place)])
            + link.cycles(agreed_bytes(staged, place))
            for place, own in enumerate(free)]  # fmt: skip


def free_after(
    staged: Staged, rows: Sequence[Sequence[tuple[Step, float]]], free: Sequence[float], link: Link
) -> list[float]:
    """Cycles after which each device has taken its row of steps, in order and each as soon as its messages are there.

    A batch's ``rows`` have steps with their cycles; a device is ``free`` from a cycle on.
    """
    ends: dict[Step, float] = {}
    left, found = [list(row) for row in rows], list(free)
    while any(left):
        before = sum(map(len, left))
        for place, row in enumerate(left):
            while row and all(need in ends for need in _needed(staged, row[0][0])):
                step, cycles = row.pop(0)
                begin = max([found[place], *(
                    ends[need] + _arrival(staged, step, need, place, link) for need in _needed(staged, step)
                )])  # fmt: skip
                found[place] = begin + cycles
                if step.what is not What.ADAM:  # each device has its own
                    ends[step] = found[place]
        assert sum(map(len, left)) < before, "the devices wait for each other"
    return found
