"""Steps of pipelined batches on the estimator: cycles without data, of batches that no simulator gets through."""

from collections.abc import Iterator, Sequence

from ...host.devices.estimator import EstimatorDevice
from ...host.estimate.repeats import Known
from ...host.pipelines.device_program import Staged
from ...host.pipelines.steps import Step
from ...host.pipelines.worker import Worker
from ...host.program import Program
from ...spec.phases import BP, GP
from ...spec.registers import Status
from .pipeline_steps import Steps

__all__ = ["estimated_steps"]


def estimated_steps(staged: Staged, known: Known | None = None) -> dict[str, Steps]:
    """The :data:`~.pipeline_steps.Steps` of a batch by phase, ``bp`` and with predictions ``gp``, device after device.

    ``known``: of the configuration, see :class:`~adagp.host.devices.estimator.EstimatorDevice`.
    """
    found: dict[str, Steps] = {name: [] for name in (("bp", "gp") if staged.gp else ("bp",))}
    for place, compiled in enumerate(staged.devices):
        device = EstimatorDevice(staged.config, known)
        Worker(staged, place, device).install()
        found["bp"] += _timed(device, place, compiled.program, BP, compiled.steps)
        if compiled.gp is not None:
            found["gp"] += _timed(device, place, compiled.gp, GP, compiled.gp_steps)
    return found


def _timed(
    device: EstimatorDevice, place: int, program: Program, phase: int, steps: Sequence[Step]
) -> Iterator[tuple[int, Step, float]]:
    """Run a device's program in time, from stop to stop of the host."""
    device.start(program, phase)
    before = 0
    for step in steps:
        status = device.wait()
        cycles = device.counters(phase)["cycles"]
        yield place, step, float(cycles - before)
        before = cycles
        if status & Status.HOST:
            device.resume()
    assert status & Status.DONE, "the program has more steps than its device"
