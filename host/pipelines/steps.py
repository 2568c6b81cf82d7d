"""Steps of pipelined training, and a schedule: a list of them for each device."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from ...spec.phases import BP, GP, PHASE_NAMES

__all__ = [
    "BACKWARDS", "PipelineError", "Place", "Schedule", "Step", "What", "calibrating_steps", "learning_steps",
    "under_way",
]  # fmt: skip


class PipelineError(ValueError):
    """A schedule that can't be made or isn't legal; the message names the rule and the value or step."""


class What(StrEnum):
    """Kinds of a step, as drawings and JSON name them."""

    FORWARD = "F"
    BACKWARD = "B"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    UPDATE = "U"
    LEARN = "L"
    """A stage adds to the predictor's gradient; in programs alone, as ADAM is."""
    ADAM = "A"
    """A device updates its copy of the predictor."""
    IDLE = "-"


BACKWARDS = (What.BACKWARD, What.BACKWARD_INPUT, What.BACKWARD_WEIGHT)


@dataclass(frozen=True)
class Step:
    """One thing that a device does."""

    what: What
    stage: int
    micro_batch: int | None
    """Within its batch; None for an update after a whole batch."""
    batch: int
    phase: int = BP
    """BP or GP, as spec/phases.py numbers them."""
    replica: int = 0
    tick: int = 0
    """In a schedule with ``ticks``: no step begins before all steps of earlier ticks have ended."""

    def __str__(self) -> str:
        parts = [f"{self.what} of stage {self.stage}", f"batch {self.batch} ({PHASE_NAMES[self.phase]})"]
        parts += [f"micro-batch {self.micro_batch}"] * (self.micro_batch is not None)
        return ", ".join([*parts, *[f"replica {self.replica}"] * (self.replica > 0)])


@dataclass(frozen=True)
class Place:
    """Devices of a stage: where its forward steps run, and where its backward steps and updates do."""

    forward: int
    backward: int


@dataclass(frozen=True)
class Schedule:
    """Lists of steps, and what has to be known about them to check and time them."""

    name: str
    lists: tuple[tuple[Step, ...], ...]
    """The steps of each device, in its order."""
    places: dict[tuple[int, int], Place]
    """By replica and stage."""
    stages: int
    micro_batches: int
    """In a batch."""
    batches: tuple[int, ...]
    """The phase of each batch: BP or GP."""
    staleness: tuple[int, ...]
    """By stage: updates that a forward step may miss."""
    split: bool = False
    """Backward passes are two steps, of the input and of the weights."""
    eager: bool = False
    """Each micro-batch is followed by an update of its own; else each batch is."""
    ticks: bool = False

    @property
    def devices(self) -> int:
        return len(self.lists)

    @property
    def replicas(self) -> int:
        return 1 + max(replica for replica, _ in self.places)

    @property
    def forward(self) -> Fraction:
        """Duration of a forward step: 1 if the network is cut into as many stages as there are devices."""
        return Fraction(self.devices, self.stages)

    def device(self, step: Step) -> int:
        """The device that has the step's stage."""
        place = self.places[step.replica, step.stage]
        return place.forward if step.what is What.FORWARD else place.backward

    def replica_of(self, micro_batch: int | None) -> int:
        """The replica that a micro-batch passes; the first for one after all of them."""
        return max(0, micro_batch or 0) // (self.micro_batches // self.replicas)

    def partner(self, device: int) -> int:
        """The device that has the same stages, of the other replica; the device itself without replicas."""
        first = next(
            stage for (replica, stage), place in self.places.items() if not replica and place.forward == device
        )
        return self.places[self.replicas - 1, first].forward

    def of_replica(self, replica: int) -> range:
        """Micro-batches that pass a replica."""
        share = self.micro_batches // self.replicas
        return range(replica * share, (replica + 1) * share)

    def expected(self) -> Iterator[Step]:
        """Every step that must be in a list, with tick 0."""
        backwards = (What.BACKWARD_INPUT, What.BACKWARD_WEIGHT) if self.split else (What.BACKWARD,)
        for batch, phase in enumerate(self.batches):
            for replica, stage in self.places:
                for micro_batch in self.of_replica(replica):
                    whats = (What.FORWARD, *(backwards if phase != GP else ()), *([What.UPDATE] if self.eager else []))
                    for what in whats:
                        yield Step(what, stage, micro_batch, batch, phase, replica)
                if not self.eager:
                    yield Step(What.UPDATE, stage, None, batch, phase, replica)

    def needs(self, step: Step) -> Iterator[Step]:
        """The steps, with tick 0, whose results a step reads."""

        def like(what: What, **changes) -> Step:
            values = {"micro_batch": step.micro_batch, "stage": step.stage, "replica": step.replica} | changes
            return Step(what, batch=step.batch, phase=step.phase, **values)

        back = What.BACKWARD_INPUT if self.split else What.BACKWARD
        match step.what:
            case What.FORWARD:
                if step.stage:
                    yield like(What.FORWARD, stage=step.stage - 1)
                yield from self._update(step, 1 + self.staleness[step.stage])
            case What.BACKWARD | What.BACKWARD_INPUT:
                yield like(What.FORWARD)
                if step.stage < self.stages - 1:
                    yield like(back, stage=step.stage + 1)
                if self.eager:
                    yield from self._update(step, 1)
            case What.BACKWARD_WEIGHT:
                yield like(What.BACKWARD_INPUT)
            case What.UPDATE:
                last = What.FORWARD if step.phase == GP else What.BACKWARD_WEIGHT if self.split else What.BACKWARD
                if self.eager:
                    yield like(last)
                else:
                    for replica in range(self.replicas):
                        for micro_batch in self.of_replica(replica):
                            yield like(last, replica=replica, micro_batch=micro_batch)
                    if step.replica < self.replicas - 1 and step.phase != GP:  # the last one adds up all gradients
                        yield like(What.UPDATE, replica=self.replicas - 1)
                yield from self._update(step, 1)

    def number(self, step: Step) -> int:
        """Updates of a stage that the sequential algorithm makes before a step."""
        return step.batch * self.micro_batches + (step.micro_batch or 0) if self.eager else step.batch

    def _update(self, step: Step, before: int) -> Iterator[Step]:
        """The update of the step's stage that comes ``before`` updates before the step's own, if there is one."""
        number = self.number(step) - before
        if number >= 0:
            batch, micro_batch = divmod(number, self.micro_batches) if self.eager else (number, None)
            yield Step(What.UPDATE, step.stage, micro_batch, batch, self.batches[batch], step.replica)


def calibrating_steps(schedule: Schedule, device: int) -> list[Step]:
    """A device's steps in the batch that calibrates, of the first micro-batch; each replica has a number for it."""
    replica_of = {step.stage: step.replica for step in schedule.lists[device]}
    own = sorted(replica_of)

    def made(what: What, stage: int) -> Step:
        first = None if what is What.UPDATE else schedule.of_replica(replica_of[stage]).start
        return Step(what, stage, first, 0, replica=replica_of[stage])

    found = [made(What.FORWARD, stage) for stage in own]
    for stage in reversed(own):
        found += [made(What.BACKWARD, stage), made(What.UPDATE, stage)]
    return found


def learning_steps(schedule: Schedule, device: int) -> list[Step]:
    """A device's steps after a batch with true gradients, if gradients are predicted."""
    replica_of = {step.stage: step.replica for step in schedule.lists[device]}
    own = sorted(replica_of)
    found = [Step(What.LEARN, stage, None, 0, replica=replica_of[stage]) for stage in reversed(own)]
    return [*found, Step(What.ADAM, own[0], None, 0, replica=replica_of[own[0]])]


def under_way(steps: Iterable[Step]) -> int:
    """Micro-batches of a stage at most that have passed forward, but not yet all of the way back."""
    held = most = 0
    for step in steps:
        held += (step.what is What.FORWARD) - (step.what in (What.BACKWARD, What.BACKWARD_WEIGHT))
        most = max(most, held)
    return most
