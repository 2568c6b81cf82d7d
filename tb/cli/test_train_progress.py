"""Remarks of ``adagp train`` during the run."""

from types import SimpleNamespace

from adagp.cli.train_progress import recorded_once
from adagp.host.program import Program
from adagp.spec.commands import Command, Opcode, Phase


def test_a_finished_recording_is_told_once():
    """After the first batch of this run whose phase has one of the commands: here of GP, after two of BP."""
    program = Program()
    for mask in (Phase.ALL, Phase.GP, Phase.GP):
        program.append(Command(Opcode.FORWARD, {"phase_mask": mask}))
    progress = SimpleNamespace(batches=[3, 1, 1])  # of warm-up, BP and GP before the run was resumed
    trainer = SimpleNamespace(progress=progress, network=SimpleNamespace(program=program))
    message = recorded_once("1:2", trainer)
    told = []
    for phase in (1, 1, 2, 2):
        progress.batches[phase] += 1
        told.append(message())
    assert [bool(text) for text in told] == [False, False, True, False] and "commands 1:2 are recorded" in told[2]
