"""Measure the source tree: writes ``results/house.json``.

``python -m adagp.evaluation.benches.house``, in a checkout, takes seconds, and with
``--time-tests`` as long as all tests: files by folder, their lengths, lengths of
``elaborate``, circles of imports, openings of docstrings, tests, lines of the README.
"""

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from ...gen.provenance import commit, provenance
from ...host.console import writable
from ..instruments.house import GUESSED, ROOT, circles, import_graph, sources, spread
from ..instruments.results import FOLDER, write_results

__all__ = ["figures", "main"]

COMMAND = "python -m adagp.evaluation.benches.house"
_COLLECTED = re.compile(r"^(?:(\d+)/)?(\d+) tests collected", re.MULTILINE)


def count_tests() -> tuple[int, int]:
    """Tests that run by default, and all that there are; raises RuntimeError if pytest can't collect them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    counts = _COLLECTED.search(found.stdout)
    if found.returncode or counts is None:
        raise RuntimeError(f"pytest collects no tests:\n{found.stdout[-2000:]}{found.stderr[-2000:]}")
    return int(counts[1] or counts[2]), int(counts[2])


def test_seconds() -> float:
    """Run ``./adagp test`` as a user does, its output shown; returns its seconds. Raises RuntimeError if it fails."""
    begin = time.monotonic()
    if subprocess.run([ROOT / "adagp", "test"], cwd=ROOT).returncode:
        raise RuntimeError("./adagp test fails")
    return round(time.monotonic() - begin, 1)


def figures() -> tuple[dict[str, float], dict]:
    """Figures of the tree, and files by folder with the longest of them."""
    package, tests = sources(), sources("tb")
    files = [*package, *tests]
    by_folder = Counter(file.path.parent.as_posix() for file in files)
    docstrings = [text for file in files for text in file.docstrings]
    openings = Counter(opening[1] for text in docstrings if (opening := GUESSED.match(text)))
    elaborates = [lines for file in package for lines in file.elaborate_lines]
    default, every = count_tests()
    found: dict[str, float] = {
        "files": len(package), "files_tests": len(tests), "files_a_folder_most": max(by_folder.values()),
        **{f"lines_{name}": value for name, value in spread([file.n_lines for file in files]).items()},
        **{f"elaborate_{name}": value for name, value in spread(elaborates).items()},
        "circles": len(circles(import_graph(package))), "docstrings": len(docstrings),
        "docstrings_guessed": sum(openings.values()),
        "docstrings_guessed_share": round(sum(openings.values()) / len(docstrings), 4),
        "tests_default": default, "tests": every, "readme_lines": len((ROOT / "README.md").read_text().splitlines()),
    }  # fmt: skip
    longest = sorted(files, key=lambda file: -file.n_lines)[:10]
    details = {
        "files_by_folder": dict(sorted(by_folder.items())), "openings": dict(openings),
        "longest": {file.path.as_posix(): file.n_lines for file in longest},
    }  # fmt: skip
    return found, details


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``nox -s bench_house``."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=writable, default=Path(FOLDER / "house.json"), help="default: %(default)s")
    parser.add_argument("--time-tests", action="store_true", help="also run ./adagp test, alone on the machine")
    arguments = parser.parse_args(argv)
    source = commit()
    found, details = figures()
    if arguments.time_tests:
        found["test_seconds"] = test_seconds()
    write_results(arguments.output, found, details, provenance(COMMAND, None, [], source))
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
