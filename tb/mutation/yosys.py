"""Native Yosys, as a library from PyPI, in a process of its own."""

import subprocess
import sys
import tempfile
from pathlib import Path

from adagp.rtl.lib.clock_gate import CELL

__all__ = ["GATE", "YosysError", "run"]

GATE = f"(* blackbox *) module {CELL}(input clk, input open, output o); endmodule"
"""The cell of clock gates, whatever is inside."""

_MAIN = "import sys; from pyosys import libyosys as ys; ys.run_pass(f'script {sys.argv[1]}', ys.Design())"


class YosysError(RuntimeError):
    """Yosys refused a script; the message is the end of its log."""


def run(script: str, timeout: float | None = None) -> str:
    """Run the lines of ``script``; returns the log. Raises YosysError, or TimeoutExpired after ``timeout`` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.ys"
        path.write_text(script)
        command = [sys.executable, "-u", "-c", _MAIN, str(path)]  # unbuffered: an error ends the process at once
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if result.returncode:
        raise YosysError((result.stdout + result.stderr)[-2000:])
    return result.stdout
