"""Random signs: the hash by its definition, its statistics, and what an UPDATE makes of it."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from adagp.golden.hash import ROUNDS
from adagp.golden.program import GoldenMachine
from adagp.golden.random_signs import WORD, random_signs, words
from adagp.spec.commands import Command, Opcode, Source
from adagp.spec.config import VERSION
from adagp.spec.errors import ErrorCode
from adagp.spec.numerics import unpredicted
from adagp.spec.presets import preset
from adagp.spec.registers import Status

SEED = 20
MASK = 0xFFFFFFFF


def rotated(x, left):
    return (x << left | x >> 32 - left) & MASK


def by_definition(block, layer, seed, batch):
    """The same with Python's integers."""
    x, y = block, layer
    for r in range(ROUNDS):
        x = (rotated(x, 24) + y & MASK) ^ (batch if r % 2 else seed) ^ r * 0x9E3779B9 & MASK
        y = rotated(y, 3) ^ x
    return x


def test_the_hash_is_as_defined():
    rng = np.random.default_rng(SEED)
    for _ in range(50):
        block, layer, seed, batch = (int(value) for value in rng.integers(0, 1 << 32, 4))
        found = words(np.array([block, 0, MASK]), layer & 0xFFFF, seed, batch)
        assert found.tolist() == [by_definition(b, layer & 0xFFFF, seed, batch) for b in (block, 0, MASK)]


def test_a_weight_has_a_bit_of_its_block():
    signs = random_signs(100, 3, 5, 7)
    expected = [by_definition(i // WORD, 3, 5, 7) >> i % WORD & 1 for i in range(100)]
    assert signs.tolist() == expected and 20 < sum(expected) < 80


def bits(words):
    return np.unpackbits(words.astype("<u4").view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")


def near_half(share, trials):
    """Within five standard deviations of a fair coin."""
    assert np.all(np.abs(share - 0.5) < 5 * 0.5 / trials**0.5), float(np.abs(share - 0.5).max())


def test_as_many_signs_of_each_kind():
    many = np.stack([words(np.arange(512), *key) for key in itertools.product(range(4), range(4), range(1, 33))])
    near_half(bits(many).mean(axis=0), many.size)  # by place in the word
    near_half(bits(many).reshape(len(many), -1).mean(axis=1), 512 * WORD)  # by layer, seed and batch
    near_half(bits(many).reshape(len(many), -1).mean(axis=0), len(many))  # by weight


@pytest.mark.parametrize(("what", "n_bits"), [("block", 18), ("layer", 8), ("seed", 32), ("batch", 24)])
def test_what_differs_in_a_bit_has_other_signs(what, n_bits):
    """Half of them, whatever the bit; weights next to each other and batches after each other are such cases."""
    for bit in range(n_bits):
        key = {"layer": 3, "seed": 5, "batch": 17}
        blocks = np.arange(2048)
        before = words(blocks, **key)
        if what == "block":
            blocks = blocks ^ 1 << bit
        else:
            key[what] ^= 1 << bit
        near_half(bits(before ^ words(blocks, **key)).mean(axis=0), len(blocks))


def test_signs_are_not_correlated():
    """Neighbours in a layer; the same weight in any two of some batches, layers and seeds."""
    keys = list(itertools.product(range(3), (0, 1, 1000), range(1, 9)))
    signs = np.stack([random_signs(1 << 14, *key) for key in keys]) * 2.0 - 1
    products = signs @ signs.T / signs.shape[1]
    assert len(keys) == 72 and (np.diag(products) == 1).all()
    assert np.abs(products - np.eye(len(keys))).max() < 5 / signs.shape[1] ** 0.5
    for distance in (1, 2, 3, 4, 8, 16, 32, 64, 128, 576, 577):
        same = (signs[:, distance:] * signs[:, :-distance]).mean()
        assert abs(same) < 5 / (len(keys) * (signs.shape[1] - distance)) ** 0.5


def test_an_update_flips_signs_and_leaves_marks():
    """Momentum 0 and exponents 16 apart: the new momentum is the gradient."""
    count = 200
    rng = np.random.default_rng(SEED)
    gradient = rng.integers(-32767, 32768, count).astype("<i2")
    marked = rng.random(count) < 0.2
    gradient[marked] = unpredicted(preset("tiny").operand_width)
    places = {"a": 4096, "b": 8192, "c": 12288, "out": 16384}
    for variant, signs, seed in (("low", True, 1), ("low", True, 2), ("low", False, 1), ("baseline", True, 1)):
        config = replace(preset("tiny"), variant=variant, random_signs=signs)
        machine = GoldenMachine(config, np.zeros(1 << 15, np.uint8))
        machine.memory[4096 : 4096 + 2 * count] = gradient.view(np.uint8)
        machine.regions, machine.seed = [(8192, 1 << 15), (0, 0), (0, 0), (0, 0)], seed
        for tensor in (2, 3):
            machine.set_exponents(tensor, 0, 0)
        fields = {"count": count, "source": int(Source.RANDOM), "layer": 9, "a_id": 1, "b_id": 2, "out_id": 3}
        program = [
            Command(Opcode.HEADER, {"config_hash": config.config_hash, "version": VERSION, "phase_mask": 15}),
            Command(Opcode.UPDATE, {**fields, **{f"{k}_addr": v for k, v in places.items()}, "phase_mask": 15}),
            Command(Opcode.END, {"phase_mask": 15}),
        ]  # fmt: skip
        words = np.array([command.encode() for command in program], "<u4")
        machine.memory[: words.nbytes] = words.view(np.uint8).reshape(-1)
        machine.position = type(machine.position)(batch=77)
        machine.start(0, 2)
        status = machine.run()
        if not (config.predicts and signs):
            assert status & Status.ERROR and machine.error == ErrorCode.BAD_OPCODE
            continue
        assert status == Status.DONE
        found = machine.memory[16384 : 16384 + 4 * count].view("<i4") >> 16
        flipped = np.array([by_definition(i // 32, 9, seed, 77) >> i % 32 & 1 for i in range(count)])
        expected = np.where(marked, 0, np.where(flipped, -gradient.astype(int), gradient))
        np.testing.assert_array_equal(found, expected)
        assert 20 < marked.sum() < 70
