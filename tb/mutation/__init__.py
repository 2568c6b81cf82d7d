"""Mutation testing: Yosys breaks the netlist in one place at a time, and every break must be noticed.

``python -m tb.mutation`` runs the campaign; see ``__main__.py``.
"""
