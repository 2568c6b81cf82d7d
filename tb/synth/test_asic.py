"""Standard cells: Liberty files, the model of memories, a PE and a scratchpad through Yosys and OpenSTA."""

import re
import shutil
from dataclasses import replace

import pytest
from adagp.spec.presets import preset
from adagp.synth import asic, sta
from adagp.synth.asic import Activity, Library, figures, map_to_cells, power
from adagp.synth.design import Design
from adagp.synth.errors import TargetError, ToolError
from adagp.synth.memories import Memory

TINY = preset("tiny")

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


def liberty(path, flip_flop=True):
    """A library of an inverter, a buffer, a NAND, and a flip-flop that takes 1 ns with 0.2 ns of setup."""
    second = "pin (B) { direction : input; capacitance : 0.01; }"
    setup = "".join(f'{edge}_constraint (four) {{ values ("0.2, 0.2", "0.2, 0.2"); }} ' for edge in ("rise", "fall"))
    cells = CELL.format(name="INV", area=1, more="", function="!A", also="", delay=delay(0.5))
    cells += CELL.format(name="BUF", area=2, more="", function="A", also="", delay=delay(0.5))
    cells += CELL.format(name="NAND", area=3, more=second, function="!(A B)", also=" B", delay=delay(0.5))
    cells += FLIP_FLOP.replace("DELAY", delay(1.0)).replace("SETUP", setup) * flip_flop
    path.write_text(HEAD + cells + "}\n")
    return path


def test_liberty(tmp_path):
    library = Library(liberty(tmp_path / "small.lib"))
    assert library.areas == {"INV": 1, "BUF": 2, "NAND": 3, "FF": 5} and library.flip_flops == {"FF"}
    assert library.buffer == "BUF"


def test_a_liberty_file_without_flip_flops(tmp_path):
    path = liberty(tmp_path / "gates.lib", flip_flop=False)
    with pytest.raises(TargetError) as found:
        Library(path)
    assert str(found.value) == f"{path} has no flip-flops: none of its 3 cells has an ff group"
    (tmp_path / "no.lib").write_text("hello")
    with pytest.raises(TargetError, match=r"no\.lib is no Liberty file: it has no cells$"):
        Library(tmp_path / "no.lib")


def test_memories():
    reference = Memory(8192, 8, nm=45, volts=0.9)
    assert reference.access_pj == pytest.approx(10 / 8)  # 10 pJ for 64 bits of 8 KiB
    assert replace(reference, words=4 * 8192).access_pj == pytest.approx(20 / 8)
    assert Memory(8192, 8).access_pj == pytest.approx(16 * 10 / 8)  # 4 times the size, twice the voltage
    assert Memory(1024, 16).area_um2 == pytest.approx(1024 * 16 * 146 * 0.18**2 * 4)
    assert Memory.of({"SIZE": "00100", "WIDTH": "1010"}) == Memory(4, 10)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADAGP_CACHE", str(tmp_path_factory.mktemp("cache")))
        # Yosys 0.70's ABC crashes where it is to insert buffers of so small a library.
        patch.setattr(asic, "_PASSES", asic._PASSES.replace(" -constr cells.constr -D {period_ps:.0f}", ""))
        yield tmp_path_factory.getbasetemp()


@pytest.fixture(scope="module")
def library(cache):
    return Library(liberty(cache / "small.lib"))


def test_a_scratchpad_has_its_memories_apart(cache, library):
    mapped = map_to_cells(Design(TINY, "pad_a"), library)
    assert TINY.banks == 4
    assert mapped.memories == tuple((f"banks.bank{n}", Memory(2 * TINY.a_depth, 16)) for n in range(4))
    resources = mapped.target.resources(mapped.cells.total())
    assert resources["memory_bits"] == 2 * TINY.a_elements * 16 and resources["memory_area"] > 1e6
    assert 200 < resources["ff"] < 400 and resources["cell_area"] > 5 * resources["ff"]
    assert not mapped.target.uncounted(mapped.cells.total())


def fake(monkeypatch, tmp_path, text):
    """An ``sta`` that only prints."""
    tool = tmp_path / "sta"
    tool.write_text(f"#!/bin/sh\ncp netlist.v run.tcl {tmp_path}\ncat <<'end'\n{text}\nend\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


LOG = """
   1.0000    1.0000 ^ c0/Q (FF)
   2.5000    3.5000 v c1/Y (NAND)
             15.0000   slack (MET)
power 1.0e-03 2.0e-04 3.0e-09 of 5000 cells, 5 unknown
"""


def test_what_sta_is_given_and_says(cache, library, monkeypatch, tmp_path):
    fake(monkeypatch, tmp_path, LOG)
    design = Design(TINY, "pad_a")
    rates = {"reader.s1_rot": [0.25, 0.5], "writer.mask": [0.125] * 4}
    found = figures(design, library, {"bp": Activity(rates, {"banks.bank1": 0.5, "other": 9}, 0.03125)})
    assert found["fmax_best_mhz"] == 200 and found["area"] == sum(
        found["resources"][name] for name in ("cell_area", "memory_area")
    )  # 15 ns left of 20
    assert sum(step["logic_ns"] for step in found["critical_paths"]["0"]) == 3.5
    memories = Memory(2 * TINY.a_depth, 16).access_pj * 1e-12 * TINY.clock_hz * 0.5
    assert found["power_bp_w"] == pytest.approx(
        {"internal": 1e-3, "switching": 2e-4, "leakage": 3e-9, "memories": memories, "total": 1.200003e-3 + memories}
    )
    script, netlist = (tmp_path / "run.tcl").read_text(), (tmp_path / "netlist.v").read_text()
    assert "create_clock -name clk -period 20 " in script
    given = re.findall(r"^activity c\d+/Q (\S+)$", script, re.MULTILINE)
    assert len(given) == found["resources"]["ff"] == netlist.count("FF c")
    assert given.count("0.25") == given.count("0.5") == 1 and given.count("0.125") == 4
    assert given.count("0.03125") > 100 and "-input -activity 0.03125 " in script


def test_sta_finds_nothing_or_is_missing(cache, library, monkeypatch, tmp_path):
    mapped = map_to_cells(Design(TINY, "pad_a"), library)
    fake(monkeypatch, tmp_path, "nothing here")
    with pytest.raises(ToolError, match=r"^OpenSTA found no path in tiny-baseline-pad_a: nothing here$"):
        power(mapped, Activity({}, {}, 0.1))
    for log, message in (
        (LOG.replace(" 5 unknown", " 6 unknown"), "OpenSTA knows no power of 6 of 5000 cells of tiny-baseline-pad_a"),
        (f"{LOG}Error: run.tcl, 7 no such pin\n", "OpenSTA, on tiny-baseline-pad_a: Error: run.tcl, 7 no such pin"),
    ):
        fake(monkeypatch, tmp_path, log)
        with pytest.raises(ToolError, match=f"^{message}$"):
            power(mapped, Activity({}, {}, 0.1))
    fake(monkeypatch, tmp_path, LOG.partition("power")[0])
    with pytest.raises(ToolError, match=r"^OpenSTA reported no power of tiny-baseline-pad_a: "):
        power(mapped, Activity({}, {}, 0.1))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ToolError, match=r"^timing and power of cells need OpenSTA, and sta was not found"):
        sta.analyse(mapped.folder, library, mapped.design, None)
