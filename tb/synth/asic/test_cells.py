"""Standard cells: Liberty files, the model of memories, and a scratchpad through Yosys, with a small library.

What OpenSTA gets and how its log is read is checked with a script in its place, which prints a log that was written
here; a processing element goes through the real one, with osu018.
"""

import json
import re
import shutil
from dataclasses import replace

import pytest
from adagp.spec.presets import preset
from adagp.synth.asic import cells as asic
from adagp.synth.asic import liberty, power, sta
from adagp.synth.asic.activity import Activity
from adagp.synth.asic.cells import Library, figures, map_to_cells
from adagp.synth.asic.sram import Memory
from adagp.synth.breakdown import tree
from adagp.synth.design import Design
from adagp.synth.errors import TargetError, ToolError
from made_cells import cells

TINY = preset("tiny")
PASSES = asic._PASSES


def test_liberty(tmp_path):
    library = Library(cells(tmp_path / "small.lib"))
    assert library.areas == {"INV": 1, "BUF": 2, "NAND": 3, "FF": 5} and library.flip_flops == {"FF"}
    assert library.buffer == "BUF" and library.volts == 1.8 and library.nm is None
    assert library.pins["NAND"]["B"].farads == pytest.approx(1e-14)


@pytest.mark.parametrize(("name", "nm"), [("sg13g2_stdcell_typ", 130), ("sky130_fd_sc_hd__tt", 130), ("osu0", None)])
def test_a_process_is_known_by_how_its_librarys_name_begins(tmp_path, name, nm):
    path = cells(tmp_path / "renamed.lib")
    path.write_text(path.read_text().replace("library (small)", f"library ({name})"))
    assert Library(path).nm == nm


@pytest.mark.parametrize(("change", "message"), [
    (("area : 3;", ""), "has no area of 1 of its 4 cells, as NAND"),
    (('function : "A"', 'function : "!A"'), "has no buffers: no cell's output is its only input"),
    (("nom_voltage", "voltage"), "has no nom_voltage or no capacitive_load_unit in pF or fF"),
])  # fmt: skip
def test_what_a_liberty_file_must_have(tmp_path, change, message):
    path = cells(tmp_path / "small.lib")
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(TargetError) as found:
        Library(path)
    assert str(found.value) == f"{path} {message}"


def test_a_liberty_file_without_flip_flops(tmp_path):
    path = cells(tmp_path / "gates.lib", flip_flop=False)
    with pytest.raises(TargetError) as found:
        Library(path)
    assert str(found.value) == f"{path} has no flip-flops: none of its 3 cells has an ff group"
    (tmp_path / "no.lib").write_text("hello")
    with pytest.raises(TargetError, match=r"no\.lib is no Liberty file: it has no cells$"):
        Library(tmp_path / "no.lib")


MACROS = {
    (64, 22): (39383.9, None), (64, 32): (52620.88, (20.3627, 26.4624)), (256, 8): (38147.5, (8.2850, 10.9594)),
    (256, 16): (57520.6, None), (256, 32): (96266.6, (26.0060, 33.4496)), (512, 8): (57397.3, (11.345, 14.042)),
    (512, 16): (88481.6, (19.566, 23.467)), (512, 32): (150650.1, None), (1024, 16): (155153.8, (26.4863, 32.9180)),
    (1024, 32): (264167.3, (48.2666, 58.9183)),
}  # fmt: skip
"""SG13G2's macros with two ports: square micrometres, and picojoules of a read and of a write, as far as known."""


@pytest.mark.parametrize(("words", "width"), MACROS)
def test_memories_are_as_large_as_sg13g2s_macros(words, width):
    area, energies = MACROS[words, width]
    memory = Memory(words, width, nm=130, volts=1.2)
    assert memory.area_um2 == pytest.approx(area, rel=0.04)
    if energies:
        assert memory.access_pj == pytest.approx(sum(energies) / 2, rel=0.03)


def test_memories():
    one = Memory(1024, 32, nm=130, volts=1.2)
    assert replace(one, words=4096).area_um2 == 4 * one.area_um2
    assert replace(one, words=4096).access_pj == one.access_pj  # one of four is accessed
    assert replace(one, width=64).area_um2 == 2 * one.area_um2 and replace(one, width=64).access_pj == 2 * one.access_pj
    assert replace(one, width=48).area_um2 == 2 * replace(one, width=24).area_um2
    assert replace(one, nm=260).area_um2 == 4 * one.area_um2
    assert replace(one, nm=260, volts=2.4).access_pj == pytest.approx(8 * one.access_pj)
    cell = {"SIZE": "00100", "WIDTH": "1010", "RD_PORTS": "01", "WR_PORTS": "01", "RD_CLK_ENABLE": "1"}
    assert Memory.of(cell, 90, 1.2) == Memory(4, 10, 90, 1.2)
    with pytest.raises(ToolError, match=r"^a memory of 4 words of 10 bits has 2 read and 1 write ports: "):
        Memory.of(cell | {"RD_PORTS": "10"}, 90, 1.2)
    with pytest.raises(ToolError, match=r"^a memory of 4 words of 10 bits is read without a clock"):
        Memory.of(cell | {"RD_CLK_ENABLE": "0"}, 90, 1.2)
    unknown = replace(one, nm=None)
    assert unknown.access_pj == unknown.area_um2 == 0


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADAGP_CACHE", str(tmp_path_factory.mktemp("cache")))
        # Yosys 0.70's ABC crashes where it is to insert buffers of so small a library.
        patch.setattr(asic, "_PASSES", asic._PASSES.replace(" -constr cells.constr -D {period_ps:.0f}", ""))
        patch.setitem(liberty.PROCESSES, "small", 180.0)
        yield tmp_path_factory.getbasetemp()


@pytest.fixture(scope="module")
def library(cache):
    return Library(cells(cache / "small.lib"))


def test_blocks_have_what_is_inside_them():
    owned = {"a.b": 1.0, "a.c": 2.0, "a": 4.0, "": 8.0, "d.e.f": 16.0}
    assert asic._with_those_inside(owned) == {
        "": 31.0, "a": 7.0, "a.b": 1.0, "a.c": 2.0, "d": 16.0, "d.e": 16.0, "d.e.f": 16.0,
    }  # fmt: skip


def test_power_is_drawn_in_the_blocks_of_the_cells(cache, library, monkeypatch):
    """Without toggles it is that of clock pins, one for each flip-flop; the reader's toggles are its own."""
    monkeypatch.setattr(power, "KNOWN", 0.0)
    mapped = map_to_cells(Design(TINY, "pad_a"), library)
    one = Activity({"reader.stage": [0.5, 0.5]}, BANKS, 0.0)
    found = asic.power(mapped, {"bp": Activity({}, BANKS, 0.0), "gp": one})
    drawn, more = found["bp"]["blocks"], found["gp"]["blocks"]
    flip_flops = {block: row["ff"] for block, row in tree(mapped.cells, mapped.target).items()}
    assert len({number for number in flip_flops.values() if number}) > 2
    for block, number in flip_flops.items():
        assert drawn.get(block, 0.0) == pytest.approx(number * 1e-14 * 1.8**2 * TINY.clock_hz), block
    assert more["reader"] > 1.01 * drawn["reader"] and more["writer"] == pytest.approx(drawn["writer"])


def test_a_scratchpad_has_its_memories_apart(cache, library):
    mapped = map_to_cells(Design(TINY, "pad_a"), library)
    assert TINY.banks == 4
    assert mapped.memories == tuple((f"banks.bank{n}.memory", Memory(2 * TINY.a_depth, 16)) for n in range(4))
    resources = mapped.target.resources(mapped.cells.total())
    assert resources["memory_bits"] == 2 * TINY.a_elements * 16 and resources["memory_area"] > 1e6
    assert 200 < resources["ff"] < 400 and resources["cell_area"] > 5 * resources["ff"]
    assert not mapped.target.uncounted(mapped.cells.total())


def test_microcode_is_made_of_gates(cache, library):
    """It is deeper than what is made of flip-flops, but nothing writes it."""
    mapped = map_to_cells(Design(TINY, "sequencer"), library)
    assert [path for path, _ in mapped.memories] == ["core.registers_a.memory", "core.registers_b.memory"]
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
"""
BANKS = {f"banks.bank{n}.memory": 0.0 for n in range(4)}


def test_what_sta_is_given_and_says_and_what_memories_take(cache, library, monkeypatch, tmp_path):
    fake(monkeypatch, tmp_path, LOG)
    monkeypatch.setattr(power, "KNOWN", 0.0)
    design = Design(TINY, "pad_a")
    rates = {"reader.stage": [0.25, 0.5], "writer.mask": [0.125] * 4}
    found = figures(design, library, {"bp": Activity(rates, BANKS | {"banks.bank1.memory": 0.5, "other": 9}, 0.03125)})
    assert found["fmax_best_mhz"] == 200 and found["area"] == sum(
        found["resources"][name] for name in ("cell_area", "memory_area")
    )  # 15 ns left of 20
    assert sum(step["logic_ns"] for step in found["critical_paths"]["0"]) == 3.5
    script, netlist = (tmp_path / "run.tcl").read_text(), (tmp_path / "netlist.v").read_text()
    assert "create_clock -name clk -period 20 " in script
    watts, ff = found["power_bp_w"], found["resources"]["ff"]
    assert len(re.findall(r"^FF c\d+ ", netlist, re.MULTILINE)) == ff
    assert watts["clock"] == pytest.approx(ff * 1e-14 * 1.8**2 * TINY.clock_hz)  # the pins: up once, down once
    memories = Memory(2 * TINY.a_depth, 16).access_pj * 1e-12 * TINY.clock_hz * 0.5
    assert watts["data"] > 0 and watts["leakage"] == 0 and watts["memories"] == pytest.approx(memories)
    assert watts["total"] == pytest.approx(sum(watts[part] for part in ("clock", "data", "leakage", "memories")))
    known = 4 + 4 * 2  # the mask, and four registers with a rotation
    assert watts["activity_known"] == pytest.approx(known / ff) and watts["activity_estimated"] == 0
    blocks = watts["blocks"]
    assert blocks[""] == pytest.approx(watts["total"]) and blocks["reader"] > 0
    assert blocks["banks.bank1"] >= memories > blocks["banks.bank2"]
    assert blocks["banks"] == pytest.approx(sum(blocks[f"banks.bank{n}"] for n in range(4)), rel=0.2)


def test_activities_are_found_by_any_name_that_is_alike():
    activity = Activity({"a$7.x[3]": [0.1], "a$9.x[3]": [0.3], "b": [1.0, 0.0]}, {"m$1.memory": 2.5}, 0.5, {"q": [0.2]})
    assert activity.rate("b", 1, 2) == 0 and activity.rate("b", 0, 1) is None
    assert activity.rate("a$8.x:3", 0, 1) == pytest.approx(0.2) and activity.rate("q[4]", 0, 1) is None
    assert activity.word_rate("q[4]", 0, 1) == 0.2
    with pytest.raises(ToolError, match=r"^the simulation counts no accesses of the memory other$"):
        activity.accesses_of("other")
    with pytest.raises(ToolError, match=r"^2.50 accesses a cycle are more than the memory m\$2.memory has ports$"):
        activity.accesses_of("m$2.memory")


def test_sta_finds_nothing_or_is_missing(cache, library, monkeypatch, tmp_path):
    mapped = map_to_cells(Design(TINY, "pad_a"), library)
    fake(monkeypatch, tmp_path, "nothing here")
    with pytest.raises(ToolError, match=r"^OpenSTA found no path in tiny-baseline-pad_a: nothing here$"):
        sta.analyse(mapped.folder, library, mapped.design)
    with pytest.raises(ToolError, match=r"^the activity of only 0.0% of tiny-baseline-pad_a's flip-flops is known$"):
        asic.power(mapped, {"bp": Activity({}, BANKS, 0.1)})
    fake(monkeypatch, tmp_path, f"{LOG}Error: run.tcl, 7 no such pin\n")
    with pytest.raises(ToolError, match=r"^OpenSTA, on tiny-baseline-pad_a: Error: run.tcl, 7 no such pin$"):
        sta.analyse(mapped.folder, library, mapped.design)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ToolError, match=r"^timing of cells needs OpenSTA, and sta was not found"):
        sta.analyse(mapped.folder, library, mapped.design)


real = pytest.mark.skipif(
    shutil.which("sta") is None or not asic.LIBERTY.exists(), reason="needs OpenSTA and osu018 (qflow-tech-osu018)"
)


@real
def test_a_pe_through_the_real_opensta(cache):
    osu018 = Library(asic.LIBERTY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asic, "_PASSES", PASSES)
        mapped = map_to_cells(Design(TINY, "pe"), osu018)
    net = json.loads((mapped.folder / "netlist.json").read_text())["modules"]["adagp"]["netnames"]
    names = {name.removeprefix("accelerator."): len(value["bits"]) for name, value in net.items()}
    same = {
        phase: Activity({name: [rate] * n for name, n in names.items()}, {}, rate)
        for phase, rate in (("quiet", 0.0), ("busy", 0.2))
    }
    found = asic.power(mapped, same)
    busy, quiet = found["busy"], found["quiet"]
    assert busy["activity_known"] > 0.95 and busy["activity_estimated"] == 0
    assert busy["clock"] == quiet["clock"] > 0 and busy["data"] > quiet["data"] == 0
    assert sta.analyse(mapped.folder, osu018, mapped.design).fmax_mhz > 50
