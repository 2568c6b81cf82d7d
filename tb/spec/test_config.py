"""Configurations: every limit is enforced, by an error that names the field, its value and the rule."""

import json
from dataclasses import replace

import pytest
from adagp.sim import IDEAL
from adagp.spec.config import Config
from adagp.spec.dram_part import DramPart
from adagp.spec.presets import DRAM_PARTS, PRESETS, preset
from adagp.spec.validation import ConfigError
from hypothesis import given, settings
from hypothesis import strategies as st

TINY, PAPER = preset("tiny"), preset("paper")
PART = TINY.dram


def powers(least, most):
    return st.integers(least.bit_length() - 1, most.bit_length() - 1).map(lambda bits: 1 << bits)


def no_power(most=1 << 20):
    return st.integers(-4, most).filter(lambda x: x <= 0 or x & (x - 1))


def outside(least, most):
    return st.integers(max_value=least - 1) | st.integers(min_value=most + 1)


NOT_INT = st.one_of(st.floats(), st.booleans(), st.text(), st.none(), st.just([4]))
NOT_NUMBER = st.one_of(
    st.sampled_from([float("nan"), float("inf"), -float("inf")]), st.booleans(), st.text(), st.none()
)
BAD_NAME = st.one_of(
    st.integers(), st.none(), st.sampled_from(["", ".", "..", "-o", "a/b", "a b", "tiny\n", "x" * 65, "é"])
)
DEPTHS = ("a_depth", "b_depth", "c_depth")
INTEGERS = ("rows", "cols", "port_width", *DEPTHS, "acc_depth", "n_tensors", "n_hyper", "update_lanes", "clock_hz",
            "operand_width", "acc_width", "max_burst_beats", "predictor_depth", "epilogue_lanes",
            "update_cycles")  # fmt: skip

REFUSED = {
    "rows": outside(2, 64), "cols": outside(2, 64),
    "port_width": st.integers().filter(lambda x: x not in (64, 128, 256)),
    "operand_width": st.integers().filter(lambda x: x not in (8, 16)),
    **{field: no_power() | st.integers(17, 40).map(lambda bits: 1 << bits) for field in DEPTHS},
    "acc_depth": no_power() | powers(1, 8) | st.integers(17, 40).map(lambda bits: 1 << bits),
    "n_tensors": no_power() | powers(1, 8) | powers(8192, 1 << 16),
    "n_hyper": no_power() | powers(1, 2) | powers(512, 1 << 16),
    "update_lanes": no_power() | powers(16, 1 << 16),
    "acc_width": outside(41, 56),  # 40 bits hold 511 products of 16 bits
    "max_burst_beats": no_power() | powers(1024, 1 << 16),
    "clock_hz": st.integers(max_value=0),
    "epilogue_lanes": outside(0, 15),  # lanes of the widest preset; test_most_epilogue_lanes has each one's
    "update_cycles": st.integers().filter(lambda x: x not in (1, 3)),
    "predictor_depth": no_power() | powers(1, 1) | powers(128, 1 << 16),
    "name": BAD_NAME, "dram": st.sampled_from([None, "ddr3", PART.__dict__]),
    "variant": st.text().filter(lambda x: x != "baseline"),
}  # fmt: skip

REFUSED_PART = {
    "name": BAD_NAME, "bandwidth_bytes": st.integers(max_value=0), "max_outstanding": st.integers(max_value=0),
    "capacity_bytes": outside(1, 1 << 32) | st.integers(1, 1 << 32).filter(lambda x: x % 4096),
    "burst_bytes": no_power(),
    **{field: st.floats(max_value=-1e-9, allow_infinity=False)
       for field in ("latency_ns", "refresh_interval_ns", "turnaround_ns")},
    "refresh_ns": st.floats(PART.refresh_interval_ns, 1e9) | st.floats(-1e9, -1e-9),
}  # fmt: skip


def refuses(instance, field, value):
    with pytest.raises(ConfigError) as error:
        replace(instance, **{field: value})
    assert str(error.value).startswith(f"{field} = {value!r} must satisfy ")


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_most_epilogue_lanes(config):
    most = config.result_lanes
    assert replace(config, epilogue_lanes=most).epilogue_lanes == most == max(config.rows, config.cols)
    refuses(config, "epilogue_lanes", most + 1)


@pytest.mark.parametrize("field", REFUSED)
@given(data=st.data(), config=st.sampled_from(list(PRESETS.values())))
@settings(max_examples=20, deadline=None)
def test_limits(field, data, config):
    refuses(config, field, data.draw(REFUSED[field]))


@pytest.mark.parametrize("field", REFUSED_PART)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_limits_of_a_part(field, data):
    refuses(PART, field, data.draw(REFUSED_PART[field]))


@given(value=NOT_INT, field=st.sampled_from(INTEGERS))
@settings(deadline=None)
def test_integers(value, field):
    refuses(TINY, field, value)


@given(value=NOT_INT, field=st.sampled_from(["bandwidth_bytes", "capacity_bytes", "burst_bytes", "max_outstanding"]))
@settings(deadline=None)
def test_integers_of_a_part(value, field):
    refuses(PART, field, value)


@given(value=NOT_NUMBER, field=st.sampled_from([name for name in REFUSED_PART if name.endswith("_ns")]))
@settings(deadline=None)
def test_numbers_of_a_part(value, field):
    refuses(PART, field, value)


@pytest.mark.parametrize("config, field, value, rule", [
    (TINY, "update_lanes", 4, "update_lanes <= port_width/32(2), the momenta in a beat"),
    (replace(TINY, operand_width=8), "update_lanes", 4, "update_lanes <= port_width/32(2), the momenta in a beat"),
    (PAPER, "update_lanes", 16, "update_lanes <= port_width/32(8), the momenta in a beat"),
    (PAPER, "max_burst_beats", 256, "max_burst_beats * port_width/8 <= 4096 (AXI bursts stay in a 4 KiB page)"),
    (PAPER, "a_depth", 8192, "a_depth * banks(16) <= 65536 elements"),
    (replace(TINY, cols=64), "c_depth", 2, "c_depth * banks >= 4 * cols"),
    (TINY, "acc_width", 40, "2^(acc_width-1) > 1024 * (2^(operand_width-1) - 1)^2"),
    (TINY, "rows", 65, "2 <= rows <= 64"),
    (PAPER, "update_cycles", 2, "update_cycles in {1, 3}"),
    (PAPER, "epilogue_lanes", 16, "0 <= epilogue_lanes <= max(rows, cols)(15)"),
    (TINY, "rows", 4.0, "rows is an integer"),
    (TINY, "rows", "4", "rows is an integer"),
    (TINY, "dram", None, "dram is a DramPart"),
    (PART, "refresh_ns", 7800.0, "refresh_ns < refresh_interval_ns(7800.0)"),
    (PART, "latency_ns", float("nan"), "latency_ns is a finite number"),
    (IDEAL, "refresh_ns", 1.0, "refresh_ns < refresh_interval_ns(0.0)"),
])  # fmt: skip
def test_messages(config, field, value, rule):
    with pytest.raises(ConfigError) as error:
        replace(config, **{field: value})
    assert str(error.value) == f"{field} = {value!r} must satisfy {rule}"


@pytest.mark.parametrize("config, changes", [
    (TINY, {"epilogue_lanes": 4}), (TINY, {"update_lanes": 2}), (PAPER, {"update_lanes": 8}),
    (PAPER, {"max_burst_beats": 128}),
    (replace(PAPER, a_depth=1024, b_depth=1024, c_depth=1024), {"rows": 64}), (TINY, {"acc_width": 41}),
    (TINY, {"operand_width": 8, "acc_width": 32}), (TINY, {"name": "tiny-2.1_b"}), (TINY, {"dram": IDEAL}),
    (PART, {"latency_ns": 0}), (PART, {"refresh_ns": 7799.9}), (PART, {"capacity_bytes": 1 << 32}),
    (PART, {"refresh_interval_ns": 0.0, "refresh_ns": 0.0}),
])  # fmt: skip
def test_just_within(config, changes):
    assert all(getattr(replace(config, **changes), name) == value for name, value in changes.items())


def test_the_predictors_core():
    """Shares of operands and results whatever its banks, which are as many as its array or its port needs."""
    core = PAPER.predictor_core
    assert (core.port_width, core.banks, core.beat_elements) == (64, 4, 4) and PAPER.banks == 16
    assert (core.a_elements, core.c_elements) == (PAPER.a_elements // 4, PAPER.c_elements // 2)
    assert (core.a_depth, core.b_depth, core.c_depth, core.acc_depth) == (4096, 4096, 8192, 4096)
    assert (core.bias_elements, PAPER.bias_elements) == (4 * 128, 15 * 64)
    assert TINY.predictor_core.port_width == 64 == TINY.port_width
    assert [replace(PAPER, epilogue_lanes=n).predictor_core.epilogue_lanes for n in (0, 3, 8)] == [0, 1, 3]
    assert replace(PAPER, predictor_rows=6).predictor_core.banks == 8


FREE = {
    "rows": st.integers(2, 64), "cols": st.integers(2, 64), "port_width": st.sampled_from([64, 128, 256]),
    **{field: powers(1, 1 << 15) for field in DEPTHS}, "acc_depth": powers(16, 1 << 16), "update_lanes": powers(1, 16),
    "operand_width": st.sampled_from([8, 16]), "acc_width": st.integers(32, 56), "max_burst_beats": powers(1, 256),
    "epilogue_lanes": st.integers(0, 64), "update_cycles": st.sampled_from([1, 3]),
    "dram": st.sampled_from([*DRAM_PARTS.values(), IDEAL]),
}  # fmt: skip


@given(st.fixed_dictionaries(FREE))
@settings(max_examples=300, deadline=None)
def test_what_is_accepted_is_consistent(values):
    """A configuration is refused or keeps what the hardware relies on, and survives JSON."""
    try:
        config = replace(TINY, **values)
    except ConfigError as error:
        assert str(error).split(" = ")[0] in values
        return
    assert config.banks >= max(config.rows, config.cols, config.beat_elements)
    assert max(config.a_elements, config.b_elements, config.c_elements) <= 65536
    assert config.beat_bytes % (4 * config.update_lanes) == 0
    assert config.psum_width <= config.acc_width
    assert 1 <= config.folds(config.result_lanes) <= config.result_lanes
    assert config.max_burst_beats * config.beat_bytes <= 4096
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize("change, message", [
    (lambda d: d.pop("rows"), "incomplete configuration: .*rows"),
    (lambda d: d.update(colour=1), "unknown field 'colour'"),
    (lambda d: d.pop("dram"), "incomplete configuration: 'dram'"),
    (lambda d: d.update(dram=5), "incomplete configuration"),
    (lambda d: d["dram"].pop("burst_bytes"), "incomplete configuration: .*burst_bytes"),
    (lambda d: d["dram"].update(burst_bytes=3), "burst_bytes = 3 must satisfy burst_bytes is a power of two"),
])  # fmt: skip
def test_from_dict_refuses(change, message):
    data = TINY.to_dict()
    change(data)
    with pytest.raises(ConfigError, match=message):
        Config.from_dict(data)


def test_unknown_preset():
    with pytest.raises(ConfigError, match="no preset 'huge'; there are: tiny, ecp5, ecp5_8x8, paper"):
        preset("huge")


def test_part_is_plain_data():
    assert DramPart(**TINY.to_dict()["dram"]) == PART
