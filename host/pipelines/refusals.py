"""Networks that can't be run on several devices, and why."""

from collections.abc import Mapping

from ..compiler.graph import Graph
from ..compiler.lowering import Kind, Layer
from .steps import PipelineError, Schedule

__all__ = ["check_network", "check_replicas"]


def check_network(graph: Graph, schedule: Schedule, hybrid: bool = False) -> None:
    """Raise PipelineError for what can't be run on several devices."""
    if any(place.forward != place.backward for place in schedule.places.values()):
        raise PipelineError(
            f"{schedule.name}: each stage has two devices, and the one would send its weights to the other after each"
            " update; stale-paired has the same weights, and both passes of a stage on one device"
        )
    if len(schedule.batches) > 1:
        raise PipelineError(f"{schedule.name}: only schedules of a batch can be run, not of {len(schedule.batches)}")
    if hybrid and not schedule.eager:
        raise PipelineError(f"{schedule.name}: no weights are stale, so there is no hybrid of it")
    if schedule.replicas > 1 and (normed := [layer.name for layer in graph.layers if layer.kind is Kind.NORM]):
        raise PipelineError(
            f"{schedule.name}: {normed[0]}: batch norm's running statistics follow from all micro-batches in turn, and"
            " each replica sees a part of them"
        )
    if graph.islands:
        raise PipelineError(f"{graph.islands[0].name} runs on the host, and stages of a pipeline have no part there")
    if dropped := [layer.name for layer in graph.layers if layer.kind is Kind.DROPOUT]:
        raise PipelineError(
            f"{dropped[0]}: dropout draws by the number of the batch, which a pipeline doesn't set on its devices, and"
            " all micro-batches would drop the same elements"
        )
    if graph.calibrates_apart:
        raise PipelineError(
            "a network with concatenations, convolutions in groups, products of activations or averages without their"
            " padding can't be cut into stages, since its batch that calibrates stops the device"
        )


def check_replicas(schedule: Schedule, pieces: Mapping[str, Layer]) -> None:
    """Raise PipelineError if replicas can't add up gradients as one device does; ``pieces`` are partial gradients."""
    if schedule.replicas > 1 and pieces:
        name = next(iter(pieces.values())).name
        raise PipelineError(
            f"{schedule.name}: {name}: the gradient of a micro-batch takes several commands, and a replica can't keep"
            " it apart: take more micro-batches"
        )
