"""Figures that the benches of the designs derive from counters and timelines, by hand; the paper's own limit."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from adagp.algorithm.paper_numbers import PHASES, SPEEDUP
from adagp.evaluation.benches import variants_digits, variants_vgg13
from adagp.evaluation.instruments.energy import MODULE
from adagp.evaluation.instruments.variants import Measured, alpha, directions, figures, limit, predictor_macs, shares
from adagp.host.compiler.useful_macs import useful_macs
from adagp.host.training.timeline import Slice
from adagp.spec.commands import Command, Opcode, Phase
from adagp.spec.operands import macs
from adagp.spec.presets import preset
from adagp.spec.schedule import Entry, Schedule, State, following

CONFIG = replace(preset("tiny"), variant="low")


def test_the_schedule_of_the_paper():
    """10 epochs of warm-up, 4 each of 4:1, 3:1 and 2:1, 68 of 1:1."""
    gp = (4 * 4 / 5 + 4 * 3 / 4 + 4 * 2 / 3 + 68 / 2) / 90
    assert shares() == pytest.approx({"warmup": 10 / 90, "bp": 80 / 90 - gp, "gp": gp})
    schedule, state, seen = Schedule(10, 60, tuple(Entry(*entry) for entry in PHASES)), State(), Counter()
    for _ in range(90 * 60):
        phase, state = following(state, schedule)
        seen[phase] += 1
    assert seen[Phase.GP] / seen.total() == pytest.approx(gp, abs=1e-3)
    assert limit(2, gp) == pytest.approx(3 / (1 + 2 * (1 - gp))) == pytest.approx(1.465, abs=5e-4)
    assert limit(2, gp) < SPEEDUP  # the paper's mean is above what its schedule allows with backward twice forward
    assert limit(0, gp) == 1


SHAPE = {
    "n": 2, "h": 3, "w": 3, "c": 2, "oh": 3, "ow": 3, "q": 4, "r": 3, "s": 3, "stride": 1, "pad_top": 1, "pad_left": 1,
    "nb": 1, "yb": 3, "qb": 4, "cb": 2,
}  # fmt: skip
COMMANDS = [
    Command(Opcode.FORWARD, SHAPE), Command(Opcode.REORGANISE, SHAPE),
    Command(Opcode.FORWARD, {**SHAPE, "predictor": 1}), Command(Opcode.UPDATE, {"count": 10}),
    Command(Opcode.BACKWARD_WEIGHT, SHAPE), Command(Opcode.BACKWARD_DATA, SHAPE),
    Command(Opcode.BACKWARD_WEIGHT, {**SHAPE, "predictor": 1}), Command(Opcode.ADAM, {}),
    Command(Opcode.AVGPOOL, SHAPE), Command(Opcode.AVGPOOL, {**SHAPE, "const_mantissa": 9}),
    Command(Opcode.UPDATE, {"count": 10, "quality": 1}),
]  # fmt: skip
FORWARD, REORGANISE, GUESS, UPDATE, WEIGHT, DATA, LEARN, ADAM, CLEAR, POOL, JUDGE = range(len(COMMANDS))
PROGRAM = [SimpleNamespace(command=command) for command in COMMANDS]
COMPILED = SimpleNamespace(program=PROGRAM, tensors={}, config=preset("tiny"))


def work(phase, batch, *rows):
    """Slices of a batch: its own, then (unit, command, begin, end) or with whether it is dry."""
    end = max(row[3] for row in rows)
    found = [Slice("batch", "", "", phase, batch, -1, False, 0, end, 0)]
    for unit, command, first, last, *dry in rows:
        found.append(Slice(unit, "", "", phase, batch, command, bool(dry), first, last, 0))
    return found


GP = [("array", FORWARD, 0, 100), ("drain", REORGANISE, 100, 103), ("array", REORGANISE, 100, 150),
      ("array", GUESS, 110, 120), ("update", UPDATE, 120, 190), ("array", GUESS, 200, 220, True)]  # fmt: skip
BP = [("array", FORWARD, 0, 140), ("predictor array", GUESS, 150, 160), ("array", WEIGHT, 150, 250),
      ("predictor array", LEARN, 260, 275), ("update", ADAM, 275, 280), ("update", UPDATE, 250, 260),
      ("array", CLEAR, 150, 152), ("array", POOL, 152, 160), ("update", JUDGE, 280, 380)]  # fmt: skip


def test_the_predictors_work():
    """Two GP batches, one without predictions. Judging reads 2 bytes beside 10 read and 8 written a weight."""
    slices = work("GP", 0, *GP) + work("GP", 1, ("array", FORWARD, 0, 80)) + work("BP", 2, *BP)
    slices += work("warm-up", 3, *BP)
    expected = (3 + 10) / 2 / 400, (10 + 15 + 5 + 2 + 100 * 2 / 20) / 400
    assert alpha(slices, PROGRAM, CONFIG, 400) == pytest.approx(expected)
    with pytest.raises(ValueError, match="a GP and a BP batch are needed"):
        alpha(work("GP", 0, *GP), PROGRAM, CONFIG, 400)


def test_utilisation_of_a_direction():
    """From the end of the command before to its own; a batch's first command isn't in it."""
    rows = [("array", FORWARD, 0, 90), ("array", FORWARD, 95, 200), ("array", WEIGHT, 203, 260),
            ("array", LEARN, 260, 300), ("array", DATA, 310, 400)]  # fmt: skip
    found = directions(work("BP", 0, *rows), PROGRAM, 16)
    expected = {"forward": (FORWARD, 110), "backward_weight": (WEIGHT, 60), "backward_data": (DATA, 100)}
    assert found == {
        f"{share}_{name}": round(count(COMMANDS[which]) / cycles / 16, 5)
        for share, count in (("useful_utilisation", useful_macs), ("utilisation", macs))
        for name, (which, cycles) in expected.items()
    }  # fmt: skip
    assert found["useful_utilisation_forward"] < found["utilisation_forward"]


def test_the_array_works_for_the_predictor_too():
    """By phases; not in MAX, where that has an array of its own. Utilisation leaves it out."""
    given = [(Opcode.FORWARD, 0, 15), (Opcode.FORWARD, 1, 4), (Opcode.BACKWARD_WEIGHT, 1, 3)]
    program = [
        SimpleNamespace(command=Command(opcode, {**SHAPE, "predictor": mine, "phase_mask": mask}))
        for opcode, mine, mask in given
    ]
    guess, learn = (macs(line.command) for line in program[1:])
    found = predictor_macs(program, CONFIG)
    assert found == {"warmup": learn, "bp": learn, "gp": guess, "evaluation": 0} and guess > 0 < learn
    assert predictor_macs(program, replace(CONFIG, variant="max")) == {}
    design = Measured("low", 10, {"gp": counters(100, 900, 0, 0)}, predictor_macs={"gp": 150})
    assert design.utilisation("gp") == 0.75


USEFUL = {"warmup": 1800, "bp": 1800, "gp": 600}


def counters(cycles, n_macs, reads, writes):
    return {"cycles": cycles, "macs": n_macs, "read_bytes": reads, "write_bytes": writes}


def designs():
    """A baseline with backward twice forward; designs whose GP batches cost a forward pass and a bit."""
    found = {"baseline": Measured("baseline", 10, {
        "bp": counters(300, 2700, 10, 20), "evaluation": counters(100, 900, 0, 0),
    }, useful_macs={"bp": 900})}  # fmt: skip
    for variant, gp in (("low", 130), ("efficient", 110), ("max", 101)):
        phases = {"warmup": counters(301, 2700, 11, 22), "bp": counters(303, 2700, 11, 22)}
        found[variant] = Measured(variant, 10, {**phases, "gp": counters(gp, 900, 5, 7)}, (0.01, 0.02), {}, USEFUL)
    return found


def test_figures_by_hand():
    found, part = figures(designs()), shares()
    assert found["backward_to_forward"] == 2 and found["implied_limit"] == round(limit(2, part["gp"]), 4)
    for variant, gp in (("low", 130), ("efficient", 110), ("max", 101)):
        mean = part["warmup"] * 301 + part["bp"] * 303 + part["gp"] * gp
        assert found[f"speedup_{variant}"] == round(300 / mean, 4) < found["implied_limit"]
        assert found[f"useful_utilisation_gp_{variant}"] == round(600 / (10 * gp), 5)
        assert found[f"utilisation_gp_{variant}"] == round(900 / (10 * gp), 5)
        assert found[f"dram_bytes_gp_{variant}"] == 12 and found[f"alpha_backward_{variant}"] == 0.02
        assert found[f"overhead_forward_{variant}"] == round(gp / 100 - 1, 4)
        assert found[f"overhead_backward_{variant}"] == 0.03
    assert (
        found["speedup_baseline"] == 1 and found["paper_speedup"] == SPEEDUP and found["utilisation_gp_baseline"] == 0.9
    )
    assert found["useful_utilisation_gp_baseline"] == 0.3  # which trains as in BP
    true = 11 * MODULE.read_pj + 22 * MODULE.write_pj
    spent = (1 - part["gp"]) * true + part["gp"] * (5 * MODULE.read_pj + 7 * MODULE.write_pj)
    assert found["dram_energy_saving"] == round(1 - spent / (10 * MODULE.read_pj + 20 * MODULE.write_pj), 4)


def test_a_byte_costs_what_reading_it_draws_beyond_an_open_bank():
    assert MODULE.read_pj == pytest.approx((157 - 38) * 1.5 * 8 / 12.8) == pytest.approx(111.5625)
    assert MODULE.write_pj == pytest.approx((125 - 38) * 1.5 * 8 / 12.8) == pytest.approx(81.5625)


def test_a_speed_up_beyond_the_limit_fails_the_bench(tmp_path, monkeypatch):
    bench = variants_vgg13
    rows = {name: {"counters": design.counters, "slices": [], "hashes": ["a"], "hash_equal": True}
            for name, design in designs().items()}  # fmt: skip
    monkeypatch.setattr(bench, "network_of", lambda config: (SimpleNamespace(program=PROGRAM, compiled=COMPILED), {}))
    monkeypatch.setattr(bench, "alpha", lambda *_: (0.0, 0.0))
    config = preset("tiny")
    bench.report(rows, config, tmp_path / "good.json", "c" * 40)
    assert (tmp_path / "good.json").exists()
    rows["max"]["counters"]["gp"]["cycles"] = 99
    rows["max"]["counters"]["bp"]["cycles"] = rows["max"]["counters"]["warmup"]["cycles"] = 299
    with pytest.raises(ValueError, match=r"max is .* times as fast: more than a free predictor"):
        bench.report(rows, config, tmp_path / "bad.json", "c" * 40)
    assert not (tmp_path / "bad.json").exists()
    rows = {**rows, "max": rows["low"], "low": {**rows["low"], "hash_equal": False}}
    with pytest.raises(ValueError, match="hasn't the weights of the golden model"):
        bench.report(rows, config, tmp_path / "bad.json", "c" * 40)


def test_equal_hashes_of_digits_are_all_that_must_be():
    """Every run of the bench counts: any that ends otherwise is seen."""
    bench = variants_digits
    row = {"hash": "plain", "before": "first", "accuracy": 0.5, "batches": [2, 2, 4], "counters": [{"cycles": 4}]}
    found = {name: dict(row) for name in bench.runs()}
    for name in ("low", "efficient", "max", "golden-predicted"):
        found[name]["hash"] = "predicted"
    good = bench.outcome(found, designs())
    assert good["hash_equal"] and good["hashes_differ"] and good["implied_limit"] == round(limit(2, 0.5), 4)
    for name in found:
        assert not bench.outcome({**found, name: {**found[name], "hash": "other"}}, designs())["hash_equal"], name
    found["golden-predicted"]["hash"] = "first"
    assert not bench.outcome(found, designs())["hashes_differ"]


def test_the_batch_that_calibrates_is_left_out():
    row = {"batches": [3, 2, 0], "counters": [{"cycles": 700}, {"cycles": 500}, {}], "first": {"cycles": 300},
           "evaluation": {"cycles": 90}, "slices": []}  # fmt: skip
    found = variants_digits.measured("baseline", row, COMPILED, 90)
    assert found.counters["warmup"] == found.counters["bp"] == {"cycles": 200}
    assert found.cycles("gp") == 200 and found.counters["evaluation"] == {"cycles": 90}
