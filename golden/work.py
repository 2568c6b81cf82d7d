"""Compute, UPDATE and ADAM commands on the machine's state."""

from dataclasses import replace

import numpy as np

from ..spec.commands import Adam, CMode, Command, Opcode, Source
from ..spec.numerics import unpredicted
from ..spec.opcodes import COMPUTE, NORM_APPLIES, NORMS
from ..spec.operands import keeps_momentum, macs
from . import layer, norm_commands
from .adam import AdamExponents, adam, step_rate
from .dropout import kept
from .quality import Quality, quality_sums, rms_exponent
from .random_signs import random_signs
from .reorganise import reorganise
from .state import MachineState
from .update import Hyper, UpdateExponents, update

__all__ = ["execute", "tracked"]


def execute(state: MachineState, command: Command, dry: bool) -> None:
    """Execute a valid command; a ``dry`` one only reports maxima. Raises Stop for memory that it may not use."""
    if command.opcode in COMPUTE:
        _compute(state, command, dry)
    elif command.opcode == Opcode.ADAM:
        _adam(state, command, dry)
    else:
        _update(state, command, dry)


def tracked(command: Command) -> list[int]:
    """Tensors whose maximum the command reports, which a calibration therefore adjusts."""
    if command.opcode == Opcode.ADAM:
        return [command.out_id, command.b_id, command.d_id]
    if command.opcode == Opcode.UPDATE:
        momentum = [] if keeps_momentum(command) else [command.out_id]
        return [*momentum, command.b_id, *[command.scale_id] * command.quality]
    return [command.out_id] if command.track else []


def _compute(state: MachineState, command: Command, dry: bool) -> None:
    sources, targets = state.operands(command, dry)
    cur = state.exponents.cur
    exps = layer.LayerExponents(*(int(cur[getattr(command, f"{name}_id")]) for name in ("a", "b", "c", "out")))
    if state.config.predicts and state.exponents.has_next[command.out_id]:
        exps = replace(exps, out=int(state.exponents.next[command.out_id]))
    if command.c_mode == CMode.SUB:
        exps = replace(exps, c=exps.c - state.scale(command))
    if command.opcode in NORMS:
        _norm(state, command, sources, targets, exps, dry)
        return
    if command.opcode == Opcode.REORGANISE:
        sources["sums"] = state.sums[: command.c]
    if state.config.dropout and command.opcode == Opcode.AVGPOOL and command.momentum:
        shape = (command.n, command.oh, command.ow, command.q)
        sources["kept"] = kept(shape, command.momentum, command.layer, state.seed, state.batch)
    result, index = layer.compute(command, sources, exps, state.config, dry)
    if command.track:
        state.exponents.track(command.out_id, result.top)
    if command.opcode == Opcode.FORWARD and command.reorganise:
        sums = reorganise(result.out).ravel()
        state.sums[: sums.size] = sums
    counters = state.counters[state.phase]
    apart = command.predictor and state.config.variant == "max"
    counters["predictor_macs" if apart else "macs"] += macs(command)
    if dry:
        return
    counters["saturations"] += result.saturations
    targets["out"][..., : result.out.shape[-1]] = result.out
    if index is not None:
        targets["b"][...] = index


def _norm(
    state: MachineState, command: Command, sources: dict[str, np.ndarray], targets: dict[str, np.ndarray],
    exps: layer.LayerExponents, dry: bool,
) -> None:  # fmt: skip
    result, tables = norm_commands.compute(command, sources, exps, state.config, dry)
    if result and command.track:
        state.exponents.track(command.out_id, result.top)
    if dry:
        return
    if result:
        state.counters[state.phase]["saturations"] += result.saturations
        tables["out"] = result.out if command.opcode in NORM_APPLIES else np.concatenate([result.out, tables["out"]])
    for name, table in tables.items():
        targets[name][...] = table


def _update(state: MachineState, command: Command, dry: bool) -> None:
    sources, targets = state.operands(command, dry)
    table = state.exponents
    g, w, v = command.a_id, command.b_id, command.out_id
    rate, momentum, decay = state.hyper[command.hyper : command.hyper + 3]
    g_exp = int(table.cur[g]) + (0 if command.quality else state.scale(command))
    exps = UpdateExponents(g_exp, *map(int, (table.cur[w], table.next[w], table.cur[v], table.next[v])))
    gradient, keeps = _gradient(state, command, sources), keeps_momentum(command)
    if keeps:
        momentum, sources["out"] = Hyper(0, 0), np.zeros(command.count, np.int32)
    result = update(
        gradient, sources["b"], sources["c"], sources["out"], exps.dry() if dry else exps,
        (rate, momentum, decay), state.config.operand_width,
    )  # fmt: skip
    if not keeps:
        table.track(v, result.top_v)
    table.track(w, result.top_w)
    if command.quality:
        sums = quality_sums(sources["d"], gradient, state.config.operand_width)
        table.track(command.scale_id, rms_exponent(sums, g_exp) if sums.tt else None)
    if dry:
        return
    if command.quality:
        quality = Quality(sums, int(table.cur[command.d_id]), g_exp - state.scale(command))
        state.quality[command.layer] = quality
        state.judged.append(quality)
    state.counters[state.phase]["saturations"] += result.saturations
    targets["b"][...], targets["c"][...] = result.hi, result.lo
    if not keeps:
        targets["out"][...] = result.v


def _gradient(state: MachineState, command: Command, sources: dict[str, np.ndarray]) -> np.ndarray:
    """The gradient that an UPDATE takes, with marks where there is none."""
    gradient = _given(state, command, sources)
    if state.config.streams and command.y_pitch:
        gradient = gradient.copy()
        gradient[command.y_pitch - 1 :: command.y_pitch] = unpredicted(state.config.operand_width)
    return gradient


def _given(state: MachineState, command: Command, sources: dict[str, np.ndarray]) -> np.ndarray:
    """The gradient before marks at the ends of filters."""
    if command.source == Source.ZERO:
        return np.zeros(command.count, np.int16)
    given = sources["a"]
    if command.source == Source.GIVEN:
        return given
    flipped = random_signs(command.count, command.layer, state.seed, state.position.batch)
    return np.where(flipped & (given != unpredicted(state.config.operand_width)), -given, given)


def _adam(state: MachineState, command: Command, dry: bool) -> None:
    sources, targets = state.operands(command, dry)
    table, hyper = state.exponents, state.hyper[command.hyper : command.hyper + len(Adam)]
    kept = [(int(table.cur[i]), int(table.next[i])) for i in (command.b_id, command.out_id, command.d_id)]
    exps = AdamExponents(int(table.cur[command.a_id]), *(exponent for pair in kept for exponent in pair))
    powers = state.powers.after(hyper[Adam.BETA1], hyper[Adam.BETA2])
    g, hi, lo, m, s = (sources[name] for name in ("a", "b", "c", "out", "d"))
    result = adam(
        g, hi, lo, m, s, exps.dry() if dry else exps,
        step_rate(hyper[Adam.RATE], powers), (hyper[Adam.BETA1], hyper[Adam.BETA2]),
        (hyper[Adam.REST1], hyper[Adam.REST2]), hyper[Adam.EPSILON].mantissa, state.config.operand_width,
    )  # fmt: skip
    for tensor, top in ((command.b_id, result.top_w), (command.out_id, result.top_m), (command.d_id, result.top_s)):
        table.track(tensor, top)
    if dry:
        return
    state.stepped = powers
    state.counters[state.phase]["saturations"] += result.saturations
    targets["b"][...], targets["c"][...] = result.hi, result.lo
    targets["out"][...], targets["d"][...] = result.m, result.s
