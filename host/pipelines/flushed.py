"""Lists of schedules that end each batch before the next one reads the new weights."""

from collections.abc import Callable, Iterator

from ...spec.phases import GP
from .steps import Step, What

__all__ = ["Batch", "ended", "gpipe", "interleaved", "one_f_one_b", "zb_h1"]

F, B, U = What.FORWARD, What.BACKWARD, What.UPDATE

Batch = Callable[[What, int, int | None], Step]
"""Makes a step of one batch from its kind, stage and micro-batch."""


def gpipe(make: Batch, device: int, devices: int, micro_batches: int) -> Iterator[Step]:
    """All micro-batches forward, then all backward."""
    del devices
    yield from (make(F, device, m) for m in range(micro_batches))
    yield from (make(B, device, m) for m in range(micro_batches))


def one_f_one_b(make: Batch, device: int, devices: int, micro_batches: int) -> Iterator[Step]:
    """Forward as far as the first backward needs, then one backward and one forward in turn (DAPPLE)."""
    ahead = devices - device
    yield from (make(F, device, m) for m in range(min(ahead, micro_batches)))
    for m in range(micro_batches):
        yield make(B, device, m)
        if m + ahead < micro_batches:
            yield make(F, device, m + ahead)


def zb_h1(make: Batch, device: int, devices: int, micro_batches: int) -> Iterator[Step]:
    """1F1B whose backward passes are split: weights' gradients come later on later devices, and fill their gaps."""
    ahead = devices - device
    yield from (make(F, device, m) for m in range(min(ahead, micro_batches)))
    for m in range(micro_batches):
        yield make(What.BACKWARD_INPUT, device, m)
        if m >= device:
            yield make(What.BACKWARD_WEIGHT, device, m - device)
        if m + ahead < micro_batches:
            yield make(F, device, m + ahead)
    yield from (make(What.BACKWARD_WEIGHT, device, m) for m in range(max(0, micro_batches - device), micro_batches))


def interleaved(make: Batch, device: int, devices: int, micro_batches: int, chunks: int) -> Iterator[Step]:
    """1F1B with several stages a device; micro-batches pass them in groups of as many as there are devices."""
    forward = list(chunk_order(device, devices, micro_batches, chunks))
    backward = [((chunks - 1) * devices + 2 * device - stage, m) for stage, m in forward]
    ahead = min(len(forward), 2 * (devices - device - 1) + (chunks - 1) * devices + 1)
    yield from (make(F, *one) for one in forward[:ahead])
    for n, one in enumerate(backward):
        yield make(B, *one)
        if n + ahead < len(forward):
            yield make(F, *forward[n + ahead])


def chunk_order(device: int, devices: int, micro_batches: int, chunks: int) -> Iterator[tuple[int, int]]:
    """Stage and micro-batch of a device's forward steps."""
    for first in range(0, micro_batches, devices):
        for chunk in range(chunks):
            yield from ((chunk * devices + device, m) for m in range(first, min(first + devices, micro_batches)))


def ended(steps: list[Step], phase: int) -> Iterator[Step]:
    """A batch's steps, each stage's last one followed by its update; without backward steps in GP."""
    kept = [step for step in steps if phase != GP or step.what is F]
    last = {step.stage: n for n, step in enumerate(kept)}
    for n, step in enumerate(kept):
        yield step
        if last[step.stage] == n:
            yield Step(U, step.stage, None, step.batch, phase, step.replica)
