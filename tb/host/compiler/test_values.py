"""Values: shapes in memory, and the way there and back."""

import numpy as np
import pytest
from adagp.host.compiler.values import Value

SHAPES = {
    (2, 3, 4, 5): (2, 4, 5, 3), (2, 7): (2, 1, 1, 7), (2, 6, 3): (2, 1, 6, 3), (2, 3, 2, 2, 5): (2, 1, 12, 5),
    (9,): (1, 1, 1, 9), (): (1, 1, 1, 1),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_a_value_lies_in_memory_and_comes_back(shape):
    value, array = Value("v", shape), np.arange(np.prod(shape)).reshape(shape)
    stored = value.to_memory(array)
    assert value.memory_shape == stored.shape == SHAPES[shape]
    np.testing.assert_array_equal(value.from_memory(stored), array)


def test_channels_are_last_in_memory():
    array = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    stored = Value("v", array.shape).to_memory(array)
    assert stored[1, 2, 3, 1] == array[1, 1, 2, 3]
    rows = np.arange(2 * 6 * 3).reshape(2, 6, 3)
    assert Value("v", rows.shape).to_memory(rows)[1, 0, 4, 2] == rows[1, 4, 2]
