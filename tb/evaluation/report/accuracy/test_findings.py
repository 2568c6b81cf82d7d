"""Findings: clear differences and close ones."""

import pytest
from adagp.evaluation.report.accuracy.findings import Gap, clear, close


def test_what_is_clear():
    """By tables of Student's t with 4 degrees of freedom: 2.776 for 5 %, 3.495 for 2.5 %, 4.315 for 1.25 %."""
    assert Gap(2.776, 1, 5).p == pytest.approx(0.05, abs=1e-4) and Gap(-2.132, 1, 5).p == pytest.approx(0.1, abs=1e-4)
    assert str(Gap(0.5, 0.1, 5)) == "+0.50 ± 0.28" and Gap(0.0, 0.0, 5).p == 1 and Gap(0.1, 0.0, 5).p == 0
    assert clear({"a": Gap(2.8, 1, 5)}) == {"a"} and not clear({"a": Gap(2.7, 1, 5)})
    assert not clear({"a": Gap(2.8, 1, 5), "b": Gap(0, 1, 5)})  # the first of two must be at 2.5 %
    assert clear({"a": Gap(2.8, 1, 5), "b": Gap(-3.6, 1, 5)}) == {"a", "b"}  # and then the second at 5 %
    assert clear({"a": Gap(2.8, 1, 5), "b": Gap(-3.6, 1, 5, True)}) == {"a"}
    assert not clear({"a": Gap(3.4, 1, 5), "b": Gap(3.4, 1, 5)})


def test_learning_rates_that_did_nearly_as_well():
    def runs(**validations):
        return [{"lr": float(lr[1:]) / 100, "seed": seed, "validation": validation}
                for lr, found in validations.items() for seed, validation in enumerate(found)]  # fmt: skip

    assert close(runs(_5=(90, 80, 91), _15=(85, 82, 88)), 0.05)  # 2 of 2.08
    assert not close(runs(_5=(90, 80.3, 91), _15=(85, 82, 88)), 0.05)
    assert close(runs(_5=(50, 20), _15=(None, 60)), 0.05)  # 5 of 45: it diverged, which is 0
    assert not close(runs(_5=(90, 80, 91), _15=(90, 80)), 0.05)  # of those with fewer it was the best before
    assert not close(runs(_5=(90,), _15=(90,)), 0.05) and not close([], 0.05)
