"""Stale weights on pipelines: memory of stages, by the network's own numbers."""

import pytest
from adagp.evaluation.benches.pipelines import CLASSES, DEVICES, laid_out
from adagp.evaluation.benches.stale_pipelines import SETTINGS, SHAPE, memory_of
from adagp.host.training.models import build_model

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
