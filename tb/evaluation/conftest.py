"""Fixtures of the evaluation's tests."""

import pytest
from adagp.gen import provenance
from threads import one_thread

__all__ = ["one_thread"]


@pytest.fixture(autouse=True)
def made_up_hardware(monkeypatch):
    """Digests of hardware without generating it, which takes minutes; tb/gen tests the real ones."""
    monkeypatch.setattr(provenance, "hardware_digest", lambda config: f"0123{config.name}")
