"""Runs of GP batches on the simulated RTL: the host isn't needed within them, and they can be interrupted anywhere."""

from copy import deepcopy

import pytest
from adagp.host.devices.simulated import SimDevice
from adagp.spec.commands import Phase
from adagp.spec.registers import AS_SCHEDULED, Control, Status
from adagp.spec.schedule import State
from scheduled_runs import MEMORY, Run, config_of, differences, golden, settings, simulated

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

NAME, GP = "linear", 2


class Watched(SimDevice):
    """Notes what the host does with it; at an interrupt also what it finds, which isn't noted."""

    def __init__(self, *arguments, **options):
        self.log = []
        super().__init__(*arguments, **options)

    def read_register(self, name):
        self.log.append(("read", name, None))
        return super().read_register(name)

    def write_register(self, name, value):
        self.log.append(("write", name, int(value)))
        super().write_register(name, value)

    def write(self, address, array):
        self.log.append(("memory", address, None))
        super().write(address, array)

    def read(self, address, n_bytes):
        self.log.append(("memory", address, None))
        return super().read(address, n_bytes)

    def wait_for_interrupt(self):
        super().wait_for_interrupt()
        length = len(self.log)
        found = {
            "status": Status(self.read_register("STATUS")), "phase": self.read_register("PHASE_NOW"),
            "position": self.position()[0], "commands": self.counters(GP)["commands"],
        }  # fmt: skip
        del self.log[length:]
        self.log.append(("interrupt", "", found))


def starts(log):
    """The host's accesses after each start by schedule, up to the interrupt at the program's end."""
    begins = [place for place, entry in enumerate(log) if entry == ("write", "PHASE", AS_SCHEDULED)]
    for begin in begins:
        entries = log[log.index(("write", "CONTROL", Control.START), begin) :]
        ends = (
            i for i, (kind, _, found) in enumerate(entries) if kind == "interrupt" and found["status"] & Status.DONE
        )
        yield entries[: next(ends) + 1]


def test_no_host_within_a_run_of_predicted_batches():
    """From START on there is no access, until the BP batch behind the run waits for the gradient of its loss."""
    device = Watched(config_of("max"), memory_bytes=MEMORY, limit=20_000_000)
    run = Run(NAME, device, settings(NAME))
    run.go()
    device.close()
    per_batch = sum(bool(line.command.phase_mask & Phase.GP) for line in run.network.program)
    found = list(starts(device.log))
    assert len(found) == len(run.seen) == 7
    for (start, *entries), gp_batches, done in zip(found, (0, 0, 0, 0, 3, 1, 1), (1, 2, 3, 4, 8, 10, 12), strict=True):
        assert start == ("write", "CONTROL", Control.START)
        kind, _, first = entries[0]
        assert kind == "interrupt" and first["status"] & Status.HOST and first["phase"] != GP
        assert first["commands"] == gp_batches * per_batch
        assert first["position"].epoch * 4 + first["position"].batch == done
        interrupts = [entry[2]["status"] for entry in entries if entry[0] == "interrupt"]
        assert len(interrupts) == 2 and interrupts[1] & Status.DONE


def middle(run):
    """True if the next batch belongs to a run of GP that has begun."""
    _, _, gp, left, _ = run.seen[-1]["position"].tolist()
    return bool(gp and left)


def interrupted(chosen, undisturbed, first, second, position=None):
    """Train on one device until ``middle``, go on with another; what both saw, of that which ``undisturbed`` did."""
    kept = []

    def keep(run):
        if not kept and middle(run):
            kept.append((run.network.snapshot(run.device), deepcopy(run.trainer.progress), len(run.seen)))
            raise InterruptedError

    run = Run(NAME, first, chosen, keep)
    with pytest.raises(InterruptedError):
        run.go()
    first.close()
    (arrays, progress, n_starts) = kept[0]
    assert 0 < n_starts < len(undisturbed)
    assert differences(undisturbed[:n_starts], run.seen) == []
    other = Run(NAME, second, chosen)
    other.network.restore(second, arrays)
    if position is not None:
        second.set_position(position)
    other.trainer.progress = progress
    seen = other.go()
    second.close()
    return undisturbed[n_starts:], seen


@pytest.mark.parametrize("variant", ["low", "max"])
def test_a_run_interrupted_between_its_predicted_batches_ends_with_the_same_bits(variant):
    """An epoch ends in the middle of the run, and with it a start."""
    chosen = settings(NAME, epochs=4, train_images=2 * 9)
    undisturbed = Run(NAME, golden(), chosen).go()
    assert [start["batches"] for start in undisturbed] == [[1, 0, 0], [2, 0, 0], [2, 0, 2], [2, 1, 3], [2, 2, 4]]
    rest, seen = interrupted(chosen, undisturbed, simulated(variant), simulated(variant))
    assert differences(rest, seen) == []
    if variant == "low":  # what the position is for
        rest, seen = interrupted(chosen, undisturbed, golden(), golden(), State())
        assert seen[-1]["hash"] != rest[-1]["hash"]
