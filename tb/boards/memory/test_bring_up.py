"""The host starts a memory: the first commands as LiteDRAM lists them, eyes that are known, lanes that have none."""

import random
from dataclasses import replace

import pytest
from adagp.boards.memory.controller import COMMANDS, CONTROLS, ControllerError, DramController
from adagp.boards.memory.ddr3 import DramStartError, start
from litedram.init import get_sdram_phy_py_header
from phy_model import Lane, PhyModel


def model(controller, seed, **changes):
    """A PHY with random eyes; ``changes`` to its last lane."""
    rng = random.Random(seed)
    lanes = []
    for _ in range(controller.lanes):
        first = rng.randrange(controller.delays - 2)
        lanes.append(Lane(rng.randrange(controller.bitslips), first, rng.randrange(first + 2, controller.delays)))
    lanes[-1] = replace(lanes[-1], **changes)
    return PhyModel(controller, lanes, seed)


def run(phy):
    waits = []
    return start(phy, phy.controller, sleep=waits.append), waits


def test_the_first_commands_are_litedrams(core, controller):
    made, _ = core
    known: dict = {}
    found = made.sdram.controller.settings
    exec(get_sdram_phy_py_header(found.phy, found.timing), known)  # LiteDRAM's own rendering, as Python
    assert {f"dfii_command_{name}": bits for name, bits in COMMANDS.items()}.items() <= known.items()
    assert {f"dfii_control_{name}": bits for name, bits in CONTROLS.items()}.items() <= known.items()
    phy = model(controller, 1)
    _, waits = run(phy)
    sequence = known["init_sequence"]
    assert len(sequence) > 5
    reset, *steps = phy.begun
    assert reset[2] == 0 and steps == [(address, bank, value) for _, address, bank, value, _ in sequence]
    assert waits[0] >= 200e-6
    assert waits[1 : 1 + len(sequence)] == [cycles / controller.clock_hz for *_, cycles in sequence]
    assert min(waits[1 + len(sequence) :]) * controller.clock_hz > 30  # a read's latency
    assert waits[1] >= 500e-6  # JESD79-3: from the end of reset to CKE


@pytest.mark.parametrize("seed", range(8))
def test_eyes_are_found(controller, seed):
    print("seed", seed)
    phy = model(controller, seed)
    shares = []
    eyes = start(phy, controller, sleep=lambda seconds: None, progress=shares.append)
    assert [(eye.bitslip, eye.first, eye.last) for eye in eyes] == [
        (lane.bitslip, lane.first, lane.last) for lane in phy.lanes
    ]
    for eye, lane in zip(eyes, phy.lanes, strict=True):
        assert lane.works and lane.now == [eye.bitslip, (lane.first + lane.last) // 2]
    assert phy.reads > controller.bitslips * controller.delays
    assert shares == sorted(shares) and shares[-1] == 1
    assert phy.values["sdram_dfii_control"] == CONTROLS["sel"]
    assert phy.values["ddrctrl_init_done"] == 1 and phy.row is None


def test_the_widest_of_two_eyes_is_taken(controller):
    class Two(Lane):
        """Also reads well in a narrow eye, at the first bitslip and delay."""

        @property
        def works(self):
            return Lane.works.fget(self) or self.now == [0, 0]

    lanes = [Two(controller.bitslips - 1, 2, 6), Lane(1, 0, 1)]
    eyes, _ = run(PhyModel(controller, lanes, 1))
    assert [(eye.bitslip, eye.delay, eye.width) for eye in eyes] == [(controller.bitslips - 1, 4, 5), (1, 0, 2)]


@pytest.mark.parametrize("changes", [{"first": 1, "last": 0}, {"bitslip": 99}])
def test_a_lane_without_an_eye_is_named(controller, changes):
    phy = model(controller, 3, **changes)
    with pytest.raises(DramStartError, match=r"calibration: lane 1 \(DQ8 to DQ15\) reads wrongly at every") as error:
        run(phy)
    assert str(error.value).count("\n") == 0
    assert phy.values["ddrctrl_init_done"] == 0 and not phy.values["sdram_dfii_control"] & CONTROLS["sel"]


def test_data_without_a_strobe_are_an_accident(controller):
    if "ddrphy_burstdet_seen" not in controller.registers:
        assert controller.phy == "A7DDRPHY"  # which doesn't look at strobes
        assert len(run(model(controller, 4, seen=False))[0]) == 2
        return
    with pytest.raises(DramStartError, match=r"lane 1 .* 3 of 192 bits"):
        run(model(controller, 4, seen=False))


def test_an_eye_that_closes_is_noticed(controller):
    class Tired(Lane):
        """Reads well as often as calibration reads at a bitslip and delay, and then never again."""

        left = 3 * 3

        @property
        def works(self):
            if Lane.works.fget(self):
                Tired.left -= 1
                return Tired.left >= 0
            return False

    lanes = [Lane(0, 0, 3), Tired(1, 2, 4)]
    with pytest.raises(DramStartError, match=r"lane 1 .* has \d+ wrong bits at bitslip 1 and delay 3, in the middle"):
        run(PhyModel(controller, lanes, 5))


def test_descriptions_come_back(controller, tmp_path):
    path = tmp_path / "dram.json"
    controller.save(path)
    assert DramController.load(path) == controller
    assert controller.memory_bytes in (1 << 29, 1 << 28)
    assert controller.transfers_per_second in (400_000_000, 800_000_000)
    for text in ("[]", "{}", "nonsense", path.read_text().replace('"lanes"', '"alleys"')):
        path.write_text(text)
        with pytest.raises(ControllerError, match=r"dram.json isn't the description of a DRAM controller"):
            DramController.load(path)
    with pytest.raises(ControllerError, match="has no register 'ddrphy_nothing'"):
        controller.register("ddrphy_nothing")
    assert all(offset + 4 * words <= 1 << 12 for offset, words in controller.registers.values())
