"""Batches of the paper's networks on the estimator, in the four designs, and the figures that follow from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from torch import nn

from ...experiments.networks.cnns import DENSENETS, INCEPTIONS, MOBILENETS, RESNETS, VGGS
from ...experiments.networks.models import CNNS, PAPER_MODELS, build
from ...gen.cache import code, digest
from ...host.compiler.dataflow import MODELLED, OUTPUT_STATIONARY
from ...host.compiler.front_end import graph_of
from ...host.compiler.graph import Graph
from ...host.compiler.lowering import Kind
from ...host.compiler.memory_plan import PlanError
from ...host.compiler.values import Input
from ...host.estimate.machine import REST
from ...host.estimate.repeats import Known
from ...host.training.models import MODELS, build_model
from ...host.training.network import Network
from ...spec.config import SWITCHES, VARIANTS, Config
from ...spec.phases import GP
from ...spec.presets import preset
from ...spec.schedule import KEEP
from .energy import MODULE
from .estimates import FORWARD, Batch, estimated, phases_of, speed_up
from .variants import shares

__all__ = [
    "AFTER", "DATA", "KEPT", "KINDS", "NETWORKS", "SMALL", "Case", "Data", "Rows", "deciding", "design", "errors",
    "estimate", "figures_of", "kind_of", "layer_figures", "layers", "picojoules", "saving", "sources",
]  # fmt: skip


@dataclass(frozen=True)
class Data:
    """A data set: side of its images or words of its sentences, classes or words of its languages, what it trains on.

    ``examples``: images or pairs of sentences of an epoch. ``large``: side that Inception takes, if it is another.
    """

    title: str
    side: int
    classes: int
    examples: int
    large: int = 0
    source: int = 0


DATA = {
    "cifar10": Data("CIFAR-10", 32, 10, 50_000),
    "cifar100": Data("CIFAR-100", 32, 100, 50_000),
    "imagenet": Data("ImageNet", 224, 1000, 1_281_167, large=299),
    "multi30k": Data("Multi30k", 12, 5893, 29_000, source=7853),
    "voc": Data("Pascal VOC", 416, 20, 16_551),
}
"""Sentences have the mean of Multi30k's words; its languages' words are those that occur twice. Pascal VOC is that of
2007 and 2012, in the size that YOLO-v3 was published for."""
NETWORKS: dict[str, tuple[str, ...]] = {
    name: ("cifar10", "cifar100", "imagenet") if name in CNNS else ("multi30k",) if name == "transformer" else ("voc",)
    for name in (*VGGS[::-1], *RESNETS[::-1], *MOBILENETS, *INCEPTIONS[::-1], *DENSENETS[::-1], *PAPER_MODELS)
}
"""The paper's networks with their data sets, those of few shapes of layers first."""
SMALL = tuple(name for name in MODELS if name not in NETWORKS)
CAPACITY = 1 << 32
"""Bytes of memory: twice the preset's, the most that addresses reach."""
ENLARGED = {"n_tensors": 4096, "n_filters": 2048, "acc_width": 54}
"""Sizes that the networks need; the accumulator's is wider for batch norm of the largest maps, YOLO-v3's of 416x416."""
KINDS = ("forward", "backward", "update", "predictor", "program")
"""Kinds of traffic."""
KEPT, STREAMED = "gp, momentum kept", "gp, momentum kept, streamed"
"""Names, among phases, of GP batches that leave momentum as it is, without and with predictions streamed."""
PRODUCTS, AFTER = (Kind.GEMM, Kind.DEPTHWISE), "end of the batch"
COUNTED = ("cycles", "macs", "array_cycles", "predictor_cycles", "read_bytes", "write_bytes", "predictor_bytes")
"""Counters that are kept."""

Rows = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Case:
    """A network on a data set by a dataflow."""

    model: str
    data: str
    dataflow: str


def deciding() -> list[Path]:
    """Sources that decide an estimate."""
    root = Path(__file__).parents[2]
    folders = ("host/compiler", "host/estimate", "spec", "rtl", "golden", "experiments/networks")
    files = ("host/devices/estimator.py", "host/training/network.py", "evaluation/instruments/estimates.py")
    paths = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    return [*paths, *(root / file for file in files), Path(__file__)]


@cache
def sources() -> str:
    """The digest of all that decides an estimate."""
    return digest(*(code(path) for path in deciding()))[:16]


def design(size: str, variant: str) -> Config:
    """The design of a preset that the networks fit, with all that its switches build."""
    base = preset(size)
    fields: dict[str, Any] = {name: max(least, getattr(base, name)) for name, least in ENLARGED.items()}
    dram = replace(base.dram, capacity_bytes=CAPACITY)
    return replace(base, **fields | dict.fromkeys(SWITCHES, True), variant=variant, dram=dram)


def _inputs(case: Case) -> list[Input]:
    data = DATA[case.data]
    if data.source:
        return [Input((data.side,), words - 1, whole=True) for words in (data.source, data.classes)]
    side = data.large if data.large and case.model in INCEPTIONS else data.side
    return [Input((3, side, side))]


@lru_cache(2)
def _module(model: str, data: str, seed: int) -> nn.Module:
    of, (first, *_) = DATA[data], _inputs(Case(model, data, ""))
    if of.source:
        return build(model, of.classes, seed=seed, source_words=of.source)
    if model in SMALL:
        return build_model(model, (3, of.side, of.side), of.classes, seed)
    return build(model, of.classes, first.shape[-1], seed)


@lru_cache(4)
def _graph(model: str, data: str, batch: int, size: str, seed: int) -> Graph:
    """The graph that all designs and dataflows share, as switches alone decide it."""
    inputs = _inputs(Case(model, data, ""))
    return graph_of(_module(model, data, seed), inputs, batch, design(size, "baseline"))


_KNOWN = Known()
"""Commands of all networks that this process has estimated."""


def network_of(case: Case, batch: int, config: Config, size: str, seed: int, **options: Any) -> Network:
    dataflow = "free" if case.dataflow in MODELLED else case.dataflow
    return Network(
        _module(case.model, case.data, seed), _inputs(case), batch, config, dataflow=dataflow,
        source="predicted" if config.predicts else None, graph=_graph(case.model, case.data, batch, size, seed),
        **options,
    )  # fmt: skip


def _estimated(case: Case, network: Network, known: Known | None = None, halves: bool = False) -> dict[str, Batch]:
    modelled = case.dataflow in MODELLED
    return estimated(network, phases_of(network), known, halves=halves, row_stationary=modelled)


def estimate(case: Case, batch: int, size: str, seed: int) -> dict | None:
    """A case's batches in the four designs; None if a program doesn't fit in memory.

    ``useful_macs`` are those of a BP batch, which all designs share.
    """
    row: dict[str, Any] = {"designs": {}}
    for variant in VARIANTS:
        config = replace(design(size, variant), output_stationary=case.dataflow == OUTPUT_STATIONARY)
        try:
            network = network_of(case, batch, config, size, seed)
        except PlanError:
            return None
        found = _estimated(case, network, _KNOWN, halves=variant == "baseline")
        row["designs"][variant] = {name: _kept(one) for name, one in found.items()}
        if variant == "baseline":
            row |= {"pes": config.n_pes, "useful_macs": found["bp"].useful_macs}
            row["islands"] = sorted({
                operator for stop in network.compiled.stops if stop.island is not None
                for operator in stop.island.operators
            })  # fmt: skip
    return row


def saving(case: Case, batch: int, size: str, seed: int, every: int) -> tuple[dict[str, Batch], dict[str, Batch]]:
    """A case's batches on the baseline and on MAX; there also one from which the predictor doesn't learn, as UNTAUGHT,
    and those of GP that leave momentum as it is, as KEPT and STREAMED."""
    baseline, *_, largest = VARIANTS
    plain = network_of(case, batch, design(size, baseline), size, seed)
    taught = network_of(case, batch, design(size, largest), size, seed, predictor_every=every)
    keeping = network_of(case, batch, design(size, largest), size, seed, gp_momentum=KEEP)
    found = _estimated(case, taught, _KNOWN)
    found[KEPT] = estimated(keeping, (GP,), _KNOWN)["gp"]
    config = replace(design(size, largest), streamed_predictions=True)
    streaming = network_of(case, batch, config, size, seed, gp_momentum=KEEP)
    found[STREAMED] = estimated(streaming, (GP,), _KNOWN)["gp"]
    return _estimated(case, plain, _KNOWN, halves=True), found


def errors(case: Case, batch: int, size: str, seed: int) -> dict[str, float]:
    """By what part the cycles of MAX's batches differ at most if what repeats isn't left out, as ``known``.

    ``known_bytes``: by what part bytes read or written of a kind do; none is to.

    Raises PlanError for a program that doesn't fit in memory.
    """
    network = network_of(case, batch, design(size, VARIANTS[-1]), size, seed)
    row = estimate(case, batch, size, seed)
    assert row is not None
    brief = row["designs"][VARIANTS[-1]]
    whole = {name: _kept(one) for name, one in _estimated(case, network).items()}
    moved = [
        (ours, theirs) for name, one in whole.items() for kind in KINDS
        for ours, theirs in zip(brief[name]["bytes"][kind], one["bytes"][kind], strict=True) if theirs or ours
    ]  # fmt: skip
    return {
        "known": round(max(abs(brief[name]["cycles"] / one["cycles"] - 1) for name, one in whole.items()), 6),
        "known_bytes": round(max(abs(ours - theirs) / max(ours, theirs) for ours, theirs in moved), 6),
    }  # fmt: skip


def layers(case: Case, batch: int, size: str, seed: int) -> dict[str, dict[str, dict[str, int]]]:
    """Cycles of a case's batches by design, phase and layer: that of a product, with the layers up to the next one.

    AFTER: what follows the last command on the main array. Raises PlanError if a program doesn't fit in memory.
    """
    found: dict[str, dict[str, dict[str, int]]] = {}
    for variant in VARIANTS:
        network = network_of(case, batch, design(size, variant), size, seed)
        names, head = dict[int, str](), ""
        for place, layer in enumerate(network.layers):
            head = layer.name if layer.kind in PRODUCTS or not head else head
            names[place] = head
        names[REST] = AFTER
        for phase, one in _estimated(case, network, _KNOWN).items():
            cycles = dict.fromkeys(names.values(), 0)
            for place, count in one.layers.items():
                cycles[names[place]] += count
            found.setdefault(variant, {})[phase] = cycles
    return found


def layer_figures(found: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, float]:
    """Least and most, over layers, of a design's cycles in a phase over the baseline's."""
    base = found["baseline"]["bp"]
    ratios = {
        f"{variant}_{phase}": [count / base[name] for name, count in cycles.items() if name != AFTER]
        for variant in VARIANTS[1:] for phase, cycles in found[variant].items()
    }  # fmt: skip
    return {
        f"layers_{which}_{name}": round(of(each), 4)
        for name, each in ratios.items() for which, of in (("least", min), ("most", max))
    }  # fmt: skip


def kind_of(name: str) -> str:
    """The kind of a command's traffic, by the command's name in the estimator's table."""
    if name.startswith("predictor") or name in ("reorganise", "adam"):
        return "predictor"
    if name in ("update", "fetch"):
        return {"update": "update", "fetch": "program"}[name]
    return "backward" if "backward" in name or name == "depthwise_weight" else "forward"


def _kept(batch: Batch) -> dict:
    """A batch's counters, and bytes read and written by kind."""
    kinds = {kind: [0, 0] for kind in KINDS}
    for (name, _, way), count in batch.moved.items():
        if way != "chip":
            kinds[kind_of(name)][way == "write"] += count
    return {**{name: batch.counters[name] for name in COUNTED}, "bytes": kinds, "busiest": batch.limited_by}


def picojoules(pair: Sequence[int]) -> float:
    """Energy of bytes read and written."""
    read, written = pair
    return read * MODULE.read_pj + written * MODULE.write_pj


def figures_of(row: Mapping[str, Any]) -> dict[str, float]:
    """A network's figures: by variant, and those of the baseline."""
    designs = {
        variant: {name: Batch({**one}) for name, one in batches.items()} for variant, batches in row["designs"].items()
    }
    base, found = designs["baseline"], dict[str, float]()
    for variant in VARIANTS[1:]:
        gains = speed_up(base, designs[variant], variant, row["pes"])
        found[f"speedup_{variant}"] = gains.pop("speed_up")
        found[f"dram_energy_saving_{variant}"] = gains.pop("dram_energy_saving")
        found |= gains
    bp, forward = base["bp"], base[FORWARD]
    found["ideal_saving"] = shares()["gp"] * (1 - forward.millijoules / bp.millijoules)
    for name, products in (("useful_utilisation", row["useful_macs"]), ("utilisation", bp.counters["macs"])):
        found[f"baseline_{name}"] = products / (row["pes"] * bp.cycles)
    return found
