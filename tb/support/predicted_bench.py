"""The update unit's bench where gradients are predicted: what commands must do by the golden model."""

from dataclasses import replace

import numpy as np
from adagp.golden.adam import AdamExponents, Powers, adam, step_rate
from adagp.golden.quality import quality_sums, rms_exponent
from adagp.golden.update import Hyper, UpdateExponents, update
from adagp.spec.numerics import unpredicted
from update_bench import TINY, UpdateBench

__all__ = ["KINDS", "PREDICTED", "PredictedBench"]

LOW = replace(TINY, variant="low")
PREDICTED = {
    "tiny": LOW,
    "two lanes": replace(LOW, update_lanes=2, max_burst_beats=16),
    "four lanes": replace(LOW, update_lanes=4, port_width=128, update_cycles=3),
    "eight lanes": replace(LOW, update_lanes=8, port_width=256),
    "streamed": replace(LOW, variant="max", streamed_predictions=True, update_lanes=4, port_width=128, update_cycles=3),
}
KINDS = {
    "given": {}, "zero": {"zero": 1}, "quality": {"quality": 1}, "nothing": {"zero": 1, "quality": 1},
    "keep": {"keep": 1}, "adam": {"adam": 1},
}  # fmt: skip
SECOND_MAX = (1 << 44) - 1


class PredictedBench(UpdateBench):
    """Knows ADAM, quality, gradients that are zero or not there, and plays who makes Adam's rate."""

    def __init__(self, config, rng, stall=0.3):
        super().__init__(config, rng, stall)
        self.powers = Powers(rng.getrandbits(32), rng.getrandbits(32))
        self.qualities, self.expected_qualities = [], []
        self.frozen = self.rates = 0

    def task(self, count, kind="given", **fields):
        rng = self.rng
        t = super().task(
            count, ed=rng.randint(-9, 9), layer=rng.getrandbits(16), d_id=rng.randrange(self.config.n_tensors), **fields
        )
        size = 8 if kind == "adam" else 2
        t.update(
            {"d_addr": self.array(count, size, self.second if kind == "adam" else self.operand),
             "scale_id": rng.randrange(1, self.config.n_tensors), "scale": rng.randint(-30, 30),
             **KINDS[kind], **fields}
        )  # fmt: skip
        if self.config.streams:
            t["filter"] = 0 if kind == "adam" else rng.choice((0, *range(self.config.update_lanes, 12)))
        t["ed_next"] = t["ed"] + rng.randint(-2, 2)
        t["more"] = [{"mantissa": rng.getrandbits(16), "exponent": -16} for _ in range(3)]
        if kind == "adam":
            t.update(xm=-16, xd=-16, ed=t["eg"] + rng.randint(-2, 2), ed_next=t["eg"] + rng.randint(-2, 2))
            t["more"][2] = {"mantissa": rng.choice((1, 1 << 9, 0xFFFF)), "exponent": rng.randint(-128, 127)}
        elif rng.random() < 0.3:
            t.update(eg=t["eg"] + rng.choice((-110, 110)))  # with a scale: more than eight bits
        if "keep" in KINDS[kind]:
            self.memory.read_faults |= set(range(t["out_addr"], t["out_addr"] + 4 * count))
        if "zero" in KINDS[kind]:
            self.memory.read_faults |= set(range(t["a_addr"], t["a_addr"] + 2 * count))
        else:
            for n in range(count):
                if rng.random() < 0.3:
                    self.memory.poke(t["a_addr"] + 2 * n, 2, unpredicted(16))
        return t

    def operand(self):
        return self.rng.choice((unpredicted(16), 0x7FFF, -0x7FFF, self.rng.randint(-0x7FFF, 0x7FFF)))

    def second(self):
        return self.rng.choice((0, SECOND_MAX, self.rng.getrandbits(44), self.rng.getrandbits(20)))

    def read(self, addr, count, size):
        return np.array([self.memory.peek(addr + n * size, size) for n in range(count)], np.int64)

    def expect(self, t):
        """Results; the rest is added to what is expected."""
        count = t["count"]
        g = np.zeros(count, np.int64) if t.get("zero") else self.read(t["a_addr"], count, 2)
        if t.get("filter"):
            g[t["filter"] - 1 :: t["filter"]] = unpredicted(16)
        hi, lo = self.read(t["b_addr"], count, 2), self.read(t["c_addr"], count, 2)
        v = self.read(t["out_addr"], count, 4)
        run = self._adam if t.get("adam") else self._sgd
        new, tops, saturations = run(t, g, hi, lo, v)
        if not t["dry"]:
            self.expected_saturations += saturations
            for name, size, values in zip(("b", "c", "out", "d"), (2, 2, 4, 8), new, strict=False):
                self.expected += [(t[f"{name}_addr"] + n * size, size, int(x)) for n, x in enumerate(values)]
        return [(id, int(top is not None), top) for id, top in tops]

    def _sgd(self, t, g, hi, lo, v):
        exps = UpdateExponents(t["eg"], t["ew"], t["ew_next"], t["ev"], t["ev_next"])
        hyper = tuple(Hyper(t[f"m{letter}"], t[f"x{letter}"]) for letter in "lmd")
        if keeps := t.get("keep"):
            v, hyper = np.zeros_like(v), (hyper[0], Hyper(0, 0), hyper[2])
        r = update(g, hi, lo, v, exps.dry() if t["dry"] else exps, hyper, 16)
        tops = [(t["out_id"], r.top_v), (t["b_id"], r.top_w)][bool(keeps) :]
        self.frozen += int((g == unpredicted(16)).sum())
        if t.get("quality"):
            sums = quality_sums(self.read(t["d_addr"], t["count"], 2), g, 16)
            tops.append((t["scale_id"], rms_exponent(sums, t["eg"]) if sums.tt else None))
            if not t["dry"]:
                self.expected_qualities.append({
                    "layer": t["layer"], "ee": sums.ee, "et": sums.et, "tt": sums.tt, "count": sums.count,
                    "e_exponent": t["ed"], "t_exponent": t["eg"] - t["scale"],
                })  # fmt: skip
        return (r.hi, r.lo, r.v)[: 2 if keeps else 3], tops, r.saturations

    def _adam(self, t, g, hi, lo, m):
        s = self.read(t["d_addr"], t["count"], 8)
        exps = AdamExponents(t["eg"], t["ew"], t["ew_next"], t["ev"], t["ev_next"], t["ed"], t["ed_next"])
        beta2, rest2, epsilon = (Hyper(h["mantissa"], h["exponent"]) for h in t["more"])
        r = adam(
            g, hi, lo, m, s, exps.dry() if t["dry"] else exps, self.rate(t["ml"], t["xl"], t["mm"], beta2.mantissa),
            (Hyper(t["mm"], t["xm"]), beta2), (Hyper(t["md"], t["xd"]), rest2), epsilon.mantissa, 16,
        )  # fmt: skip
        tops = [(t["out_id"], r.top_m), (t["b_id"], r.top_w), (t["d_id"], r.top_s)]
        return (r.hi, r.lo, r.m, r.s), tops, r.saturations

    def rate(self, mantissa, exponent, beta1, beta2):
        return step_rate(Hyper(mantissa, exponent), self.powers.after(Hyper(beta1, -16), Hyper(beta2, -16)))

    async def make_rates(self, ctx):
        """Some cycles after a start, for the command that runs."""
        port = self.dut.rate
        signals = (port.start, port.dry, port.rate, port.beta1, port.beta2)
        while True:
            _, _, start, dry, rate, beta1, beta2 = await ctx.tick().sample(*signals)
            if not start:
                continue
            self.rates += not dry
            made = self.rate(rate.mantissa, rate.exponent, beta1, beta2)
            await ctx.tick().repeat(self.rng.randint(1, 9))
            ctx.set(port.o, {"mantissa": made.mantissa, "exponent": made.exponent})
            ctx.set(port.done, 1)
            await ctx.tick()
            ctx.set(port.done, 0)

    async def watch_quality(self, ctx):
        dut = self.dut
        async for _, _, valid, quality in ctx.tick().sample(dut.quality_valid, dut.quality):
            if valid:
                report = {name: getattr(quality, name) for name in dut.quality.shape().members}
                self.qualities.append((self.done, report))  # done: of commands before

    def background(self):
        return (self.make_rates, self.watch_quality)
