"""Samples of the robustness campaigns on faults and resets, and that these campaigns see broken hardware."""

import pytest
from robustness.campaign import Campaign
from robustness.faults import FAULTS
from robustness.resets import RESETS

SEED = 2


@pytest.mark.parametrize(("kind", "count"), [(FAULTS, 200), (RESETS, 20)], ids=lambda value: getattr(value, "name", ""))
def test_sample(kind, count, tmp_path):
    print(f"seed {SEED}")
    records = Campaign(kind, SEED, tmp_path).run(count, quiet=True)
    failures = [(record.index, record.outcome) for record in records if record.failed]
    assert not failures
    assert len(records) == count and len({record.outcome for record in records}) > 5
