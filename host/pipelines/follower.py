"""A process of a pipeline's device after the first one: ``python -m adagp.host.pipelines.follower`` reads its job."""

import json
import os
import sys
import threading

from .job import Job
from .processes import QUIET, follow
from .steps import PipelineError

__all__ = ["main"]


def main() -> None:
    """Read rank, port and job from standard input, and follow the orders of the first process.

    Standard input is closed when the first process ends, in whatever way; then this one ends too.
    """
    given = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_first, daemon=True).start()
    try:
        follow(given["rank"], given["port"], Job.from_dict(given["job"]))
    except PipelineError:  # which the first process tells
        sys.exit(QUIET)


def _end_with_first() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(QUIET)


if __name__ == "__main__":
    main()
