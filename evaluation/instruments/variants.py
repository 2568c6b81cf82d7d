"""The four designs measured: batches of each phase on the simulated RTL, and what follows from them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ...algorithm.paper_numbers import DRAM_ENERGY_SAVING, EPOCHS, PHASES, SPEEDUP, WARMUP_EPOCHS
from ...host.compiler.compiler import Compiled
from ...host.compiler.useful_macs import useful_batch, useful_macs
from ...host.program import Program
from ...host.training.timeline import Slice
from ...spec.commands import Command, Opcode
from ...spec.config import VARIANTS, Config
from ...spec.operands import macs, operands, outputs
from ...spec.phases import PHASE_NAMES
from .energy import MODULE

__all__ = [
    "UNTAUGHT",
    "Measured",
    "alpha",
    "directions",
    "figures",
    "limit",
    "predictor_macs",
    "predictors_share",
    "shares",
    "useful",
]

UNTAUGHT = "untaught"
"""Name, among phases, of batches with true gradients from which the predictor doesn't learn."""
ARRAYS = ("array", "predictor array")


@dataclass(frozen=True)
class Measured:
    """A design: counters of a mean batch by phase, and of its program's commands what the timeline says.

    ``n_pes``: of the array that trains, without MAX's for the predictor. ``alpha``: forward (a GP batch's) and backward
    (a BP batch's): the predictor's work over the model's forward pass. ``predictor_macs``: those of a batch by
    phase that this array does. ``useful_macs``: the model's of a batch by phase, without the zeros of padding.
    """

    variant: str
    n_pes: int
    counters: dict[str, dict[str, float]]
    alpha: tuple[float, float] = (0.0, 0.0)
    predictor_macs: Mapping[str, int] = field(default_factory=dict)
    useful_macs: Mapping[str, int] = field(default_factory=dict)

    def cycles(self, phase: str) -> float:
        """Cycles of a batch; all of the baseline's are of phase BP."""
        return self._of(phase)["cycles"]

    def useful_utilisation(self, phase: str) -> float:
        """The model's products without those of padding's zeros over PEs times cycles, in a whole batch."""
        return self.useful_macs["bp" if self.variant == "baseline" else phase] / (self.n_pes * self.cycles(phase))

    def utilisation(self, phase: str) -> float:
        """The model's MACs over PEs times cycles, in a whole batch."""
        return (self._of(phase)["macs"] - self.predictor_macs.get(phase, 0)) / (self.n_pes * self.cycles(phase))

    def dram_bytes(self, phase: str) -> float:
        """Bytes that a batch reads and writes."""
        counts = self._of(phase)
        return counts["read_bytes"] + counts["write_bytes"]

    def picojoules(self, phase: str) -> float:
        """Energy of a batch's traffic."""
        counts = self._of(phase)
        return counts["read_bytes"] * MODULE.read_pj + counts["write_bytes"] * MODULE.write_pj

    def _of(self, phase):
        return self.counters["bp" if self.variant == "baseline" else phase]


def shares(every: int = 1) -> dict[str, float]:
    """Share of the batches in each phase, by the paper's schedule.

    The predictor learns from one of ``every`` batches with true gradients; the others are "untaught".
    """
    gp = 0.0
    firsts = [WARMUP_EPOCHS]
    for epochs, *_ in PHASES[:-1]:
        firsts.append(firsts[-1] + epochs)
    for (first, last), (_, k, m) in zip(pairwise([*firsts, EPOCHS]), PHASES, strict=True):
        gp += (last - first) * k / (k + m)
    parts = {"warmup": WARMUP_EPOCHS / EPOCHS, "bp": 1 - (WARMUP_EPOCHS + gp) / EPOCHS, "gp": gp / EPOCHS}
    if every == 1:
        return parts
    taught = {phase: parts[phase] / every for phase in ("warmup", "bp")}
    return {**taught, "gp": parts["gp"], UNTAUGHT: (1 - parts["gp"]) * (1 - 1 / every)}


def limit(ratio: float, gp: float) -> float:
    """Speed-up of a free predictor: ``gp`` of the batches do without a backward pass, which costs ``ratio`` forward."""
    return (1 + ratio) / (1 + (1 - gp) * ratio)


def predictors_share(command: Command, config: Config) -> float:
    """Share of a command that is the predictor's: 1, or the share of an UPDATE's bytes that judge predictions."""
    if command.opcode in (Opcode.REORGANISE, Opcode.ADAM) or command.predictor:
        return 1
    if command.opcode == Opcode.AVGPOOL and not command.const_mantissa:  # clears its gradients
        return 1
    if command.opcode == Opcode.UPDATE and command.quality:
        places = operands(command, config)
        moved = [*places.values(), *(places[name] for name in outputs(command))]
        return places["d"].n_bytes / sum(place.n_bytes for place in moved)
    return 0


def alpha(slices: Iterable[Slice], program: Program, config: Config, forward: float) -> tuple[float, float]:
    """The predictor's work in a GP and in a BP batch, in cycles of the unit that does it, over ``forward`` cycles.

    Of GEMMs and pools the cycles from an array's first to its last vector, whichever array it is; of REORGANISE the
    drain's; of ADAM and what judges predictions the update unit's. Each mean is over the batches of its phase.
    """
    units = {Opcode.REORGANISE: ("drain",), Opcode.UPDATE: ("update",), Opcode.ADAM: ("update",)}
    work, batches = {"GP": 0.0, "BP": 0.0}, {"GP": 0, "BP": 0}
    for s in slices:
        if s.phase not in work or s.dry:
            continue
        if s.unit == "batch":
            batches[s.phase] += 1
            continue
        command = program[s.command].command
        if s.unit in units.get(command.opcode, ARRAYS):
            work[s.phase] += s.cycles * predictors_share(command, config)
    if not all(batches.values()):
        raise ValueError(f"a GP and a BP batch are needed, there are {batches}")
    return work["GP"] / batches["GP"] / forward, work["BP"] / batches["BP"] / forward


def predictor_macs(program: Program, config: Config) -> dict[str, int]:
    """MACs of a batch by phase that the array which trains does for the predictor."""
    if config.n_cores > 1:
        return {}
    commands = [line.command for line in program if line.command.predictor]
    return {
        name: sum(macs(command) for command in commands if command.phase_mask & 1 << phase)
        for phase, name in enumerate(PHASE_NAMES)
    }


def useful(compiled: Compiled) -> dict[str, int]:
    """Useful MACs of a batch by phase."""
    return {name: useful_batch(compiled, phase) for phase, name in enumerate(PHASE_NAMES)}


def directions(slices: Iterable[Slice], program: Program, n_pes: int) -> dict[str, float]:
    """PE utilisation of the model's GEMMs by direction, in whole batches: useful MACs over PEs times cycles, and all.

    The cycles of a command are from its predecessor's last vector to its own.
    """
    names = {"forward": Opcode.FORWARD, "backward_data": Opcode.BACKWARD_DATA,
             "backward_weight": Opcode.BACKWARD_WEIGHT}  # fmt: skip
    good, work, cycles = (dict.fromkeys(names.values(), 0) for _ in range(3))
    ordered = sorted((s for s in slices if s.unit == "array" and not s.dry), key=lambda s: s.begin)
    for before, s in pairwise(ordered):
        command = program[s.command].command
        if command.opcode in work and not command.predictor and before.batch == s.batch:
            good[command.opcode] += useful_macs(command)
            work[command.opcode] += macs(command)
            cycles[command.opcode] += s.end - before.end
    kinds = {"useful_utilisation": good, "utilisation": work}
    return {
        f"{kind}_{name}": round(done[op] / cycles[op] / n_pes, 5)
        for kind, done in kinds.items() for name, op in names.items() if cycles[op]
    }  # fmt: skip


def figures(designs: Mapping[str, Measured], parts: Mapping[str, float] | None = None) -> dict[str, float]:
    """Speed-ups over the baseline, costs, traffic and energy by design; what a free predictor would give.

    ``parts``: share of the batches in each phase, the paper's schedule's if None. The baseline trains as in BP what
    would be a GP batch; so do its figures say. ``overhead_*``: by how much a GP batch takes longer than the baseline's
    forward pass, a BP batch than the baseline's, in forward passes: what of the predictor doesn't hide, and all else.
    Raises ValueError for a speed-up that can't be.
    """
    base, parts = designs["baseline"], parts or shares()
    forward = base.counters["evaluation"]["cycles"]
    ratio = base.cycles("bp") / forward - 1
    found: dict[str, float] = {
        "backward_to_forward": round(ratio, 4), "implied_limit": round(limit(ratio, parts["gp"]), 4),
    }  # fmt: skip
    energy = {}
    for variant in VARIANTS:
        design = designs[variant]
        time = sum(share * design.cycles(phase) for phase, share in parts.items())
        energy[variant] = sum(share * design.picojoules(phase) for phase, share in parts.items())
        for phase in parts:
            found[f"cycles_{phase}_{variant}"] = round(design.cycles(phase))
            found[f"useful_utilisation_{phase}_{variant}"] = round(design.useful_utilisation(phase), 5)
            found[f"utilisation_{phase}_{variant}"] = round(design.utilisation(phase), 5)
            found[f"dram_bytes_{phase}_{variant}"] = round(design.dram_bytes(phase))
        found[f"speedup_{variant}"] = speedup = round(base.cycles("bp") / time, 4)
        if speedup > found["implied_limit"]:
            raise ValueError(f"{variant} is {speedup} times as fast: more than a free predictor")
        found[f"dram_energy_saving_{variant}"] = round(1 - energy[variant] / energy["baseline"], 4)
        if variant != "baseline":
            found[f"alpha_forward_{variant}"], found[f"alpha_backward_{variant}"] = (round(a, 4) for a in design.alpha)
            found[f"overhead_forward_{variant}"] = round(design.cycles("gp") / forward - 1, 4)
            found[f"overhead_backward_{variant}"] = round((design.cycles("bp") - base.cycles("bp")) / forward, 4)
    found["dram_energy_saving"] = found["dram_energy_saving_max"]
    return found | {"paper_speedup": SPEEDUP, "paper_dram_energy_saving": DRAM_ENERGY_SAVING}
