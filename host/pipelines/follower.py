"""A process of a pipeline's device after the first one: ``python -m adagp.host.pipelines.follower`` reads its job."""

import json
import sys

from .job import Job
from .processes import QUIET, follow
from .steps import PipelineError

__all__ = ["main"]


def main() -> None:
    """Read rank, port and job from standard input, and follow the orders of the first process."""
    given = json.load(sys.stdin)
    try:
        follow(given["rank"], given["port"], Job.from_dict(given["job"]))
    except PipelineError:  # which the first process tells
        sys.exit(QUIET)


if __name__ == "__main__":
    main()
