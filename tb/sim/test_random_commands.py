"""The operators of switches in the whole machine: programs of random commands, against the golden model bit by bit."""

import pytest
from random_programs import DESIGNS, DRAWS, SEEDS, drawn, same_bits

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first


@pytest.mark.parametrize("variant", DESIGNS)
@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_commands(variant, name, seed):
    made = drawn(name, variant, seed)
    same_bits(made, seed)
    assert sum(size for _, size in made.results) > 0
