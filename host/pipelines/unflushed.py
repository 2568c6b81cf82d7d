"""Lists of schedules with stale weights: a batch's end isn't awaited, and each micro-batch has its own update."""

from collections.abc import Iterator

from ...spec.phases import GP
from .steps import Step, What

__all__ = ["registers", "streamed"]


def _stream(batches: tuple[int, ...], micro_batches: int) -> list[tuple[int, int, int]]:
    """Batch, phase and micro-batch of all micro-batches in a row."""
    return [(batch, phase, m) for batch, phase in enumerate(batches) for m in range(micro_batches)]


def _learn(stage: int, batch: int, phase: int, micro_batch: int, tick: int = 0) -> Iterator[Step]:
    """Backward pass and update of a micro-batch; in GP the update alone."""
    for what in (What.UPDATE,) if phase == GP else (What.BACKWARD, What.UPDATE):
        yield Step(what, stage, micro_batch, batch, phase, tick=tick)


def streamed(device: int, missed: int, micro_batches: int, batches: tuple[int, ...]) -> Iterator[Step]:
    """The list of a device with both passes of a stage: one backward and one forward in turn, without a flush.

    Forward steps miss ``missed`` updates, so one more micro-batch is between its two passes.
    """
    stream = _stream(batches, micro_batches)
    ahead = missed + 1
    for n in range(len(stream) + ahead):
        if n >= ahead:
            batch, phase, m = stream[n - ahead]
            yield from _learn(device, batch, phase, m)
        if n < len(stream):
            batch, phase, m = stream[n]
            yield Step(What.FORWARD, device, m, batch, phase)


def registers(device: int, devices: int, micro_batches: int, batches: tuple[int, ...]) -> Iterator[Step]:
    """The lists of a register scheme: forward stages, then backward stages; the middle device does the last of both.

    A micro-batch moves on by a device each tick.
    """
    last = devices // 2
    for n, (batch, phase, m) in enumerate(_stream(batches, micro_batches)):
        tick = n + device
        if device <= last:
            yield Step(What.FORWARD, device, m, batch, phase, tick=tick)
        if device >= last:
            yield from _learn(devices - 1 - device, batch, phase, m, tick)
