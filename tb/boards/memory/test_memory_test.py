"""The memory test: a good memory passes, dead address lines and stuck data lines are named."""

import pytest
from adagp.boards.memory.ddr3 import DramStartError
from adagp.boards.memory.memory_test import check_memory
from phy_model import MemoryModel

WINDOW = 1024


def test_a_good_memory_passes(controller):
    assert check_memory(MemoryModel(controller.memory_bytes, controller.lanes), controller, window=WINDOW) > 2 * WINDOW


@pytest.mark.parametrize("bit", [6, 12, 17, 27])
def test_a_dead_address_line_is_named(controller, bit):
    memory = MemoryModel(controller.memory_bytes, controller.lanes, dead=1 << bit)
    with pytest.raises(DramStartError, match=f"memory test: .* address bit {bit} has no effect"):
        check_memory(memory, controller, window=WINDOW)


@pytest.mark.parametrize(("stuck", "lane", "pins"), [(0x0001, 0, "DQ0 to DQ7"), (0x8000, 1, "DQ8 to DQ15")])
def test_a_stuck_data_line_is_named(controller, stuck, lane, pins):
    memory = MemoryModel(controller.memory_bytes, controller.lanes, stuck=stuck)
    with pytest.raises(DramStartError, match=rf"memory test: .* are wrong \(lane {lane} \({pins}\): \d+\); first at"):
        check_memory(memory, controller, window=WINDOW)


@pytest.mark.parametrize("share", [(1, 128), (48, 56)])
def test_a_region_that_forgets_is_noticed(controller, share):
    first, last = (controller.memory_bytes * n // 128 for n in share)
    memory = MemoryModel(controller.memory_bytes, controller.lanes, lost=range(first + 1, last))
    with pytest.raises(DramStartError, match=r"memory test: \d+ of 64 bytes from 0x\w+ are wrong"):
        check_memory(memory, controller, window=WINDOW)
