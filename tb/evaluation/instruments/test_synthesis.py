"""Benches of synthesised hardware: what a result file has already is kept as long as it is true."""

import json
from importlib import import_module

import made_cells
import pytest
from adagp.evaluation.instruments import synthesis
from adagp.evaluation.instruments.results import FOLDER
from adagp.evaluation.instruments.synthesis import bench, mistakes_in_a_line, parser
from adagp.gen import provenance
from adagp.synth.errors import FitError, ToolError

COMMAND = "python -m adagp.host.bench_x"
NAMES = {"lut": lambda design: design["resources"]["lut"], "fmax_best_mhz": lambda design: design.get("fmax_best_mhz")}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a bench with options; returns the result file, and what each call of the flow was for and was told."""
    calls = []

    def flow(target, designs, options, _report, earlier):
        variants = [design.config.variant for design in designs]
        calls.append((target, variants, list(options.seeds), sorted(design["variant"] for design in earlier.values())))
        call.part = options.part
        return [
            {"design": design.name, "variant": variant, "resources": {"lut": len(calls)}, "folder": "x", "placed": {}}
            | synthesis.flow.chosen(target)
            | {"unrouted": {"1": "no wires"}, "fmax_mhz": {"2": 60.0 + len(calls)}, "fmax_best_mhz": 60.0 + len(calls)}
            for design, variant in zip(designs, variants, strict=True)
        ]

    monkeypatch.setattr(synthesis.flow, "run", flow)
    monkeypatch.setattr(synthesis.flow, "tools", lambda *_: {"yosys": "1"})

    def call(*options, seeds="1-2"):
        calls.clear()
        line = parser(COMMAND, None, "x.json", seeds).parse_args(["--output", str(tmp_path / "x.json"), *options])
        bench(COMMAND, line, "ecp5", "tiny", NAMES)
        return json.loads((tmp_path / "x.json").read_text()), list(calls)

    return call


def test_one_design_after_the_other_joins_what_is_known(run):
    found, calls = run("--variants", "low,baseline")
    assert calls == [("ecp5", ["low"], [1, 2], []), ("ecp5", ["baseline"], [1, 2], ["low"])]
    assert [design["variant"] for design in found["details"]["designs"]] == ["baseline", "low"]
    assert found["figures"] == {
        "lut_baseline": 2, "lut_low": 1, "fmax_best_mhz_baseline": 62.0, "fmax_best_mhz_low": 61.0,
    }  # fmt: skip
    assert "folder" not in found["details"]["designs"][0] and found["provenance"]["seed"] == [1, 2]
    found, calls = run("--variants", "max", "--seeds", "1-3")
    assert calls == [("ecp5", ["max"], [1, 2, 3], ["baseline", "low"])]
    assert found["figures"]["lut_max"] == 1 and found["figures"]["lut_low"] == 1 and len(found["figures"]) == 6


def test_without_seeds_all_designs_are_one_run(run):
    found, calls = run("--variants", "low,max", seeds="")
    assert calls == [("ecp5", ["low", "max"], [], [])] and found["figures"]["fmax_best_mhz_max"] == 61.0


def test_presets_and_parts_of_ecp5_have_results_of_their_own(run, tmp_path, monkeypatch, capsys):
    """Areas alone don't replace clocks."""
    from adagp.evaluation.benches import ecp5

    monkeypatch.chdir(tmp_path)
    asked = []

    def areas(command, arguments, target, preset, names, part):
        asked.append((command, str(arguments.output), arguments.seeds, preset, part))

    monkeypatch.setattr(ecp5, "bench", areas)
    for options in (
        [], ["--preset=xc7a100t", "--without-route"], ["--part=um5g-85k", "--seeds=3"], ["--preset=ecp5_8x8"],
    ):  # fmt: skip
        monkeypatch.setattr("sys.argv", ["bench", *options])
        ecp5.main()
    assert asked == [
        (ecp5.COMMAND, "results/ecp5.json", [1, 2, 3, 4, 5], "ecp5", "85k"),
        (f"{ecp5.COMMAND} --preset xc7a100t --without-route", "results/ecp5_xc7a100t.json", [], "xc7a100t", "85k"),
        (f"{ecp5.COMMAND} --part um5g-85k", "results/ecp5_um5g.json", [3], "ecp5", "um5g-85k"),
        (f"{ecp5.COMMAND} --preset ecp5_8x8", "results/ecp5_8x8.json", [1, 2, 3, 4, 5], "ecp5_8x8", "85k"),
    ]
    run("--variants", "low")
    monkeypatch.setattr("sys.argv", ["bench", "--without-route", "--output=x.json"])
    with pytest.raises(SystemExit) as ended:
        ecp5.main()
    assert ended.value.code == 2 and "x.json has clocks, which --without-route would lose" in capsys.readouterr().err
    assert len(asked) == 4


def test_a_part_has_a_flow_of_its_own(run, tmp_path):
    line = parser(COMMAND, None, "x.json").parse_args(["--output", str(tmp_path / "y.json"), "--variants=low"])
    bench(COMMAND, line, "ecp5", "tiny", NAMES, part="um5g-85k")
    found = json.loads((tmp_path / "y.json").read_text())["provenance"]
    assert (found["part"], found["speed"]) == ("LFE5UM5G-85F", "8") and run.part == "um5g-85k"
    assert found["flow"] != synthesis.flow.chosen("ecp5")["flow"]


def test_what_goes_wrong_is_said_in_a_line(run, capsys):
    for error, code, said in (
        (ToolError("no Yosys"), 1, "failed: no Yosys\n"),
        (FitError("too large"), 2, "error: too large\n"),
    ):
        with pytest.raises(SystemExit) as ended, mistakes_in_a_line():
            raise error
        assert ended.value.code == code and capsys.readouterr().err == said
    with pytest.raises(SystemExit) as ended, mistakes_in_a_line():
        run("--variants", "maximal")
    assert ended.value.code == 2 and capsys.readouterr().err.startswith("error: ")


def test_cells_of_other_sources_go(monkeypatch, tmp_path):
    from adagp.evaluation.benches import asic

    library, output = made_cells.cells(tmp_path / "small.lib"), tmp_path / "x.json"

    def cells(designs, *_):
        return [
            {"design": design.name, "variant": design.config.variant, "area": 1, "fmax_best_mhz": 2, "folder": "x"}
            for design in designs
        ]

    def run(variant):
        monkeypatch.setattr(
            "sys.argv", ["bench", f"--variants={variant}", f"--liberty={library}", f"--output={output}"]
        )
        asic.main()
        return [design["variant"] for design in json.loads(output.read_text())["details"]["designs"]]

    monkeypatch.setattr(asic, "cells", cells)
    monkeypatch.setattr(asic, "_tools", lambda library: {library.name: "1"})
    assert run("max") == ["max"] and run("low") == ["low", "max"]
    monkeypatch.setitem(asic.CODE, "asic/power", "summed otherwise")
    assert run("baseline") == ["baseline"]


@pytest.mark.parametrize(("options", "said"), [
    (["--liberty=none.lib"], "none.lib: No such file or directory"),
    (["--liberty=small.lib", "--liberty=text.lib"], "text.lib is no Liberty file: it has no cells"),
    (["--liberty=gates.lib"], "gates.lib has no flip-flops: none of its 3 cells has an ff group"),
    (["--liberty=small.lib", "--liberty=small.lib"],
     "two of the libraries have the same results file: give each a run with an --output of its own"),
    (["--liberty=small.lib", "--liberty=more.lib", "--output=x.json"],
     "--output is for one library: several have a file each"),
])  # fmt: skip
def test_a_bad_library_is_said_before_the_work(options, said, monkeypatch, tmp_path, capsys):
    from adagp.evaluation.benches import asic

    monkeypatch.chdir(tmp_path)
    made_cells.cells(tmp_path / "small.lib")
    made_cells.cells(tmp_path / "gates.lib", flip_flop=False)
    (tmp_path / "text.lib").write_text("no cells\n")
    monkeypatch.setattr(asic, "_bench", None)
    monkeypatch.setattr("sys.argv", ["bench", *options])
    with pytest.raises(SystemExit) as ended:
        asic.main()
    assert ended.value.code == 2 and capsys.readouterr().err == f"error: {said}\n"


def test_each_library_has_results_of_its_own(monkeypatch, tmp_path):
    from adagp.evaluation.benches import asic

    libraries = [made_cells.cells(tmp_path / name) for name in ("sg13g2_stdcell_typ.lib", "osu018.lib", "other.lib")]
    made = []
    monkeypatch.setattr(asic, "_bench", lambda _arguments, library, output: made.append((library, output)))
    monkeypatch.setattr("sys.argv", ["bench", *(f"--liberty={library}" for library in libraries)])
    asic.main()
    names = ("asic_sg13g2", "asic", "asic_other")
    assert made == [(library, FOLDER / f"{name}.json") for library, name in zip(libraries, names, strict=True)]


def test_power_of_an_earlier_run_stays(monkeypatch, tmp_path):
    from adagp.evaluation.benches import asic

    library, output = made_cells.cells(tmp_path / "small.lib"), tmp_path / "x.json"

    def cells(designs, given, power, *_):
        assert given == library
        found = {"variant": "low", "area": 1, "fmax_best_mhz": 2, "folder": "x"}
        return [{"design": designs[0].name, **found} | ({"power_bp_w": {"total": 0.5}} if power else {})]

    monkeypatch.setattr(asic, "cells", cells)
    monkeypatch.setattr(asic, "_tools", lambda library: {library.name: "1"})
    for more in ([], ["--without-power"]):
        options = ["--variants=low", f"--liberty={library}", f"--output={output}", *more]
        monkeypatch.setattr("sys.argv", ["bench", *options])
        asic.main()
        assert json.loads(output.read_text())["figures"]["power_bp_w_low"] == 0.5


def test_a_failed_seed_is_said_when_all_is_written(run, monkeypatch, tmp_path):
    honest = synthesis.flow.run
    broken = {"failed": {"2": "nextpnr was killed"}}
    monkeypatch.setattr(synthesis.flow, "run", lambda *given: [found | broken for found in honest(*given)])
    with pytest.raises(ToolError, match=r"^nextpnr was killed$"):
        run("--variants", "max,baseline")
    found = json.loads((tmp_path / "x.json").read_text())
    assert [design["variant"] for design in found["details"]["designs"]] == ["baseline", "max"]
    assert {"part", "package", "speed", "flow"} < set(found["provenance"])
    assert all(design["commit"] == found["provenance"]["commit"] for design in found["details"]["designs"])


def test_a_design_without_a_route_is_said_when_all_is_written(run, monkeypatch, tmp_path):
    honest = synthesis.flow.run
    gone = {"unrouted": {"1": "no wires for seed 1", "2": "none either"}, "fmax_mhz": {}}
    monkeypatch.setattr(
        synthesis.flow, "run",
        lambda target, designs, *given: [
            found | gone if found["variant"] == "max" else found for found in honest(target, designs, *given)
        ],
    )  # fmt: skip
    with pytest.raises(SystemExit) as ended, mistakes_in_a_line():
        run("--variants", "max,baseline")
    assert ended.value.code == 1
    found = json.loads((tmp_path / "x.json").read_text())
    assert [design["variant"] for design in found["details"]["designs"]] == ["baseline", "max"]
    assert found["figures"]["fmax_best_mhz_baseline"] == 62.0


BENCHES = ("asic", "ecp5", "synth_tiny", "xilinx", "controls", "variants_digits")


@pytest.mark.parametrize("name", (*BENCHES, "variants_vgg13"))
@pytest.mark.timeout(60)  # a bench that takes it for a number begins its work
@pytest.mark.parametrize("jobs", ["0", "-1", "two"])
def test_a_number_of_jobs_is_one_or_more(name, jobs, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [name, f"--jobs={jobs}"])
    with pytest.raises(SystemExit) as ended:
        import_module(f"adagp.evaluation.benches.{name}").main()
    last = capsys.readouterr().err.splitlines()[-1]
    assert ended.value.code == 2 and last.endswith(
        f"error: argument --jobs: must be a whole number of 1 or more, not '{jobs}'"
    )


ALL_BENCHES = (
    *BENCHES, "variants_vgg13", "numerics", "pe_formats", "scaling", "simulation",
    "train", "utilisation",
)  # fmt: skip


@pytest.mark.parametrize("name", ALL_BENCHES)
@pytest.mark.timeout(60)
def test_an_output_that_cannot_be_written_is_said_before_the_work(name, monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("no folder")
    for output, said in (
        (tmp_path, f"{tmp_path} is a folder, not a file"),
        (tmp_path / "file" / "x.json", f"{tmp_path / 'file' / 'x.json'} can't be written"),
    ):
        monkeypatch.setattr("sys.argv", [name, f"--output={output}"])
        with pytest.raises(SystemExit) as ended:
            import_module(f"adagp.evaluation.benches.{name}").main()
        assert ended.value.code == 2
        assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: argument --output: {said}")


def test_seeds_that_are_none(capsys):
    with pytest.raises(SystemExit):
        parser(COMMAND, None, "x.json", "1").parse_args(["--seeds", "x"])
    assert capsys.readouterr().err.endswith("argument --seeds: seeds = 'x' must be like 1,2,5 or 1-8\n")
    with pytest.raises(SystemExit):
        parser(COMMAND, None, "x.json", "1").parse_args(["--seeds", ""])
    assert capsys.readouterr().err.endswith("argument --seeds: seeds = '' must be like 1,2,5 or 1-8\n")


def test_seeds_of_any_design_are_named(run, monkeypatch):
    honest = synthesis.flow.run
    placed = {"placements": {"1": "a", "7": "b"}}
    monkeypatch.setattr(synthesis.flow, "run", lambda *given: [found | placed for found in honest(*given)])
    assert run("--variants", "low", "--seeds", "1")[0]["provenance"]["seed"] == [1, 7]


def test_a_file_where_a_folder_must_be(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended, mistakes_in_a_line():
        (tmp_path / "file" / "x").mkdir()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'file' / 'x'}: Not a directory\n"


@pytest.mark.parametrize("change", ["hardware", "tools", "flow"])
def test_what_other_hardware_tools_or_flow_gave_goes(run, monkeypatch, change):
    run("--variants", "low")
    if change == "hardware":
        monkeypatch.setattr(provenance, "hardware_digest", lambda config: "other")
    elif change == "flow":
        monkeypatch.setitem(synthesis.flow.CODE, "netlist", "counted otherwise")
    else:
        monkeypatch.setattr(synthesis.flow, "tools", lambda *_: {"yosys": "2"})
    found, calls = run("--variants", "max")
    assert calls == [("ecp5", ["max"], [1, 2], [])] and len(found["details"]["designs"]) == 1
