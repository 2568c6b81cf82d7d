"""Mutation testing: Yosys breaks the netlist in one place at a time, and every break must be noticed.

``python -m mutation`` (with ``tb`` and ``tb/cocotb`` on the path) runs the campaign; see ``__main__.py``.
"""
