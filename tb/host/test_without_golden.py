"""Training on simulated or real hardware imports nothing of the golden model, against which both are compared."""

import subprocess
import sys

BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name == "adagp.golden" or name.startswith("adagp.golden."):
            raise ImportError(f"{name} is out of bounds")

sys.meta_path.insert(0, Blocker())
"""


def test_training_imports_no_golden_model():
    modules = "host.training.trainer", "host.devices.simulated", "host.islands.runtime", "host.compiler.costs", "boards"
    lines = "".join(f"import adagp.{module}\n" for module in modules)
    done = subprocess.run([sys.executable, "-c", BLOCKED + lines], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    refused = subprocess.run([sys.executable, "-c", BLOCKED + "import adagp.golden.layer\n"], capture_output=True)
    assert refused.returncode != 0
