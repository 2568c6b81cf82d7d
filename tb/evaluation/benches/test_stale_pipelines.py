"""Stale weights on pipelines: memory of stages by the network's own numbers, and cycles of a small case by hand."""

import pytest
from adagp.evaluation.benches.pipelines import CLASSES, DEVICES, laid_out
from adagp.evaluation.benches.stale_pipelines import SETTINGS, SHAPE, figures_of, memory_of
from adagp.host.compiler.values import inputs_of
from adagp.host.pipelines.staged_network import staged_of
from adagp.host.pipelines.steps import What
from adagp.host.training.models import build_model
from pipelined import IMAGE, TINY, made

OPERAND_BYTES = 2


@pytest.mark.parametrize(("schedule", "missed"), [("stale-1f1b", [3, 2, 1, 0]), ("stale-paired", [6, 4, 2, 0])])
def test_memory_of_stages(schedule, missed):
    """A stage holds a micro-batch more than it misses updates; PipeDream would keep weights for each of these."""
    module = build_model(SETTINGS.model, SHAPE, CLASSES, SETTINGS.seed)
    rows = memory_of(laid_out(SETTINGS, schedule, module, SHAPE))
    assert len(rows) == DEVICES and [row.missed for row in rows] == missed
    assert [row.held for row in rows] == [each + 1 for each in missed]
    assert sum(row.weights for row in rows) == OPERAND_BYTES * sum(p.numel() for p in module.parameters()) > 0
    assert [row.stashed for row in rows] == [each * row.weights for each, row in zip(missed, rows, strict=True)]
    assert all(row.all > row.activations > 0 for row in rows)


def test_cycles_by_hand():
    """Two devices and three micro-batches of two images, whose 63 values of 16 bits each cross the link.

    By cycles of begin and end, device 0 has F0 0-10, F1 10-20, B0 46-66, U0 66-71, F2 71-81, B1 88-108, U1 108-113,
    B2 130-150, U2 150-155; device 1 F0 10-22, B0 22-46, U0 46-52, F1 52-64, B1 64-88, U1 88-94, F2 94-106, B2 106-130,
    U2 130-136. Alone, each micro-batch takes 10 + 12 + 24 + 20 + 5. A message takes 200 + (2 * 63 * 2 + 8) / 4 cycles.
    """
    inputs = inputs_of(IMAGE, 1.0)
    plan = staged_of(
        made("plain"), inputs, 6, TINY, 2, "stale-1f1b", 3, cut=["8.Linear"], chunks=2, source=None, hybrid=True
    )
    cycles = {What.FORWARD: (10, 12), What.BACKWARD: (20, 24), What.UPDATE: (5, 6)}
    steps = {
        kind: [(place, step, float(cycles[step.what][place]))
               for place, device in enumerate(plan.devices) for step in getattr(device, row)]
        for kind, row in (("bp", "steps"), ("alone", "alone_steps"))
    }  # fmt: skip
    one = 3 * (35 + 42)
    found = dict(figures_of("x", plan, steps, one))
    assert found["cycles_x"] == 155 and found["alone_x"] == 3 * 71
    assert found["idle_x"] == pytest.approx(1 - one / (2 * 155)) and found["limit_x"] == pytest.approx(one / (3 * 42))
    assert found["speedup_x"] == pytest.approx(one / 155)
    assert found["speedup_x_link"] == pytest.approx(one / 1202)
    assert found["speedup_x_balanced"] == pytest.approx(one / 148.5)
    assert found["hybrid_x"] == pytest.approx(2 * one / (155 + 213))
    assert found["formula_x"] == pytest.approx(2 / (1 + 155 / one))
