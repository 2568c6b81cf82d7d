"""Install a built wheel into an empty environment outside the checkout, and use it there.

``python tb/check_install.py FOLDER [PYTHON]``: the folder has the wheel; the environment is made by PYTHON. Each
simulator is built anew, since the cache is empty too.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMALL = ("--preset", "tiny", "--epochs", "1", "--batch", "16", "--train-images", "64", "--test-images", "32")
LIBRARY = """
import adagp, torch
from torch import nn
torch.manual_seed(0)
network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
ada = adagp.AdaGP(network, torch.optim.SGD(network.parameters(), lr=0.01), adagp.schedule(1, (1, 1, 1)))
batches = [(torch.randn(8, 1, 8, 8), torch.randint(10, (8,))) for _ in range(4)]
seen = []
for epoch in range(2):
    for x, y in ada.epoch(batches):
        before = network[0].weight.detach().clone()
        ada.step(lambda: nn.functional.cross_entropy(network(x), y))
        seen.append(ada.phase)
        assert not torch.equal(before, network[0].weight)
assert {phase.name for phase in seen} == {"WARMUP", "BP", "GP"}, seen
"""
"""Trains a small network through warm-up, BP and GP batches."""


def main() -> None:
    (wheel,) = Path(sys.argv[1]).resolve().glob("*.whl")
    python = sys.argv[2] if len(sys.argv) > 2 else sys.executable
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="adagp-") as name:
        place = Installed(Path(name))
        place.run(python, "-m", "venv", place.environment)
        place.run("python", "-m", "pip", "install", "--quiet", wheel, "--constraint", ROOT / "constraints.txt")
        use(place)
    print(f"{wheel.name} installed and used in {time.monotonic() - began:.0f} s")


class Installed:
    """An environment, a cache and a folder to work in, all empty at first."""

    def __init__(self, folder: Path) -> None:
        self.environment, self.work = folder / "environment", folder / "work"
        self.work.mkdir()
        path = f"{self.environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        self.variables = {**kept, "PATH": path, "ADAGP_CACHE": str(folder / "cache")}

    def run(self, *command, code: int = 0) -> str:
        """Run a command of the environment, which must end with ``code``; returns its output."""
        shown, began = " ".join(map(str, command))[:100].partition("\n")[0], time.monotonic()
        program = self.environment / "bin" / command[0]
        line = [str(program if program.exists() else command[0]), *map(str, command[1:])]
        ended = subprocess.run(
            line, cwd=self.work, env=self.variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        print(f"{time.monotonic() - began:6.1f} s  {shown}", flush=True)
        assert ended.returncode == code, f"{shown} ended with {ended.returncode}, not {code}:\n{ended.stdout}"
        return ended.stdout


def use(place: Installed) -> None:
    """Do with the installed package what its README offers."""
    where = place.run("python", "-c", "import adagp; print(adagp.__file__)")
    assert where.startswith(str(place.environment)), where
    version = place.run("adagp", "--version")
    assert version.count("\n") == 1 and "commit" not in version, version
    assert "Train a network" in place.run("adagp", "--help")
    assert place.run("python", "-m", "adagp", "info", "--preset", "paper").count("12 x 15") == 1
    files = place.run("adagp", "generate", "--preset", "tiny", "-o", "made").split()[-3:]
    assert "\nmodule adagp(" in (place.work / files[0]).read_text()
    hashes = set()
    for device in ("golden", "sim"):
        place.run("adagp", "train", "--device", device, *SMALL, "-o", device, "--json", f"{device}.json")
        hashes.add(json.loads((place.work / f"{device}.json").read_text())["weights_hash"])
    assert len(hashes) == 1, f"golden and sim have other weights: {hashes}"
    place.run("adagp", "report", "sim")
    (place.work / "library.py").write_text(LIBRARY)
    place.run("python", "library.py")
    refused = place.run("python", "-m", "adagp.evaluation.report.figures", code=1)
    assert "isn't a checkout" in refused, refused


if __name__ == "__main__":
    main()
