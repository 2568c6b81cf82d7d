"""Batch norm's commands as the tile program issues them, run by the plain model of the engines."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from adagp.golden import batch_norm
from adagp.golden.layer import LayerExponents
from adagp.golden.norm_commands import compute
from adagp.golden.operands import load
from adagp.host.compiler.norm_state import import_states
from adagp.spec.commands import FIELDS, Command, Opcode
from adagp.spec.microcode.descriptors import Target
from adagp.spec.microcode.machine import descriptors
from adagp.spec.microcode.program import tile_program
from adagp.spec.norm import NormConstants, Number
from adagp.spec.opcodes import NORM_APPLIES, NORMS
from adagp.spec.operands import in_place, operands, outputs
from adagp.spec.presets import PRESETS
from engine_model import JUNK, Emulator
from norm_tasks import random_norm_task


def tables_of(t, draw):
    """Valid tables for all operands of the task that are tables."""
    values = np.random.default_rng(draw.getrandbits(32))
    n = max(2, t.n * t.h * t.w)
    x, g = values.integers(-30000, 30000, (2, n, t.c))
    constants = NormConstants(
        n, Number(t.const_mantissa, t.const_exponent), t.momentum, Number(t.unbiased_mantissa, t.unbiased_exponent)
    )
    weights = values.integers(-32767, 32767, (2, t.c))
    states = import_states(values.standard_normal(t.c), values.uniform(0, 2, t.c))
    of_x, of_g = batch_norm.sums(x), batch_norm.sums(x, g)
    forward = batch_norm.forward_rows(of_x, weights, -14, -10, constants)
    backward = batch_norm.backward_rows(forward, of_g, -10, -12, n)
    return {
        Opcode.NORM_CONSTANTS: {"b": weights, "c": states, "e": batch_norm.pack_sums(of_x)},
        Opcode.NORM_RUNNING: {"b": weights, "c": states},
        Opcode.NORM_APPLY: {"e": forward},
        Opcode.NORM_BACKWARD: {"b": forward, "e": batch_norm.pack_sums(of_g)},
        Opcode.NORM_APPLY_BACKWARD: {"e": backward},
    }.get(t.opcode, {})


def check(config, draw, opcode):
    """Run a task and compare all memory with the golden model's; returns whether it wrote."""
    t = random_norm_task(config, draw, opcode)
    command = Command(opcode, {field.name: getattr(t, field.name) for field in FIELDS if field.name != "opcode"})
    memory = np.full(60_000, JUNK, "<i2")
    raw, places, tables = memory.view(np.uint8), operands(command, config), tables_of(t, draw)
    values = np.random.default_rng(draw.getrandbits(32))
    written, both = outputs(command), in_place(command)
    for name, place in places.items():
        if name not in written or name in both:
            x = values.integers(-32767, 32767, place.shape)
            load(place, raw)[...] = tables[name][: place.shape[0]] if name in tables else np.where(x == JUNK, 0, x)
    sources = {name: load(place, raw).copy() for name, place in places.items() if name not in written or name in both}
    exps = LayerExponents(t.exp_a, t.exp_b, t.exp_c, t.exp_out)
    result, made = compute(command, sources, exps, config, bool(t.dry))
    expected = memory.copy()
    if result is not None:
        made["out"] = result.out if opcode in NORM_APPLIES else np.concatenate([result.out, made["out"]])
    if not t.dry:
        for name, table in made.items():
            load(places[name], expected.view(np.uint8))[...] = table
    engines = Emulator(config, memory.astype(np.int64), draw)
    if both and not t.dry:  # the engine model refuses to write twice
        place = places[both[0]]
        engines.overwritten = range(place.address // 2, (place.address + place.n_bytes) // 2)
    issued = descriptors(tile_program, config, [t])
    engines.run(issued)
    wrong = np.flatnonzero(engines.memory != expected)
    assert wrong.size == 0, f"{wrong.size} operands differ, first at {wrong[0] * 2}: {vars(t)}"
    assert engines.done == 1 and engines.grammar.taken.total() == len(issued) > 0
    assert engines.saturations == (0 if result is None or t.dry else result.saturations)
    assert engines.results == ({t.out_id: result.top} if result is not None and t.track else {})
    return not t.dry


@pytest.mark.parametrize("opcode", NORMS, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("name", PRESETS)
def test_tasks(name, opcode):
    config = replace(PRESETS[name], batch_norm=True)
    draw = random.Random(f"{name} {opcode.name}")
    assert sum(check(config, draw, opcode) for _ in range(16)) > 3


@pytest.mark.parametrize("name", PRESETS)
def test_sums_of_one_operand_read_it_once(name):
    """B is filled where X and dY are two operands, or lie apart by different pitches."""
    config, draw, seen = replace(PRESETS[name], batch_norm=True), random.Random(f"once {name}"), Counter()
    for _ in range(60):
        t = random_norm_task(config, draw, Opcode.NORM_SUMS)
        issued = descriptors(tile_program, config, [t])
        once = t.a_addr == t.b_addr and t.x_pitch == t.y_pitch
        assert any(kind == "fill" and d["target"] == Target.B for kind, d in issued) != once
        assert {d["swap"] for kind, d in issued if kind == "compute"} == {int(once)}
        seen[once] += 1
    assert min(seen[True], seen[False]) > 5
