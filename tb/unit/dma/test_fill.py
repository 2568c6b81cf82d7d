"""Fill against a Python memory and Python scratchpads: random descriptors, alignments and stalls."""

import pytest
from adagp.rtl.dma.fill import Fill
from adagp.spec.microcode.descriptors import Target
from bench import seeded, simulate, source
from dma_bench import CONFIGS, LEAST, check_burst, loops, place, token

DRAM_BYTES = 16384
LEVELS = 3
PADS = {Target.A: "a", Target.B: "b", Target.C: "c"}


def _elements(config, target):
    return {Target.A: config.a_elements, Target.B: config.b_elements, Target.C: config.c_elements}[target]


def random_fill(rng, config, target):
    """Fields of a random FILL for ``target``, without tokens."""
    size, unit = config.bias_elements if target == Target.BIAS else _elements(config, target), config.operand_bytes
    while True:
        short = rng.random() < 0.5
        d = {f"n{level}": rng.choice((0, 1, 1, 2, 3, 5)) for level in range(LEVELS)}
        d["length"] = rng.randint(1, 5) if short else rng.randint(0, 60)
        d["step"] = rng.choice((1, 1, 1 + config.banks, 1 + config.banks * rng.randrange(6)))
        if target == Target.BIAS:
            d["length"] = d["step"] = 1
        counts = [max(1, d[f"n{level}"]) for level in range(LEVELS)]
        strides = [rng.randint(-40, 40) for _ in range(LEVELS)]
        jumps = [rng.randint(-300, 300) * unit for _ in range(LEVELS)]
        tail = max(0, d["length"] - 1)
        fits = place(rng, d, "sp", strides, counts, tail * d["step"], size)
        if fits and place(rng, d, "dram", jumps, counts, tail * unit + unit - 1, DRAM_BYTES):
            break
    d["dram"] -= d["dram"] % unit
    for level in range(LEVELS):
        d[f"s{level}"], d[f"d{level}"] = strides[level], jumps[level]
    d.update(target=target, clear=0, clear_min=0, shift=rng.randint(-31, 31), command=rng.randrange(1 << 16))
    if target != Target.BIAS and rng.random() < 0.4:
        d.update(clear=rng.randint(0, size), clear_min=rng.randrange(2))
    d["mark"] = int(target == Target.C and rng.random() < 0.5)
    return d


def random_memory(rng, config):
    """Random operands, some of them 0."""
    size = config.operand_bytes
    return b"".join(bytes(size) if rng.random() < 0.1 else rng.randbytes(size) for _ in range(DRAM_BYTES // size))


def _program(rng, config, count):
    """Descriptors with tokens and halves by the rules of docs/machine.md."""
    program, half, opened = [], {Target.A: 0, Target.B: 0, Target.C: 0}, set()
    for _ in range(count):
        target = rng.choice(list(Target))
        pad = Target.C if target == Target.BIAS else target
        d = random_fill(rng, config, target)
        d.update(open=pad not in opened, ready=rng.random() < 0.7, half=half[pad])
        opened.add(pad)
        if d["ready"]:
            opened.remove(pad)
            half[pad] ^= 1
        program.append(d)
    return program


def _operand(config, dram, address):
    return int.from_bytes(dram[address : address + config.operand_bytes], "little", signed=True)


def _requantise(value, shift, width):
    """Round half to even, saturate; by exact rational arithmetic."""
    if shift <= 0:
        value <<= -shift
    else:
        floor, rest = value >> shift, value & ((1 << shift) - 1)
        value = floor + (2 * rest > 1 << shift or (2 * rest == 1 << shift and floor % 2))
    limit = (1 << (width - 1)) - 1
    return max(-limit, min(limit, value))


def _apply(config, dram, d, pads):
    """Apply descriptor ``d`` to ``pads``; returns its biases as (half, start, value)."""
    half = d["half"]
    if d["target"] == Target.BIAS:
        values = [_operand(config, dram, address) for address, _ in loops(d, LEVELS)]
        return [(half, i == 0, _requantise(v, d["shift"], config.acc_width)) for i, v in enumerate(values)]
    pad = pads[d["target"]][half]
    cleared = -(-d["clear"] // config.banks) * config.banks
    pad[:cleared] = [LEAST[config.operand_width] if d.get("clear_min") else 0] * cleared
    for address, element in loops(d, LEVELS):
        for e in range(d["length"]):
            value = _operand(config, dram, address + e * config.operand_bytes)
            if not d.get("mark"):
                pad[element + e * d["step"]] = value
            elif value <= 0:
                pad[element + e * d["step"]] = -(1 << config.operand_width - 1)
    return []


def _empty_pads(config):
    return {target: [[0] * _elements(config, target) for _ in range(2)] for target in PADS}


class Memory:
    """The other end of a ReadClient: answers bursts in order, with pauses; ``faulty`` beats are refused."""

    def __init__(self, config, client, dram, rng, stall, faulty=()):
        self.config, self.client, self.dram, self.rng, self.stall = config, client, dram, rng, stall
        self.faulty, self.requests, self.beats, self.busy_cycles = set(faulty), [], [], []

    async def take(self, ctx):
        port = self.client.request
        while True:
            ctx.set(port.ready, self.rng.random() >= self.stall)
            _, _, valid, ready, addr, length = await ctx.tick().sample(
                port.valid, port.ready, port.payload.addr, port.payload.length
            )
            if valid and ready:
                check_burst(self.config, addr, length)
                self.requests.append((addr, length))
                self.beats += [addr + i * self.config.beat_bytes for i in range(length + 1)]

    async def answer(self, ctx):
        port, cycle = self.client.beats, 0
        while True:
            go = bool(self.beats) and self.rng.random() >= self.stall
            if go:
                addr = self.beats.pop(0)
                data = int.from_bytes(self.dram[addr : addr + self.config.beat_bytes], "little")
                ctx.set(port.payload, {"data": data, "fault": addr in self.faulty})
            ctx.set(port.valid, go)
            ready = 0
            while not ready:
                _, _, ready = await ctx.tick().sample(port.ready)
                cycle += 1
                ready = ready or not go
            if go:
                self.busy_cycles.append(cycle)


class Monitor:
    """Applies what Fill writes to images, and at each pulse compares the half that was announced."""

    def __init__(self, config, dut, program, dram):
        self.config, self.dut = config, dut
        self.pads, self.biases, self.faults, self.checked = _empty_pads(config), [], [], 0
        self.expected = {target: [] for target in PADS}  # per ready descriptor: half and its content
        self.expected_biases, self.n_biases = [], []
        pads = _empty_pads(config)
        for d in program:
            self.expected_biases += _apply(config, dram, d, pads)
            pad = Target.C if d["target"] == Target.BIAS else d["target"]
            if d["ready"]:
                image = list(pads[pad][d["half"]])
                self.expected[pad].append((d["half"], image, len(self.expected_biases)))
        self.final = pads

    async def watch(self, ctx):
        dut = self.dut
        ports = {target: getattr(dut, name) for target, name in PADS.items()}
        signals = [dut.a_full, dut.b_full, dut.c_ready, dut.bias_valid, dut.bias_half, dut.bias_start, dut.bias_data]
        signals += [dut.fault, dut.fault_command, *(port.mask for port in ports.values())]
        async for _, _, *values in ctx.tick().sample(
            *signals, *(f for port in ports.values() for f in (port.rot, port.addr, port.data))
        ):
            pulses, (valid, half, start, bias), (fault, command), masks = (
                values[:3], values[3:7], values[7:9], values[9:12],
            )  # fmt: skip
            for target, pulse in zip(PADS, pulses, strict=True):
                if pulse:
                    self._check(target)
            for i, (target, mask) in enumerate(zip(PADS, masks, strict=True)):
                if mask:
                    self._write(target, mask, *values[12 + 3 * i : 15 + 3 * i])
            if valid:
                self.biases.append((half, start, bias))
            if fault:
                self.faults.append(command)

    def _write(self, target, mask, rot, addr, data):
        depth = _elements(self.config, target) // self.config.banks
        half = addr[0] // depth
        for lane in range(self.config.banks):
            if mask >> lane & 1:
                assert addr[lane] // depth == half
                element = addr[lane] % depth * self.config.banks + (rot + lane) % self.config.banks
                self.pads[target][half][element] = data[lane]

    def _check(self, target):
        half, image, n_biases = self.expected[target].pop(0)
        assert self.pads[target][half] == image
        if target == Target.C:
            assert len(self.biases) >= n_biases
        self.checked += 1


def _run(config, program, dram, rng, stall, faulty=(), chance=0.1):
    dut = Fill(config)
    monitor = Monitor(config, dut, program, dram)
    memory = Memory(config, dut.client, dram, rng, stall, faulty)
    opens = {pad: sum(d["open"] and min(d["target"], Target.C) == pad for d in program) for pad in PADS}

    async def drive(ctx):
        await source(ctx, dut.i, program, rng, stall)
        idle = 0
        while idle < 100:  # nothing waits for memory any more
            await ctx.tick()
            waiting = memory.beats or ctx.get(dut.client.beats.ready) or ctx.get(dut.client.request.valid)
            idle = 0 if waiting or any(ctx.get(getattr(dut, name).mask) for name in PADS.values()) else idle + 1

    simulate(
        dut, drive, *(token(getattr(dut, f"{PADS[pad]}_free"), rng, opens[pad], chance) for pad in PADS),
        background=(memory.take, memory.answer, monitor.watch),
    )  # fmt: skip
    return monitor, memory


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("name", CONFIGS)
def test_random_descriptors(name, stall):
    config, rng = CONFIGS[name], seeded(3)
    dram = random_memory(rng, config)
    program = _program(rng, config, 25)
    monitor, memory = _run(config, program, dram, rng, stall)
    assert not memory.beats and not monitor.faults
    assert monitor.biases == monitor.expected_biases
    assert len(monitor.biases) > 0
    assert monitor.pads == monitor.final
    assert monitor.checked == sum(d["ready"] for d in program) > 0
    assert not any(monitor.expected.values())


def _segments(config, n, length, **fields):
    """A FILL of A with ``n`` segments of ``length`` operands."""
    unit = config.operand_bytes
    d = {"target": Target.A, "open": 1, "ready": 1, "command": 7, "length": length, "step": 1}
    return {**d, "half": 0, "clear": 0, "n0": 1, "n1": 1, "n2": n, "d2": length * unit, "sp": 0, "dram": 0, **fields}


@pytest.mark.parametrize("beats", [1, 3, 40])
def test_a_beat_per_cycle(beats):
    """Without stalls, beats follow each other from the first to the last, also of short segments."""
    config, rng = CONFIGS["tiny"], seeded(4)
    n = 120 // beats
    program = [_segments(config, n, beats * config.beat_elements)]
    _, memory = _run(config, program, rng.randbytes(DRAM_BYTES), rng, 0.0)
    assert len(memory.busy_cycles) == n * beats == 120
    assert memory.busy_cycles[-1] - memory.busy_cycles[0] == 119


def test_refused_beats_are_reported_with_their_command():
    config, rng = CONFIGS["tiny"], seeded(5)
    program = [
        _segments(config, 2, 16, command=11),
        _segments(config, 2, 16, command=12, dram=4096, half=1),
        _segments(config, 2, 16, command=13, dram=8192),
    ]
    monitor, _ = _run(config, program, bytes(DRAM_BYTES), rng, 0.2, faulty=(4096 + 8, 4096 + 40, 8192))
    assert monitor.faults == [12, 12, 13]


def test_no_request_before_its_token():
    """Reads wait for the token of their half, so that beats never wait for it."""
    config, rng = CONFIGS["tiny"], seeded(6)
    dut = Fill(config)
    dram = rng.randbytes(DRAM_BYTES)
    memory = Memory(config, dut.client, dram, rng, 0.0)
    seen = []

    async def drive(ctx):
        await source(ctx, dut.i, [_segments(config, 1, 8), _segments(config, 1, 8, open=0)], rng, 0.0)

    async def bench(ctx):
        await ctx.tick().repeat(50)
        seen.append(len(memory.requests))
        ctx.set(dut.a_free.avail, 1)
        await ctx.tick().until(dut.a_full)
        seen.append(len(memory.requests))

    simulate(dut, bench, drive, background=(memory.take, memory.answer))
    assert seen[0] == 0
    assert seen[1] > 0
