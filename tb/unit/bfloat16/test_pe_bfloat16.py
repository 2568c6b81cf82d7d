"""The floating-point PE, its multiplier and its adder against golden/bfloat16.py, bit for bit."""

import numpy as np
from adagp.golden import bfloat16
from adagp.rtl.bfloat16.adder import FloatAdder
from adagp.rtl.bfloat16.multiplier import FloatMultiplier
from adagp.rtl.bfloat16.pe import PEBfloat16
from adagp.synth.pe_mesh import PEMesh
from amaranth import Value
from bench import seeded, simulate
from float_patterns import bfloat16_pairs, corners, float32_pairs, nearby

N_PAIRS = 6000
N_CYCLES = 3000


def generator(seed):
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def raw(port):
    return Value.cast(port)


def test_sums():
    a, b = float32_pairs(generator(1), N_PAIRS)
    check_pairs(FloatAdder(), a, b, bfloat16.add(a, b))


def test_products():
    a, b = bfloat16_pairs(generator(1), N_PAIRS)
    check_pairs(FloatMultiplier(), a, b, bfloat16.multiply(a, b))


def check_pairs(dut, a, b, expected):
    """A pair every cycle, and its result after LATENCY cycles; ``b_en`` of a multiplier is always given."""
    rng, seen = seeded(1), 0
    order = list(range(len(a)))
    rng.shuffle(order)

    async def bench(ctx):
        nonlocal seen
        if hasattr(dut, "b_en"):
            ctx.set(dut.b_en, 1)
        for cycle in range(len(order) + dut.LATENCY):
            if cycle < len(order):
                ctx.set(raw(dut.a), int(a[order[cycle]]))
                ctx.set(raw(dut.b), int(b[order[cycle]]))
            if cycle >= dut.LATENCY:
                place = order[cycle - dut.LATENCY]
                found = ctx.get(raw(dut.o))
                assert found == expected[place], f"{a[place]:x}, {b[place]:x}: {found:x}, not {expected[place]:x}"
                seen += 1
            await ctx.tick()

    simulate(dut, bench)
    assert seen == len(a) > N_PAIRS


def test_random_cycles():
    """Loads, swaps and psums at random; many psums nearly cancel the product they meet, or tie with it."""
    dut, rng, random = PEBfloat16(), seeded(2), generator(2)
    numbers = [*corners(7), *random.integers(0, 1 << 16, 60).tolist(), *(0x3F80 + bits for bits in range(40))]
    seen = cancelled = 0

    async def bench(ctx):
        nonlocal seen, cancelled
        shadow = active = 0
        products, psums = [], []
        for cycle in range(N_CYCLES):
            x, w = rng.choice(numbers), rng.choice(numbers)
            load, swap = rng.random() < 0.3, rng.random() < 0.3
            active = shadow if swap else active
            products.append(int(bfloat16.multiply(np.array([x]), np.array([active]))[0]) if cycle else 0)
            shadow = w if load else shadow
            # The psum meets the product of the operand that came so many cycles earlier.
            meets = products[max(0, cycle - (dut.latency - dut.psum_latency))]
            above = int(nearby(random, np.array([meets]))[0]) if rng.random() < 0.8 else rng.choice(corners(23))
            psums.append(above)
            for port, value in (
                (dut.stationary, w), (dut.load, load), (dut.swap, swap), (dut.stream, x), (dut.i_psum, above),
            ):  # fmt: skip
                ctx.set(raw(port), value)
            await ctx.tick()
            if cycle >= first + dut.latency:
                product, psum = products[cycle + 1 - dut.latency], psums[cycle + 1 - dut.psum_latency]
                expected = int(bfloat16.add(np.array([psum]), np.array([product]))[0])
                assert ctx.get(raw(dut.o_psum)) == expected, f"{psum:x} + {product:x}"
                seen += 1
                cancelled += (psum ^ product) >> 31 and abs((psum >> 23 & 255) - (product >> 23 & 255)) <= 1

    first = 20  # by then something has been loaded and swapped
    simulate(dut, bench)
    assert seen == N_CYCLES - first - dut.latency > 0
    assert cancelled > N_CYCLES // 10


ROWS, COLS, VECTORS = 4, 4, 25


def test_array():
    """Four by four PEs multiply matrices, twice as many terms as there are rows: the sums of golden, in its order."""
    dut, rng, random = PEMesh(PEBfloat16, ROWS, COLS), seeded(3), generator(3)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((VECTORS, 2 * ROWS), (2 * ROWS, COLS)))
    a[rng.randrange(VECTORS), rng.randrange(2 * ROWS)] = np.inf
    a, b = ((side.view(np.uint32) >> 16).astype(np.int64) for side in (a, b))
    expected, found = bfloat16.matmul(a, b), np.zeros((VECTORS, COLS), np.int64)

    async def bench(ctx):
        psums = np.zeros_like(found)
        for half in range(2):
            rows = range(half * ROWS, (half + 1) * ROWS)
            for col in rng.sample(range(COLS), COLS):
                ctx.set(dut.load, 1 << col)
                ctx.set(dut.stationary, [int(b[row, col]) for row in rows])
                await ctx.tick()
            ctx.set(dut.load, 0)
            psums = await stream(ctx, dut, rng, a[:, rows], psums)
        found[:] = psums

    simulate(dut, bench)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > VECTORS * COLS // 2
    assert (bfloat16.matmul(a[:, ::-1], b[::-1]) != found).any()  # another order would be seen


async def stream(ctx, dut, rng, vectors, psums):
    """Vectors with random pauses between them, the first with a swap; returns ``psums`` plus their products."""
    begins = np.cumsum([1 + rng.randrange(3) * (rng.random() < 0.5) for _ in vectors]).tolist()
    found = np.zeros_like(psums)
    down, product = PEBfloat16.psum_latency, PEBfloat16.latency - PEBfloat16.psum_latency
    ends = [begin + product + ROWS * down for begin in begins]
    for cycle in range(ends[-1] + 1):
        if cycle in ends:
            found[ends.index(cycle)] = [ctx.get(psum) for psum in dut.o_psum]
        operands = [rng.randrange(1 << 16) for _ in range(ROWS)]
        for row in range(ROWS):
            if cycle - row * down in begins:
                operands[row] = int(vectors[begins.index(cycle - row * down), row])
        ctx.set(dut.stream, operands)
        ctx.set(dut.swap, sum((cycle == begins[0] + row * down) << row for row in range(ROWS)))
        meets = begins.index(cycle - product) if cycle - product in begins else None
        ctx.set(
            dut.i_psum, [rng.randrange(1 << 32) if meets is None else int(psums[meets, col]) for col in range(COLS)]
        )
        await ctx.tick()
    return found
