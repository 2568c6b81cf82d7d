"""Computations of the bench of PE formats: differences per PE, figures, the plot."""

import pytest
from adagp.evaluation.benches import pe_formats
from adagp.evaluation.benches.pe_formats import FORMATS, figures, synthesised
from adagp.evaluation.report import figures as documents
from adagp.evaluation.report.plots import plot_pe_formats
from adagp.gen import cache
from adagp.synth.errors import RouteError
from adagp.synth.nextpnr import Run
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
def test_a_pe_costs_what_is_in_it(target, width, monkeypatch):
    """And nothing of what is around it."""
    monkeypatch.setitem(FORMATS, "wire", (Wire, width))
    found, _ = synthesised(target, "wire", lambda _: None)
    assert found["ff"] == width + 1 and found["dsp"] == 0
    assert width + 2 <= found["lut"] <= width + 16  # an exclusive or for each bit; ten inputs take two LUT6 or more


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


def test_a_seed_without_a_route_is_told_and_ends_no_other(monkeypatch, tmp_path):
    def place(run):
        if run.seed != 2:
            raise RouteError(f"no wires for {run.seed}")
        return tmp_path

    monkeypatch.setattr(Run, "place", place)
    monkeypatch.setattr(pe_formats, "fmax_mhz", lambda _: 70.0)
    found = pe_formats.placed(row("ecp5", "int8", 1.0), tmp_path, (1, 2), lambda _: None)
    assert found["fmax_mhz"] == {2: 70.0} and found["unrouted"] == {1: "no wires for 1"}
    none = pe_formats.placed(row("ecp5", "int8", 1.0), tmp_path, (1,), lambda _: None)
    assert not any("mhz" in name for name in figures([none]))


def test_a_multiplier_is_placed_and_kept(tmp_path, monkeypatch):
    """One whole measurement, of the smallest mesh there is; the second time nothing runs."""
    monkeypatch.setenv("ADAGP_CACHE", str(tmp_path))
    monkeypatch.setattr(pe_formats, "MESHES", ((2, 1), (1, 1)))
    steps: list[str] = []

    def measure():
        return pe_formats.placed(*pe_formats.synthesised("ecp5", "int8", steps.append), (1,), steps.append)

    assert cache.cache_directory().is_relative_to(tmp_path)
    found = measure()
    assert found["dsp"] == 1 and 0 < found["lut"] < 60 and 0 < found["ff"] < 120
    assert 50 < found["fmax_mhz"][1] < 500 and len(steps) == 3
    monkeypatch.setattr("adagp.synth.process.run", None)
    assert measure() == found
