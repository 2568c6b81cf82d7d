"""What a batch takes in PyTorch: BP, GP, and what a GP batch consists of: ``results/wall_time.json``.

``python -m adagp.experiments.bench_wall_time``, on a machine that does nothing else. All kinds of batches are run in
turn, so that each meets the same machine; times are medians.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from rich.progress import track
from torch import nn
from torch.nn import functional as F

from ..golden.training import AdaGP, schedule
from ..host.cli_options import screen, writable
from ..host.results import FOLDER, commit, provenance, write_results
from ..spec.presets import preset
from .models import build

__all__ = ["main", "times"]

COMMAND = "python -m adagp.experiments.bench_wall_time"
MODELS = ("vgg13", "resnet50")
CLASSES, SIZE = 10, 32
LR, MOMENTUM = 1e-3, 0.9


def times(model: str, batch: int, rounds: int, device: str, tell: Callable = iter) -> dict[str, float]:
    """Medians in seconds, for images of SIZE x SIZE.

    ``bp``: plain training. ``ada_bp``, ``gp``: AdaGP's, without metrics. ``forward``: in training mode, nothing kept
    for a backward pass. ``predictor``: of reorganised outputs, for all weights. ``update``: of all these weights by the
    optimizer at once.
    """
    network = build(model, CLASSES, SIZE).to(device).train()
    optimizer = torch.optim.SGD(network.parameters(), LR, momentum=MOMENTUM)
    ada = AdaGP(network, optimizer, schedule(1, (1, 1, 0)), metrics=False)
    x, y = torch.randn(batch, 3, SIZE, SIZE, device=device), torch.randint(CLASSES, (batch,), device=device)

    def compute():
        return F.cross_entropy(network(x), y)

    with torch.no_grad():
        outputs: dict[str, torch.Tensor | None] = {}
        with ada._recorder.recording(outputs.__setitem__, True):
            compute()
    ada.step(compute)  # warm-up: scales and momentum are there
    weights = {name: dict(network.named_parameters())[name] for name in ada.predicted}
    gradients = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    warm = ada._position.state()

    def phase(gp):
        ada._position.go_to((1, 0, False, 0) if gp else warm)

    def plain():
        optimizer.zero_grad()
        compute().backward()
        optimizer.step()

    def forward():
        with torch.no_grad():
            compute()

    def predict():
        for name, output in outputs.items():
            if output is not None:
                ada.predictor.gradient(name, output)

    def update():
        for name, weight in weights.items():
            weight.grad = gradients[name]
        optimizer.step()
        optimizer.zero_grad()

    def without_hooks(run: Callable[[], object]):
        return lambda: _unhooked(network, run)

    kinds: dict[str, Callable[[], object]] = {
        "bp": without_hooks(plain), "forward": without_hooks(forward), "predictor": predict, "update": update,
        "gp": lambda: (phase(True), ada.step(compute)), "ada_bp": lambda: (phase(False), ada.step(compute)),
    }  # fmt: skip
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in tell(range(rounds + 1)):
        for kind, run in kinds.items():
            _settled(device)
            begun = time.perf_counter()
            run()
            _settled(device)
            if number:  # the first round warms up
                found[kind].append(time.perf_counter() - begun)
    return {kind: median(seconds) for kind, seconds in found.items()}


def _settled(device):
    if device == "cuda":
        torch.cuda.synchronize()


def _unhooked(network: nn.Module, run: Callable[[], object]) -> None:
    """Run without the forward hooks, which idle then too, but are called."""
    kept = [(module, module._forward_hooks.copy()) for module in network.modules() if module._forward_hooks]
    for module, _ in kept:
        module._forward_hooks.clear()
    try:
        run()
    finally:
        for module, hooks in kept:
            module._forward_hooks.update(hooks)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="batches of each kind (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="images in a batch (default: %(default)s)")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch, on the CPU (default: %(default)s)")
    parser.add_argument("-o", "--output", type=writable, default=FOLDER / "wall_time.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sources = commit()
    figures: dict[str, float] = {}
    details: dict[str, dict[str, float]] = {}
    for model in MODELS:
        found = times(model, options.batch, options.rounds, options.device,
                      lambda rounds, model=model: track(rounds, model, console=screen))  # fmt: skip
        parts = found["forward"] + found["predictor"] + found["update"]
        details[model] = found
        figures |= {
            f"{model}_{options.device}_gp_over_bp": round(found["gp"] / found["bp"], 4),
            f"{model}_{options.device}_gp_over_forward": round(found["gp"] / found["forward"], 4),
            f"{model}_{options.device}_overhead": round(found["gp"] / parts - 1, 4),
            f"{model}_{options.device}_ada_bp_over_bp": round(found["ada_bp"] / found["bp"], 4),
        }
    used = {"batch": options.batch, "rounds": options.rounds, "device": options.device, "threads": options.threads}
    write_results(options.output, figures, {"seconds": details, **used},
                  provenance(COMMAND, preset("ecp5"), 0, sources))  # fmt: skip
    for name, value in figures.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
