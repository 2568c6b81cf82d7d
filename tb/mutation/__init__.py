"""Mutation testing: Yosys breaks the netlist in one place at a time, and every break must be noticed.

``python -m tb.mutation`` runs the campaign; see ``__main__.py``.
"""

import sys
from pathlib import Path

TB = Path(__file__).parents[1]
sys.path[:0] = [str(TB / "support"), str(TB / "cocotb"), str(TB)]  # where benches find each other under pytest
