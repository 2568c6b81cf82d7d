"""Netlists of a few cells, and Liberty text with round numbers.

With 1 V, a cycle's energy is that of its toggles in pJ.
"""

import json

__all__ = ["FLIP_FLOP", "HEAD", "cell", "gate", "netlist"]


def table(kind, template, *rows):
    return f"{kind} ({template}) {{ values ({', '.join(chr(34) + row + chr(34) for row in rows)}); }}"


def gate(name, function, inputs, energy):
    """Energies in pJ: that of a rise, 3 times as much for a fall; more with load and slew."""
    pins = "".join(f"pin ({pin}) {{ direction : input; capacitance : 0.01; }}" for pin in inputs)
    tables = "".join(
        table(kind, "two", f"{least}, {2 * least}", f"{5 * least}, {10 * least}")
        for kind, least in (("rise_power", energy), ("fall_power", 3 * energy))
    )
    slews = table("rise_transition", "two", "0.2, 0.4", "0.2, 0.4") + table("fall_transition", "scalar", "0.8")
    arcs = "".join(
        f'internal_power () {{ related_pin : "{pin}"; {tables} }} timing () {{ related_pin : "{pin}"; {slews} }}'
        for pin in inputs
    )
    return f'''
  cell ({name}) {{ area : 1; cell_leakage_power : 2; {pins}
    pin (Y) {{ direction : output; function : "{function}"; {arcs} }} }}'''


HEAD = """
library (round) {
  capacitive_load_unit (1, pf); nom_voltage : 1.0; leakage_power_unit : "1nW"; default_cell_leakage_power : 7;
  power_lut_template (two) {
    variable_1 : total_output_net_capacitance; variable_2 : input_transition_time;
    index_1 ("0, 1"); index_2 ("0, 1"); }
  power_lut_template (turned) {
    variable_1 : input_transition_time; variable_2 : total_output_net_capacitance;
    index_1 ("0, 1"); index_2 ("0, 1, 2"); }
  power_lut_template (own) { variable_1 : input_transition_time; index_1 ("0, 2"); }
"""
FLIP_FLOP = f"""
  cell (FF) {{ area : 5; ff (IQ, IQN) {{ next_state : "D"; clocked_on : "C"; }}
    leakage_power () {{ when : "D"; value : 1; }} leakage_power () {{ when : "!D"; value : 4; }}
    pin (D) {{ direction : input; capacitance : 0.02;
      internal_power () {{ {table("rise_power", "own", "2, 4")} {table("fall_power", "own", "4, 8")} }} }}
    pin (C) {{ direction : input; clock : true; capacitance : 0.03;
      internal_power () {{ {table("rise_power", "own", "1, 2")} {table("fall_power", "own", "6, 9")} }} }}
    pin (Q) {{ direction : output; function : "IQ";
      internal_power () {{ related_pin : "C"; {table("power", "turned", "8, 9, 10", "18, 19, 20")} }}
      timing () {{ related_pin : "C"; {table("rise_transition", "scalar", "0.3")} }}
      timing () {{ related_pin : "C"; timing_type : setup_rising; }}
      timing () {{ related_pin : "C"; {table("fall_transition", "scalar", "1.3")} }} }} }}"""


def cell(kind, **pins):
    return {
        "type": kind, "connections": {pin: [bit] for pin, bit in pins.items()},
        "port_directions": {pin: "output" if pin in "QY" else "input" for pin in pins},
    }  # fmt: skip


def netlist(folder, names, *cells):
    """Named nets are bits by name; bit 2 is the clock."""
    nets = {f"accelerator.{name}": {"bits": bits} for name, bits in names.items()}
    numbered = {str(number): each for number, each in enumerate(cells)}
    module = {"ports": {"clk": {"bits": [2]}}, "netnames": nets, "cells": numbered}
    (folder / "netlist.json").write_text(json.dumps({"modules": {"adagp": module}}))
    return folder
