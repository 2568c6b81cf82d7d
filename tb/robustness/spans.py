"""Bursts that commands make, from the tile program's descriptors and an update's chunks, not from the accelerator."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from adagp.spec.commands import Command
from adagp.spec.config import Config
from adagp.spec.microcode.machine import descriptors, task
from adagp.spec.microcode.program import tile_program
from adagp.spec.operands import operands, outputs

__all__ = ["Span", "clear_cycles", "compute_spans", "update_spans"]


@dataclass(frozen=True)
class Span:
    """A burst: address and beats, and the bytes from ``first`` up to ``end`` that it is made for."""

    address: int
    beats: int
    first: int
    end: int


def _spans(address: int, n_bytes: int, config: Config, port: Config) -> Iterator[Span]:
    """A contiguous piece of memory in ``port``'s beats, none of whose bursts crosses a multiple of the longest."""
    longest, end = config.max_burst_beats * config.beat_bytes, address + n_bytes
    while address < end:
        stop = min(end, (address // longest + 1) * longest)
        start = address // port.beat_bytes
        yield Span(start * port.beat_bytes, -(-stop // port.beat_bytes) - start, address, stop)
        address = stop


def _descriptor_spans(fields: dict, config: Config, port: Config) -> Iterator[Span]:
    loops = [(fields[f"n{level}"], fields[f"d{level}"]) for level in range(3) if f"n{level}" in fields]
    for turn in product(*(range(count) for count, _ in loops)):
        address = fields["dram"] + sum(i * stride for i, (_, stride) in zip(turn, loops, strict=True))
        yield from _spans(address, fields["length"] * config.operand_bytes, config, port)


def compute_spans(
    command: Command, a_base: int, dry: bool, config: Config, port: Config
) -> tuple[list[Span], list[Span]]:
    """A compute command's reads and writes, in the order of the DMA engines; ``a_base``: address of operand A.

    ``config`` is its core's, ``port`` the whole accelerator's, whose beats may be wider.
    """
    spans: dict[str, list[Span]] = {"fill": [], "store": []}
    given = task({**command.fields, "opcode": int(command.opcode)}, a_base=a_base, dry=int(dry))
    for engine, fields in descriptors(tile_program, config, [given]):
        if engine == "fill" or (engine == "store" and not dry):
            spans[engine] += _descriptor_spans(fields, config, port)
    return spans["fill"], spans["store"]


def clear_cycles(command: Command, a_base: int, dry: bool, config: Config) -> int:
    """For how long a compute command's fill takes no beats, at most: it clears a word a cycle, for two fills in a row.

    Of more than two in a row the port's beats can't come, as no more than two wait for the engine.
    """
    given = task({**command.fields, "opcode": int(command.opcode)}, a_base=a_base, dry=int(dry))
    clears = [
        -(-fields["clear"] // config.banks)
        for engine, fields in descriptors(tile_program, config, [given]) if engine == "fill"
    ]  # fmt: skip
    return max((one + other for one, other in zip(clears, [*clears[1:], 0], strict=True)), default=0)


def update_spans(command: Command, dry: bool, config: Config) -> tuple[list[Span], list[Span]]:
    """An UPDATE's or ADAM's arrays one after the other, a chunk of as many weights as the port has bits at a time."""
    reads: list[Span] = []
    writes: list[Span] = []
    written = () if dry else outputs(command)
    for start in range(0, command.count, config.port_width):
        size = min(config.port_width, command.count - start)
        for name, operand in operands(command, config).items():
            element = operand.element_bytes
            spans = list(_spans(operand.address + start * element, size * element, config, config))
            reads += spans
            writes += spans if name in written else []
    return reads, writes
