"""What the bench of the PEs' formats computes: the harness' own cells, differences per PE, figures, the plot."""

import json

import pytest
from adagp.gen import figures as documents
from adagp.host import bench_pe_formats
from adagp.host.bench_pe_formats import TARGETS, figures, per_pe
from adagp.host.plots import plot_pe_formats
from adagp.rtl.pe_bfloat16 import PEBfloat16
from adagp.synth.pe_mesh import PEMesh, harness_resources
from adagp.synth.pe_tools import PinHarness, ToolError, Vendor, cells, fmax_mhz, place, synthesise, to_rtlil
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Wire(wiring.Component):
    """A PE that has nothing in it but a register for a psum, and one for the parity of everything else."""

    def __init__(self, width):
        super().__init__({
            "stationary": In(4), "load": In(1), "swap": In(1), "stream": In(4),
            "i_psum": In(width), "o_psum": Out(width),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        psum, others = Signal.like(self.i_psum), Signal()
        m.d.sync += [
            others.eq(self.stationary.xor() ^ self.stream.xor() ^ self.load ^ self.swap),
            psum.eq(self.i_psum ^ others.replicate(len(psum))),
        ]
        m.d.comb += self.o_psum.eq(psum)
        return m


@pytest.mark.parametrize("target", ["ecp5", "xilinx"])
@pytest.mark.parametrize("width", [5, 16])
def test_the_harness_is_what_it_is_said_to_be(target, width, tmp_path):
    """All registers of a mesh are its psums' and the harness'; what its PEs have none of costs nothing."""
    chosen, meshes = TARGETS[target], []
    for rows in (3, 1):
        mesh = PEMesh(lambda: Wire(width), rows, 2)
        text = to_rtlil(PinHarness(mesh), Vendor(chosen.family))
        meshes.append((mesh, cells(synthesise("wires", text, chosen.passes, tmp_path))))
        registers = chosen.resources(meshes[-1][1])["ff"]
        assert registers == harness_resources(mesh)["ff"] + rows * 2 * (width + 1)
    found = per_pe(chosen, meshes)
    assert found["ff"] == width + 1 and found["dsp"] == found["carry"] == 0
    assert width + 3 <= found["lut"] <= width + 16  # an exclusive or for each bit; ten inputs take three LUT4 or more


def test_harness_by_hand():
    mesh = PEMesh(lambda: Wire(5), 1, 1)
    # 4 + 1 + 1 + 4 + 5 inputs; 5 outputs, then 2 parities (one of four, one of a bit alone), then 1 of these.
    assert harness_resources(mesh) == {"lut": 2, "ff": 2 * 15 + 5 + 2 + 1}
    mesh.elaborate(None)
    for pe in mesh.pes[0]:
        pe.elaborate(None)


def test_cells_are_counted_by_weight():
    ecp5 = TARGETS["ecp5"].resources({"LUT4": 5, "CCU2C": 3, "TRELLIS_FF": 2, "MULT18X18D": 1, "PFUMX": 9})
    assert ecp5 == {"lut": 11, "ff": 2, "dsp": 1, "carry": 3}
    xilinx = TARGETS["xilinx"].resources({"LUT2": 1, "LUT6": 2, "SRL16E": 3, "FDRE": 4, "DSP48E1": 5, "MUXF7": 6})
    assert xilinx == {"lut": 6, "ff": 4, "dsp": 5, "carry": 0, "shift": 3}


def row(target, form, lut, speeds=None):
    found = {"target": target, "format": form, "lut": lut, "ff": 2.0, "dsp": 1.0}
    return found | ({"fmax_mhz": speeds} if speeds else {})


ROWS = [row("ecp5", "int16", 40.0, {1: 100.0, 2: 120.0, 3: 101.0}), row("ecp5", "bf16", 401.126, {1: 90.0}),
        row("xilinx", "int16", 0.25)]  # fmt: skip


def test_figures():
    found = figures(ROWS)
    assert found["lut_ecp5_bf16"] == 401.13 and found["lut_xilinx_int16"] == 0.25
    assert found["fmax_median_mhz_ecp5_int16"] == 101.0 and found["fmax_least_mhz_ecp5_int16"] == 100.0
    assert not any("mhz_xilinx" in name for name in found)  # no open tool says it
    assert found["latency_int16"] == 3 and found["psum_latency_bf16"] == 7


def test_formats_are_columns_of_the_figures(tmp_path):
    _, formats, _, others = documents._rows(figures(ROWS))
    assert formats["lut_ecp5"] == {"int16": 40.0, "bf16": 401.13} and not others
    plot_pe_formats({"details": {"rows": ROWS}, "figures": figures(ROWS)}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_a_multiplier_is_placed_and_kept(tmp_path, monkeypatch):
    """One whole measurement, of the smallest mesh there is; the second time nothing runs."""
    monkeypatch.setattr(bench_pe_formats, "WORK", tmp_path)
    monkeypatch.setattr(bench_pe_formats, "MESHES", ((2, 1), (1, 1)))
    steps: list[str] = []

    def measure():
        return bench_pe_formats.placed(*bench_pe_formats.synthesised("ecp5", "int8", steps.append), (1,), steps.append)

    found = measure()
    assert found["dsp"] == 1 and 0 < found["lut"] < 60 and 0 < found["ff"] < 120
    assert 50 < found["fmax_mhz"][1] < 500 and len(steps) == 3
    monkeypatch.setattr("adagp.synth.pe_tools._run", None)
    assert measure() == found


def test_what_a_tool_says_is_told(tmp_path):
    text = to_rtlil(PinHarness(PEMesh(PEBfloat16, 1, 1)), Vendor("ecp5"))
    with pytest.raises(ToolError, match=r"yosys.log: ERROR: No such command: synth_nothing"):
        synthesise("x", text, "synth_nothing", tmp_path)
    (tmp_path / "netlist.json").write_text(json.dumps({"modules": {}}))
    with pytest.raises(ToolError, match=r"nextpnr-1.log: .*"):
        place(tmp_path, ("--25k",), 100, 1)
    (tmp_path / "report.json").write_text(json.dumps({"fmax": {"a": {"achieved": 123.456}, "b": {"achieved": 200}}}))
    assert fmax_mhz(tmp_path / "report.json") == 123.46
