"""The memory plan: alignment, regions, capacity."""

import random

import pytest
from adagp.host.compiler.memory_plan import ALIGNMENT, MemoryPlan, PlanError

SEED = 2


def test_blocks_are_aligned_disjoint_and_inside_their_group():
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    plan = MemoryPlan("first", "second", "third")
    wanted = {}
    for index in range(60):
        group, size = rng.choice(("first", "third")), rng.randint(1, 5000)
        alignment = rng.choice((ALIGNMENT, 2 * ALIGNMENT))
        wanted[f"t{index}"] = group, size, alignment
        plan.add(group, f"t{index}", size, alignment)
    plan.place(1 << 20, "part", 1)
    taken = set()
    for name, (group, size, alignment) in wanted.items():
        block = plan[name]
        start, end = plan.region(group)
        assert block.address % alignment == 0 and block.n_bytes == size
        assert start <= block.address and block.end <= end <= plan.n_bytes
        span = set(range(block.address // ALIGNMENT, -(-block.end // ALIGNMENT)))
        assert not span & taken, "two blocks share a beat"
        taken |= span
    assert len(list(plan)) == len(wanted) > 0
    assert plan.region("second")[0] == plan.region("second")[1] == plan.region("third")[0]


def test_too_large_a_network_is_told_what_takes_the_room():
    plan = MemoryPlan("all")
    plan.add("all", "conv1.output", 3 << 20)
    plan.add("all", "conv2.output", 9 << 20)
    plan.add("all", "small", 1 << 10)
    with pytest.raises(PlanError) as caught:
        plan.place(8 << 20, "ddr9", 64)
    assert str(caught.value) == (
        "network needs 12.0 MiB at batch 64, ddr9 has 8.0 MiB (a batch of about 42 would fit); "
        "largest: conv2.output 9.0 MiB, conv1.output 3.0 MiB, small 0.0 MiB"
    )


def test_refusals():
    plan = MemoryPlan("all")
    plan.add("all", "x", 1)
    with pytest.raises(ValueError, match="already a block 'x'"):
        plan.add("all", "x", 1)
    with pytest.raises(ValueError, match="0 bytes"):
        plan.add("all", "y", 0)
