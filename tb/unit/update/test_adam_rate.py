"""Adam's rate and powers against plain Python: random starts, dry ones, commits, and what the host writes."""

from math import isqrt

from adagp.rtl.update.adam_rate import AdamRate
from bench import cycles_until, seeded, simulate

ONE = (1 << 32) - 1


def stepped(powers, betas):
    return [power * beta >> 16 for power, beta in zip(powers, betas, strict=True)]


def corrected(mantissa, exponent, powers):
    """rate * sqrt(1 - beta2^t) / (1 - beta1^t), cut to 16 bits."""
    ratio = (isqrt((ONE - powers[1]) << 14) << 25) // ((ONE - powers[0]) >> 8)
    product = mantissa * ratio
    cut = max(0, product.bit_length() - 16)
    return product >> cut, exponent - 24 + cut


class Driver:
    """Accesses of the update unit, control and host to the component, and plain Python's answers."""

    def __init__(self):
        self.dut, self.powers, self.behind = AdamRate(), [ONE, ONE], None
        self.longest = self.starts = self.commits = 0

    async def pulse(self, ctx, *names):
        for name in names:
            ctx.set(getattr(self.dut, name), 1)
        await ctx.tick()
        for name in names:
            ctx.set(getattr(self.dut, name), 0)

    async def start(self, ctx, rate, betas, dry=False):
        dut = self.dut
        ctx.set(dut.rate, dict(zip(("mantissa", "exponent"), rate, strict=True)))
        ctx.set(dut.beta1, betas[0])
        ctx.set(dut.beta2, betas[1])
        ctx.set(dut.dry, dry)
        await self.pulse(ctx, "start")
        ctx.set(dut.dry, not dry)
        cycles = await cycles_until(ctx, dut.done, dut.LATENCY)
        after = stepped(self.powers, betas)
        for _ in range(2):
            assert (ctx.get(dut.o.mantissa), ctx.get(dut.o.exponent)) == corrected(*rate, after)
            await ctx.tick()
            assert not ctx.get(dut.done)
        if not dry:
            self.behind = after
        self.longest = max(self.longest, cycles)
        self.starts += 1
        self.check(ctx)

    async def commit(self, ctx):
        await self.pulse(ctx, "commit")
        self.commits += self.behind is not None
        self.powers, self.behind = self.behind or self.powers, None
        self.check(ctx)

    async def clear(self, ctx):
        await self.pulse(ctx, "clear")
        self.behind = None
        self.check(ctx)

    async def write(self, ctx, place, value):
        ctx.set(self.dut.value, value)
        await self.pulse(ctx, f"set{place + 1}")
        self.powers = [value if n == place else power for n, power in enumerate(self.powers)]
        self.check(ctx)

    def check(self, ctx):
        assert [ctx.get(self.dut.power1), ctx.get(self.dut.power2)] == self.powers


def test_a_training_run():
    """Many steps of one pair of betas: a dry start before each of two, then the commit."""
    driver = Driver()

    async def bench(ctx):
        driver.check(ctx)
        for step in range(40):
            for dry in (True, False) if step == 0 else (False, False):
                await driver.start(ctx, (53687, -29), (58982, 65470), dry)
            await driver.commit(ctx)
        assert driver.powers[0] < 1 << 27

    simulate(driver.dut, bench)
    assert driver.commits == 40


def test_random_orders():
    rng = seeded(1)
    driver = Driver()

    def some(bits):
        return rng.choice((0, (1 << bits) - 1, rng.randrange(1 << bits), rng.randrange(1 << rng.randint(1, bits))))

    async def bench(ctx):
        for _ in range(300):
            what = rng.random()
            if what < 0.5:
                rate = (some(16), rng.choice((-128, 127, rng.randint(-40, 0))))
                await driver.start(ctx, rate, (some(16), some(16)), rng.random() < 0.3)
            elif what < 0.7:
                await driver.commit(ctx)
            elif what < 0.8:
                await driver.clear(ctx)
            else:
                await driver.write(ctx, rng.randrange(2), some(32))

    simulate(driver.dut, bench)
    assert driver.starts > 100 and driver.commits > 20


def test_the_longest_start():
    driver = Driver()

    async def bench(ctx):
        await driver.start(ctx, (65535, 127), (65535, 0))

    simulate(driver.dut, bench)
    assert driver.longest == AdamRate.LATENCY
