"""Cuts of a network into stages: runs of its nodes, balanced by the cycles that their commands are expected to take."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise

from ...spec.commands import Phase
from ...spec.config import Config
from ...spec.opcodes import COMPUTE, UPDATES
from ..compiler.batch import Batch
from ..compiler.compiler import assembled, declared_tensors
from ..compiler.costs import cycles_of
from ..compiler.gradient_source import GradientSource
from ..compiler.graph import Graph
from ..compiler.lifetimes import lifetimes
from .steps import PipelineError

__all__ = ["balanced", "cut_at", "node_cycles", "node_of"]


def node_of(step, graph: Graph) -> str:
    """Name of the node that a step belongs to."""
    return step.name or graph.layers[step.layer].name


def node_cycles(
    graph: Graph, work: Batch, source: GradientSource, batch: int, config: Config, micro_batches: int, updates: int = 1
) -> dict[str, int]:
    """Expected cycles of a batch by node, in the graph's order; ``updates`` of each weight, as often the predictor."""
    tensors = {each.name: each for _, each in declared_tensors(graph, work, source, config, lifetimes(graph, work))}
    found: Counter[str] = Counter()
    for step in work.steps:
        if step.phases & Phase.BP and (step.opcode in COMPUTE or step.opcode in UPDATES):
            times = updates if step.opcode in UPDATES or step.fields.get("predictor") else micro_batches
            cycles = cycles_of(assembled(step, graph, batch, config, tensors, 0).command, config)
            found[node_of(step, graph)] += times * cycles
    return {node.name: found[node.name] for node in graph.nodes if node.name in found}


def balanced(cycles: dict[str, int], stages: int) -> dict[str, int]:
    """The stage of each node, such that the longest stage is as short as it can be; raises PipelineError."""
    names = list(cycles)
    if not 1 <= stages <= len(names):
        raise PipelineError(f"stages = {stages} must satisfy 1 <= stages <= {len(names)}, the network's layers")
    sums = [0, *accumulate(cycles.values())]
    # longest[end]: the longest stage if the first ``end`` nodes are cut into so many; first[..][end]: where the last is
    longest, firsts = sums, []
    for stage in range(1, stages):
        choices = [
            min(((max(longest[first], sums[end] - sums[first]), first) for first in range(stage, end)), default=(0, 0))
            for end in range(len(names) + 1)
        ]
        longest = [length for length, _ in choices]
        firsts.append([first for _, first in choices])
    ends = [len(names)]
    for row in reversed(firsts):
        ends.append(row[ends[-1]])
    return _numbered(names, sorted(ends[1:]))


def cut_at(cycles: dict[str, int], first: Sequence[str], stages: int) -> dict[str, int]:
    """The stage of each node, if all but the first stage begin with the nodes ``first``; raises PipelineError."""
    names = list(cycles)
    if unknown := [name for name in first if name not in names[1:]]:
        raise PipelineError(f"cut at {unknown[0]!r}: a stage must begin with one of {', '.join(names[1:])}")
    places = [names.index(name) for name in first]
    if any(later <= place for place, later in pairwise(places)):
        raise PipelineError(f"cut at {', '.join(first)}: stages must follow each other as layers do")
    if len(places) != stages - 1:
        raise PipelineError(f"cut names {len(places)} of the {stages - 1} layers that {stages} stages need")
    return _numbered(names, places)


def _numbered(names: Sequence[str], places: Sequence[int]) -> dict[str, int]:
    """The number of each name's stage, where stages after the first begin at ``places``."""
    return {name: sum(first <= place for first in places) for place, name in enumerate(names)}
