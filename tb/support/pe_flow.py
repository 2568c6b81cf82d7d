"""One PE through the flow of synthesis, place and route."""

from adagp.spec.presets import preset
from adagp.synth import flow
from adagp.synth.design import Design
from adagp.synth.flow import Options

__all__ = ["PE", "run"]

PE = Design(preset("tiny"), "pe")


def run(name, seeds=(), earlier=None, **options):
    """Figures of the PE, and the jobs with something to do."""
    jobs = []

    def report(job):
        jobs.append([job, 0])
        place = jobs[-1]

        def say(now):
            place[1] += now not in ("", "counting", "Verilog from Amaranth")

        return say

    (found,) = flow.run(name, [PE], Options(seeds=seeds, **options), report, earlier or {})
    return found, [job for job, steps in jobs if steps]
