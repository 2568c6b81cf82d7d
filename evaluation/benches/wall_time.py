"""Times of BP and GP batches in PyTorch, and of a GP batch's parts: writes ``results/wall_time.json``.

``python -m adagp.evaluation.benches.wall_time``, on a machine that does nothing else. All kinds of batches are run in
turn, so that each meets the same machine; times are medians. Small images keep a GPU waiting for its host, which sends
it one small piece of work after the other; ``--size`` tells what is left of that with larger ones, ``--batch 1`` what
a CPU does with little.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import quantiles

import torch
from rich.progress import track
from torch import Tensor
from torch.nn import functional as F

from ...algorithm import AdaGP, schedule
from ...algorithm.graphed import WARM, GraphedAdaGP
from ...experiments.errors import NetworkError
from ...experiments.networks.models import build
from ...gen.provenance import commit, provenance
from ...host.console import at_least_one, screen, writable
from ..instruments.results import FOLDER, merge_results

__all__ = ["HOWS", "KINDS", "SIZE", "Times", "figures_of", "half_predicted", "main", "times"]

COMMAND = "python -m adagp.evaluation.benches.wall_time"
MODELS = ("vgg13", "resnet50")
KINDS = ("bp", "ada_bp", "gp", "gp_at_once", "forward", "predictor", "predictor_at_once", "update")
AT_ONCE = 8
"""Weights of ``gp_at_once`` and ``predictor_at_once``; of the others it is one."""
HOWS = ("", "_at_once")
"""Behind the names of what GP batches take: with one weight at a time, with AT_ONCE."""
CLASSES = 10
CPU = "cpu"
SIZE, BATCH = 32, 64
"""Size of images, and images in a batch, by default."""
LR, MOMENTUM = 1e-3, 0.9
SEED = 0


@dataclass(frozen=True)
class Times:
    """Times of batches of KINDS: medians in seconds, and interquartile ranges as shares of them."""

    seconds: dict[str, float]
    spread: dict[str, float]


class _Training:
    """A copy of the network in training; each method is a batch, or a part of one."""

    def __init__(self, model: str, images: Tensor, labels: Tensor, graphs: bool = False):
        self._graphs = graphs
        self.network = build(model, CLASSES, images.shape[-1], SEED).to(images.device).train()
        self.optimizer = torch.optim.SGD(self.network.parameters(), LR, momentum=MOMENTUM)
        self._images, self._labels = images, labels

    def loss(self) -> Tensor:
        return F.cross_entropy(self.network(self._images), self._labels)

    def bp(self) -> None:
        self.loss().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()  # at its end, so that update finds no gradients of what isn't predicted

    def forward(self) -> None:
        with torch.no_grad():
            self.loss()

    def trainer(self, gp: bool, at_once: int = 1) -> Callable[[], object]:
        """A batch of AdaGP's after its warm-up, with true gradients or with predicted ones."""
        phases = schedule(1, (1, 1, 0) if gp else (1, 0, 1))
        make = GraphedAdaGP if self._graphs else AdaGP
        ada = make(self.network, self.optimizer, phases, metrics=False, weights_at_once=at_once, seed=SEED)
        for _ in ada.epoch(range(1)):
            ada.step(self.loss)
        if self._graphs:
            for _ in range(WARM):
                ada.step(self.loss)
        return lambda: ada.step(self.loss)

    def parts(self) -> tuple[Callable[[], object], ...]:
        """The predictor, for all weights one by one and AT_ONCE by AT_ONCE; the optimizer, with all of them at once."""
        ada = AdaGP(self.network, self.optimizer, seed=SEED)
        weights = {name: self.network.get_parameter(name) for name in ada.predicted}
        windows = ada.predictor.settings.windows
        outputs = {name: torch.randn(len(w), windows, windows, device=w.device) for name, w in weights.items()}
        gradients = {name: torch.zeros_like(weight) for name, weight in weights.items()}
        ada.close()

        def predict(at_once):
            seen = list(outputs.items())
            for first in range(0, len(seen), at_once):
                ada.predictor.gradients(dict(seen[first : first + at_once]))

        def update():
            for name, weight in weights.items():
                weight.grad = gradients[name]
            self.optimizer.step()
            self.optimizer.zero_grad()

        return partial(predict, 1), partial(predict, AT_ONCE), update


def times(
    model: str,
    batch: int,
    rounds: int,
    device: str,
    tell: Callable[[range], Iterable[int]] = iter,
    size: int = SIZE,
    graphs: bool = False,
) -> Times:
    """For ``rounds`` batches of each kind, two at least, with images of ``size`` x ``size``.

    ``bp``: plain training. ``ada_bp``, ``gp``: AdaGP's, without metrics; ``gp_at_once``: with AT_ONCE weights at once.
    ``forward``: in training mode, nothing kept for a backward pass. ``predictor``: of outputs as if they were
    reorganised, for all weights one by one, or AT_ONCE by AT_ONCE. ``update``: of all these weights by the optimizer at
    once. Networks of plain kinds have no hooks. With ``graphs`` each kind is a CUDA graph.
    """
    torch.manual_seed(SEED)
    x = torch.randn(batch, 3, size, size, device=device)
    y = torch.randint(CLASSES, (batch,), device=device)
    plain, true, predicted, together = (_Training(model, x, y, graphs) for _ in range(4))
    plain.bp()  # the optimizer has its momentum
    batches = plain.bp, true.trainer(False), predicted.trainer(True), together.trainer(True, AT_ONCE)
    kinds = dict(zip(KINDS, (*batches, plain.forward, *plain.parts()), strict=True))
    if graphs:
        ours = ("ada_bp", "gp", "gp_at_once")  # which record themselves
        kinds = {kind: run if kind in ours else _recorded(run) for kind, run in kinds.items()}
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in tell(range(rounds + 1)):
        for kind, run in kinds.items():
            seconds = _timed(run, device)
            if number:  # the first round warms up
                found[kind].append(seconds)
    quartiles = {kind: quantiles(seconds, n=4, method="inclusive") for kind, seconds in found.items()}
    return Times(
        {kind: middle for kind, (_, middle, _) in quartiles.items()},
        {kind: (high - low) / middle for kind, (low, middle, high) in quartiles.items()},
    )


def _recorded(run: Callable[[], object]) -> Callable[[], object]:
    """The same work as a CUDA graph, which holds on to what it works on."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(WARM):
            run()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        run()

    def replay():
        graph.replay()
        return run

    return replay


def _timed(run: Callable[[], object], device: str) -> float:
    def settle():
        if device == "cuda":
            torch.cuda.synchronize()

    settle()
    begun = time.perf_counter()
    run()
    settle()
    return time.perf_counter() - begun


def half_predicted(seconds: Mapping[str, float], how: str) -> float:
    """Time of a GP batch of a kind of HOWS and a BP batch of AdaGP's, over two of plain training."""
    return (seconds[f"gp{how}"] + seconds["ada_bp"]) / (2 * seconds["bp"])


def figures_of(model: str, part: str, seconds: dict[str, float]) -> dict[str, float]:
    """Ratios, named after the ``part`` of the results.

    ``overhead``: what a GP batch takes beside forward, predictor and update, as a share of these; ``overhead_at_once``:
    with AT_ONCE weights at once, beside the faster of both predictors.
    """
    bp = seconds["bp"]
    found = {"ada_bp_over_bp": seconds["ada_bp"] / bp}
    for how in HOWS:
        gp, predictor = seconds[f"gp{how}"], min(seconds["predictor"], seconds[f"predictor{how}"])
        parts = seconds["forward"] + predictor + seconds["update"]
        found |= {f"gp{how}_over_bp": gp / bp, f"gp{how}_over_forward": gp / seconds["forward"],
                  f"overhead{how}": gp / parts - 1, f"half_predicted{how}": half_predicted(seconds, how)}  # fmt: skip
    return {f"{name}_{model}_{part}": round(value, 4) for name, value in found.items()}


def _named(parser: argparse.ArgumentParser, options: argparse.Namespace) -> tuple[str, str]:
    """The part of the results, which others don't overwrite, and the command for it."""
    given = {name: getattr(options, name) for name in ("device", "size", "batch", "threads", "rounds")}
    other = {name: value for name, value in given.items() if value != parser.get_default(name)}
    apart = (f"-{name}-{other[name]}" for name in ("size", "batch", "threads") if name in other)
    graphs = ["--graphs"] * options.graphs
    said = (*(f"--{name} {other[name]}" for name in other), *graphs)
    return options.device + "-graphs" * options.graphs + "".join(apart), " ".join((COMMAND, *said))


def main() -> None:
    """Entry point of ``nox -s bench_wall_time``."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--rounds", type=at_least_one, default=15, help="batches of each kind (default: %(default)s)")
    parser.add_argument("--batch", type=at_least_one, default=BATCH, help="images in a batch (default: %(default)s)")
    parser.add_argument("--size", type=at_least_one, default=SIZE, help="of an image (default: %(default)s pixels)")
    parser.add_argument("--device", default=CPU, choices=(CPU, "cuda"))
    parser.add_argument("--graphs", action="store_true", help="each kind of batch as a CUDA graph, on a GPU")
    parser.add_argument("--threads", type=at_least_one, default=1, help="of PyTorch, on the CPU (default: %(default)s)")
    parser.add_argument("-o", "--output", type=writable, default=FOLDER / "wall_time.json")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds must be 2 or more, or there are no quartiles")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda, and PyTorch finds no GPU")
    if options.graphs and options.device != "cuda":
        parser.error("--graphs needs --device cuda")
    torch.set_num_threads(options.threads)
    sources = commit()
    part, command = _named(parser, options)
    figures: dict[str, float] = {}
    found: dict[str, Times] = {}
    for model in MODELS:
        shown = partial(track, description=model, console=screen)
        try:
            found[model] = times(
                model, options.batch, options.rounds, options.device, shown, options.size, options.graphs
            )
        except NetworkError as error:
            parser.exit(2, f"error: {error}\n")
        figures |= figures_of(model, part, found[model].seconds)
    used = {"batch": options.batch, "size": options.size, "rounds": options.rounds, "threads": options.threads,
            "at_once": AT_ONCE}  # fmt: skip
    origin = provenance(command, None, SEED, sources, "library")
    if options.device == "cuda":
        origin["processor"] = torch.cuda.get_device_name()
    measured = {"seconds": {model: one.seconds for model, one in found.items()},
                "spread": {model: one.spread for model, one in found.items()}}  # fmt: skip
    merge_results(options.output, part, figures, {**measured, **used}, origin)
    for name, value in figures.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
