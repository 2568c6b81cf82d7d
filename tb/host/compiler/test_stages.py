"""The compiler's stages as text, against what it compiled."""

import re
from dataclasses import replace

import pytest
import torch
from adagp.host.compiler.compiler import compile_network
from adagp.host.compiler.costs import cycles_of
from adagp.host.compiler.dependencies import access
from adagp.host.compiler.front_end import graph_of
from adagp.host.compiler.stages import dependencies, fusion, memory, tilings
from adagp.spec.commands import Opcode, Phase
from adagp.spec.opcodes import COMPUTE, GEMMS, UPDATES
from adagp.spec.operands import counted
from adagp.spec.presets import preset
from made_modules import Made
from torch import nn
from torch.nn import functional

BATCH = 4
CAPACITY = 46 << 12
"""Bytes of a memory that is too small for all values side by side."""


def forward(m, x):
    x = functional.relu(m.first(x))
    y = torch.cat([x, functional.relu(m.two(m.one(x)) + x)], 1)
    return m.head(torch.sigmoid(functional.relu(m.norm(m.down(y)))).flatten(1))


@pytest.fixture(scope="module")
def compiled():
    """A network with each kind of node, in a design that predicts, in a memory where values must share room."""
    module = Made(
        forward, first=nn.Conv2d(1, 4, 3, padding=1), one=nn.Conv2d(4, 4, 3, padding=1), two=nn.Conv2d(4, 4, 1),
        down=nn.Conv2d(8, 4, 3, stride=2, padding=1), norm=nn.BatchNorm2d(4), head=nn.Linear(64, 5),
    )  # fmt: skip
    tiny = preset("tiny")
    config = replace(tiny, batch_norm=True, variant="max", dram=replace(tiny.dram, capacity_bytes=CAPACITY))
    return compile_network(graph_of(module, (1, 8, 8), BATCH, config), BATCH, config, source="predicted")


def test_fusion_names_what_each_command_computes(compiled):
    assert fusion(compiled.graph).splitlines() == [
        "device first.Conv2d: with relu", "device one.Conv2d: alone", "device two.Conv2d: with add, relu",
        "device cat: no command, its operands lie side by side", "device down.Conv2d: alone",
        "device norm.BatchNorm2d: with relu", "host   sigmoid: sigmoid", "device head.Linear: alone",
    ]  # fmt: skip
    for layer in compiled.layers:
        assert len(layer.fused) == layer.relu + bool(layer.addend)


def test_tilings_are_those_of_the_commands(compiled):
    heading, *lines = tilings(compiled).splitlines()
    commands = [(index, line) for index, line in enumerate(compiled.program) if line.command.opcode in COMPUTE]
    assert len(lines) == len(commands) > 0 and heading.split()[:3] == ["command", "operator", "layer"]
    for text, (index, line) in zip(lines, commands, strict=True):
        c, gemm = line.command, line.command.opcode in GEMMS
        extents = [c.nb, c.yb, c.cb, *[c.qb] * gemm]
        row = r" *(\d+)  (\w+) +(\S+) +(\d+(?: x \d+)+) +([\d,]+)  (\S+?)(, filters outside)? +([\d,]+) +([\d,]+|-)"
        place, opcode, name, tile, tiles, kept, outside, cycles, least = re.fullmatch(row, text).groups()
        assert (int(place), opcode, name) == (index, c.opcode.name.lower(), line.name)
        assert tile == " x ".join(map(str, extents)) and int(cycles.replace(",", "")) == cycles_of(c, compiled.config)
        assert (kept, bool(outside)) == (("BA"[c.swap] if gemm else "-"), bool(gemm and c.out_outer))
        if c.opcode == Opcode.FORWARD:
            cuts = [(c.n, c.nb), (c.oh, c.yb), (c.c, c.cb), (c.q, c.qb)]
            whole = [-(-size // extent) for size, extent in cuts]
            assert int(tiles.replace(",", "")) == whole[0] * whole[1] * whole[2] * whole[3]
            assert int(least.replace(",", "")) <= int(cycles.replace(",", ""))


def test_dependencies_are_on_the_last_commands_that_use_the_same_bytes(compiled):
    found = {}
    for line in dependencies(compiled).splitlines()[1:]:
        place, _, phases, after = re.split(r"  +", line.strip())
        for phase in Phase:
            if phases in ("all phases", "training") or phase.name.lower() in phases.split("|"):
                found[int(place), phase] = [int(each.split()[0]) for each in after.split(", ") if each[0].isdigit()]
    config, met = compiled.config, 0
    for phase in Phase:
        before = []
        for place, line in enumerate(compiled.program):
            if line.command.opcode not in (*COMPUTE, *UPDATES) or not line.command.phase_mask & phase:
                continue
            mine, last = access(line.command, config), {}
            for earlier, theirs, queue in before:
                pairs = [(a, b) for a in mine.writes for b in (*theirs.reads, *theirs.writes)]
                pairs += [(a, b) for a in mine.reads for b in theirs.writes]
                if any(a.start < b.end and b.start < a.end for a, b in pairs):
                    last[queue] = earlier
            assert found[place, phase] == sorted(last.values())
            met += len(last)
            before.append((place, mine, counted(line.command)))
    assert met > 50


def test_memory_is_shared_by_values_of_which_one_ends_before_the_other_begins(compiled):
    *lines, end = memory(compiled).splitlines()
    assert end == f"{compiled.plan.n_bytes:,} bytes in all; values whose lives don't meet share them"
    lives, steps = {}, compiled.steps
    for line in lines[1:]:
        address, size, name, *life = re.split(r"  +", line.strip())
        block = compiled.plan[name]
        assert (int(address, 16), int(size.replace(",", ""))) == (block.address, block.n_bytes)
        if life:
            ends = [len(steps) if each == "end" else int(each.split()[0]) for each in life[0].split(" - ")]
            lives[name] = range(ends[0], ends[1] + 1)
    for place, step in enumerate(steps):
        used = {compiled.tensors[each].whole or each for each in step.operands.values()}
        assert all(place in lives[name] for name in used & lives.keys())
    shared = 0
    for one, mine in lives.items():
        for other, theirs in lives.items():
            a, b = compiled.plan[one], compiled.plan[other]
            if one < other and a.address < b.end and b.address < a.end:
                shared += 1
                assert mine.stop <= theirs.start or theirs.stop <= mine.start
    assert shared > 0
