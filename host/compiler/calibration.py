"""The program of the batch that calibrates, if several commands write a tensor.

Calibration finds a tensor's exponent from one command. The parts of a whole share one exponent, but come from several,
of which the later ones depend on the earlier. So in this batch each part gets an exponent of its own, and then the
program stops: the host joins the part to those that are there, at the larger of the two exponents. The groups of a
convolution write such parts too. A batch norm's constants hold a sum of mantissas, which the host then makes anew if
the norm has read an earlier part. An average whose borders are raised in place is computed twice: first so much larger
that its exponent suits the borders too.

A product's result comes from several commands too. Before them the program stops, and the host sets the exponent that
the largest of all their results needs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...spec.commands import Opcode
from .borders import raised_bits
from .channel_groups import group_part
from .graph import Graph
from .ir import WITH_LOSS, Step
from .islands import Stop
from .tensors import joining

__all__ = ["calibrating"]


def calibrating(graph: Graph, steps: Iterable[Step], stops: Iterable[Stop]) -> tuple[list[Step], list[Stop]]:
    """The steps and stops of the batch that calibrates, from those of any batch."""
    found: tuple[list[Step], list[Stop]] = ([], [])
    for step, stop in _joined(graph, steps, iter(stops)):
        found[0].append(step)
        found[1].extend([stop] if stop else [])
    return found


def _joined(graph: Graph, steps: Iterable[Step], stops: Iterator[Stop]) -> Iterator[tuple[Step, Stop | None]]:
    there: dict[str, list[str]] = {}  # parts that are joined already, by whole
    normed: dict[str, list[tuple[str, str]]] = {}  # what batch norms have read, and their constants, by whole
    multiplied: set[str] = set()  # results of products that have begun
    ahead = [step for step in steps if step.phases & WITH_LOSS]
    for place, step in enumerate(ahead):
        written = step.operands.get("out", "")
        if step.rest:
            yield _untracked(step), None
            continue
        if step.opcode == Opcode.NORM_CONSTANTS:
            normed.setdefault(graph.numbered(x := step.numbers["a"]), []).append((x, written))
        if place + 1 < len(ahead) and ahead[place + 1].rest:
            larger = step.fields.get("const_exponent", 0) + raised_bits(graph.layers[ahead[place + 1].layer])
            yield replace(step, fields={**step.fields, "const_exponent": larger}), None
            yield _untracked(step), None
            continue
        if step.product is not None:
            if not place or ahead[place - 1].product is not step.product:
                reads = step.product.a.tensor, step.product.b.tensor, *[written] * (written in multiplied)
                stop = Stop("product", None, step.phases, reads, (written,), step.product)
                yield Step(Opcode.HOST, step.phases, name=step.name), stop
                multiplied.add(written)
            yield _untracked(step), None
            continue
        before = ahead[place - 1] if step.opcode == Opcode.REORGANISE else step
        made = before.operands.get("out", "")
        if made not in graph.parts and before.group is None:
            yield step, next(stops) if step.opcode == Opcode.HOST else None
            continue
        whole = graph.numbered(made)
        written = made if before.group is None else group_part(before)
        yield replace(step, numbers={**step.numbers, "out" if before is step else "a": joining(whole)}), None
        if before is step and place + 1 < len(ahead) and ahead[place + 1].opcode == Opcode.REORGANISE:
            continue  # which reads the part's exponent
        earlier = [part for part in there.setdefault(whole, []) if part != written]  # dropout has two steps
        phases = step.phases & WITH_LOSS
        name = step.name or written.rpartition(".")[0]
        stop = Stop("join", None, phases, (written, *earlier), (whole,), normed=tuple(normed.get(whole, ())))
        yield Step(Opcode.HOST, phases, name=name), stop
        there[whole] = [*earlier, written]


def _untracked(step: Step) -> Step:
    """The step at the exponent that its result has."""
    return replace(step, fields={**step.fields, "track": 0})
