"""Bench of Control: host, memory and engines around the device, and the program's meaning in plain Python."""

from adagp.rtl.control.control import Control
from adagp.rtl.control.dispatch import WaitLayout, queues
from adagp.spec.commands import COMMAND_BYTES, Command, Opcode
from adagp.spec.config import VERSION
from adagp.spec.presets import preset
from adagp.spec.registers import Control as Bit
from adagp.spec.registers import Status, register
from axi_lite import AxiLiteMaster
from bench import simulate
from memory import ReadMemory

__all__ = ["CONFIG", "END", "HOST", "PROGRAM", "ControlBench", "encode", "header", "update", "work"]

CONFIG = preset("tiny")
PROGRAM = 0x3000
END = Command(Opcode.END, {"phase_mask": 15})
HOST = Command(Opcode.HOST, {"phase_mask": 15})


def work(opcode=Opcode.FORWARD, **fields):
    return Command(opcode, {"phase_mask": 15, **fields})


def update(**fields):
    return work(Opcode.UPDATE, **fields)


def header(config, **changes):
    return Command(Opcode.HEADER, {"config_hash": config.config_hash, "version": VERSION, **changes})


def encode(program):
    return b"".join(word.to_bytes(4, "little") for command in program for word in command.encode())


class ControlBench:
    """Engines take tasks and complete them in order, one with probability ``pace`` in each cycle, those in
    ``hang`` never; each reports its ``results`` (by index and dry) at random moments before. What they were
    given is in ``log``: kind, index, dry, task, and what was complete by then. ``qualities`` (by index) are given one
    for each completion that isn't dry, before it."""

    def __init__(self, config, rng, pace=0.1):
        self.config, self.rng, self.pace = config, rng, pace
        self.dut = Control(config)
        self.host = AxiLiteMaster(self.dut.bus, rng)
        self.memory = ReadMemory(config, self.dut.fetch, rng)
        self.log = []
        self.results = {}
        self.qualities = {}
        self.completed = dict.fromkeys(WaitLayout.members, 0)
        self.hang = set()
        self.resets = 0
        self.busy = False  # the arbiters, with something of the engines'
        self.background = []

    def run(self, bench):
        async def host(ctx):
            while ctx.get(self.dut.halt):  # the first reset
                await ctx.tick()
            self.resets = 0
            await bench(ctx)

        engines = [self.engine(queue) for queue in queues(self.config)]
        simulate(self.dut, host, background=(self.memory.serve, *engines, self.watch, *self.background), limit=200_000)

    def engine(self, queue):
        """A bench that plays a core or the update unit."""
        dut = self.dut
        port, done = dut.task if queue == "main" else getattr(dut, f"{queue}_task"), getattr(dut, f"{queue}_done")
        source = "drain" if queue == "main" else queue
        valid, result = getattr(dut, f"{source}_result_valid"), getattr(dut, f"{source}_result")

        async def serve(ctx):
            running = []
            while True:
                room = len(running) < 3
                ready = room and self.rng.random() < 0.3
                ctx.set(port.ready, ready)
                finish = bool(running) and running[0][0] not in self.hang and self.rng.random() < self.pace
                events = running[0][1] if running else []
                event = events and (finish or self.rng.random() < 0.2)
                finish = finish and len(events) <= 1
                ctx.set(valid, bool(event))
                if event:
                    ctx.set(result, events.pop(0))
                if finish and running[0][3]:
                    finish = False
                    ctx.set(dut.quality, running[0][3].pop())
                    ctx.set(dut.quality_valid, 1)
                elif self.qualities and queue == "update":
                    ctx.set(dut.quality_valid, 0)
                ctx.set(done, finish)
                _, _, reset, offered, task = await ctx.tick().sample(dut.reset, port.valid, port.payload)
                if reset:
                    running.clear()
                    continue
                if finish:
                    self.completed[running.pop(0)[2]] += 1
                if offered and ready:
                    key = (task.index, task.dry)
                    kind = "predictor" if queue != "update" and task.command.predictor else queue
                    quality = self.qualities.get(task.index, []) if not task.dry else []
                    events = [dict(e) for e in self.results.get(key, [])]
                    running.append((task.index, events, kind, [quality.pop(0)] if quality else []))
                    self.log.append((kind, task.index, task.dry, task, dict(self.completed)))

        return serve

    async def watch(self, ctx):
        """Memory and arbiters: idle when nothing is under way, nothing new during halt."""
        before = 0
        while True:
            ctx.set(self.dut.idle, self.memory.beats_due == 0 and not self.busy)
            self.memory.halt = bool(ctx.get(self.dut.halt))
            reset = ctx.get(self.dut.reset)
            self.resets += reset and not before
            before = reset
            await ctx.tick()

    # --- the host ----------------------------------------------------------------------------

    async def start(self, ctx, program, phase=0, batches=1, calibrate=0):
        self.memory.load(PROGRAM, encode(program) + bytes(2 * COMMAND_BYTES))
        for name, value in (("PROGRAM", PROGRAM), ("PHASE", phase), ("BATCHES", batches), ("CALIBRATE", calibrate)):
            await self.host.write(ctx, name, value)
        await self.host.write(ctx, "CONTROL", Bit.START)

    async def wait(self, ctx):
        """Until the interrupt would come; STATUS."""
        while True:
            status = Status(await self.host.read(ctx, "STATUS"))
            if status & (Status.HOST | Status.DONE | Status.ERROR):
                return status

    async def counter(self, ctx, phase, place):
        await self.host.write(ctx, "COUNTER", register("COUNTER").pack(phase=phase, place=place))
        low = await self.host.read(ctx, "COUNTER_LOW")
        return low | await self.host.read(ctx, "COUNTER_HIGH") << 32

    async def set_exponent(self, ctx, tensor, cur, after=None):
        await self.host.write(ctx, "TENSOR", tensor)
        entry = {"cur": cur, "next": after or 0, "has_next": after is not None}
        await self.host.write(ctx, "EXPONENT", register("EXPONENT").pack(**entry))

    async def exponent(self, ctx, tensor):
        """Current exponent, next exponent, and 1 if there is a next one."""
        await self.host.write(ctx, "TENSOR", tensor)
        entry = register("EXPONENT").unpack(await self.host.read(ctx, "EXPONENT"))
        assert not entry["is_scale"]
        return entry["cur"], entry["next"], entry["has_next"]
