"""A small Liberty file of a few cells, for Yosys and OpenSTA."""

__all__ = ["cells"]

CELL = """
  cell ({name}) {{ area : {area};
    pin (A) {{ direction : input; capacitance : 0.01; }}
    {more}
    pin (Y) {{ direction : output; function : "{function}"; timing () {{ related_pin : "A{also}"; {delay} }} }} }}
"""
FLIP_FLOP = """
  cell (FF) { area : 5;
    ff (IQ, IQN) { next_state : "D"; clocked_on : "C"; }
    pin (D) { direction : input; capacitance : 0.01;
      timing () { related_pin : "C"; timing_type : setup_rising; SETUP } }
    pin (C) { direction : input; clock : true; capacitance : 0.01; }
    pin (Q) { direction : output; function : "IQ";
      timing () { related_pin : "C"; timing_type : rising_edge; DELAY } } }
"""
HEAD = """
library (small) { /* cell (COMMENT) { ff (X, Y) } */
  delay_model : table_lookup; time_unit : "1ns"; voltage_unit : "1V"; current_unit : "1uA";
  pulling_resistance_unit : "1kohm"; leakage_power_unit : "1nW"; capacitive_load_unit (1, pf);
  nom_process : 1; nom_voltage : 1.8; nom_temperature : 25;
  lu_table_template (four) {
    variable_1 : total_output_net_capacitance; variable_2 : input_net_transition;
    index_1 ("0.01, 1"); index_2 ("0.01, 1"); }
"""


def delay(ns):
    names = ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
    return " ".join(f'{name} (four) {{ values ("{ns}, {ns}", "{ns}, {ns}"); }}' for name in names)


def cells(path, flip_flop=True):
    """A library of an inverter, a buffer, a NAND, and a flip-flop that takes 1 ns with 0.2 ns of setup."""
    second = "pin (B) { direction : input; capacitance : 0.01; }"
    setup = "".join(f'{edge}_constraint (four) {{ values ("0.2, 0.2", "0.2, 0.2"); }} ' for edge in ("rise", "fall"))
    cells = CELL.format(name="INV", area=1, more="", function="!A", also="", delay=delay(0.5))
    cells += CELL.format(name="BUF", area=2, more="", function="A", also="", delay=delay(0.5))
    cells += CELL.format(name="NAND", area=3, more=second, function="!(A B)", also=" B", delay=delay(0.5))
    cells += FLIP_FLOP.replace("DELAY", delay(1.0)).replace("SETUP", setup) * flip_flop
    path.write_text(HEAD + cells + "}\n")
    return path
