"""Estimates of pipelines beside what was measured: errors by hand."""

import pytest
from adagp.evaluation.benches.pipeline_estimates import errors
from adagp.host.pipelines.steps import Step, What
from adagp.spec.phases import BP

MEASURED = {
    "figures": {
        "vgg13_cycles_bp_gpipe": 100, "vgg13_ada_bp_gpipe": 100, "vgg13_speedup_gpipe": 2.5, "vgg13_gain_gpipe": 1.0,
        "vgg13_gain_gpipe_link": 1.0,
    },
    "details": {"vgg13": {"details": {"gpipe max": {"steps": {"bp": [
        [1, "B", 1, 0, 1, 0, 400.0], [0, "F", 0, 0, 1, 0, 100.0], [1, "F", 1, 0, 1, 0, 200.0],
    ]}}}}},
}  # fmt: skip


def test_errors_are_the_worst_of_batches_and_the_median_of_steps():
    """Those with links aren't estimated, and nothing was measured in batches of 32 images."""
    found = {"cycles_bp_gpipe": 101, "ada_bp_gpipe": 95, "speedup_gpipe": 2.0, "gain_gpipe": 0.9, "gain_gpipe_link": 3}
    rows = [(0, What.FORWARD, 110.0), (1, What.FORWARD, 204.0), (1, What.BACKWARD, 404.0)]
    steps = {("gpipe", "max"): {"bp": [(place, Step(what, place, 0, 0, BP), cycles) for place, what, cycles in rows]}}
    differ = {"cycles": 0.05, "speedup": 0.2, "gain": 0.1, "steps": 0.02}
    assert dict(errors(found, steps, 8, MEASURED)) == pytest.approx(differ)
    assert not dict(errors(found, steps, 32, MEASURED))
