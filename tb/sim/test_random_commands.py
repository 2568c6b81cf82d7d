"""The operators of switches in the whole machine: programs of random commands, against the golden model bit by bit."""

import pytest
from random_programs import DESIGNS, DRAWS, SEEDS, drawn, same_bits

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first


CASES = [
    *((name, design) for name in DRAWS for design in DESIGNS), ("dropout", "few"),
    pytest.param("matmul", "few", marks=pytest.mark.slow),  # a simulator of its own, with nothing that the others lack
]  # fmt: skip


@pytest.mark.parametrize(("name", "design"), CASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_commands(name, design, seed):
    made = drawn(name, design, seed)
    same_bits(made, seed)
    assert sum(size for _, size in made.results) > 0
