"""The bench of published networks, with a small one: it goes on where it stopped, and a mismatch fails it."""

import json

import pytest
from adagp.evaluation.benches import models
from adagp.evaluation.benches.models import main
from adagp.experiments.networks.models import PAPER_MODELS
from adagp.host.compiler.lowering import LoweringError
from adagp.host.devices.golden import GoldenDevice
from adagp.spec.commands import Opcode

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

FIGURES = {
    "hash_equal_bp",
    "hash_equal_gp",
    "device_share_of_macs",
    "device_share_of_bytes",
    "cycles_bp",
    "cycles_gp",
    "cycles_bp_max",
}
"""Figures of a network, before its name."""


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """The command on preset tiny; returns the results, and devices as they are opened with batches as they are run."""
    monkeypatch.setattr(models, "WORK", tmp_path / "work")
    monkeypatch.setattr(models, "commit", lambda: "c0ffee")
    for name, value in (("ENLARGED", {}), ("SWITCHES", ())):  # designs that other tests build too
        monkeypatch.setattr(models, name, value)
    seen, run = [], models.run

    def counted(network, device, number, phase, **more):
        seen.append((network.config.variant, type(device).__name__, phase))
        run(network, device, number, phase, **more)

    monkeypatch.setattr(models, "run", counted)

    def call(*names):
        main(["--preset", "tiny", "--networks", *names, "--json", str(tmp_path / "models.json")])

    call.seen, call.path = seen, tmp_path / "models.json"
    return call


class Second(GoldenDevice):
    """In place of the simulator, where that isn't what a test is about; counts no cycles."""

    def counters(self, phase):
        return {"cycles": 7, "macs": 5}


@pytest.fixture
def without_simulator(monkeypatch):
    monkeypatch.setattr(models, "SimDevice", Second)
    monkeypatch.setattr(models, "library", lambda config: models.Path("simulator"))


def test_the_simulated_rtl_has_the_bits_of_the_golden_model(bench):
    bench("mlp")
    written = json.loads(bench.path.read_text())
    figures, rows = written["figures"], written["details"]["mlp"]["details"]
    assert set(figures) == {f"{name}_mlp" for name in FIGURES}
    assert figures["hash_equal_bp_mlp"] is True is figures["hash_equal_gp_mlp"]
    assert figures["device_share_of_macs_mlp"] == 1 == figures["device_share_of_bytes_mlp"]
    assert 0 < figures["cycles_gp_mlp"] < figures["cycles_bp_max_mlp"] and figures["cycles_bp_mlp"] > 0
    assert [list(row["batches"]) for row in rows.values()] == [["bp"], ["bp", "gp"]]
    assert all(row["commit"] == "c0ffee" and row["host_operators"] == {} and "of" not in row for row in rows.values())
    assert rows["baseline"]["hardware"] != rows["max"]["hardware"] and rows["max"]["inputs"] == [[3, 16, 16]]
    order = [kind for variant, kind, _ in bench.seen if variant == "max"]
    assert order == ["GoldenDevice"] * 3 + ["SimDevice"] * 2


def test_a_bench_that_was_stopped_goes_on(bench, without_simulator, monkeypatch):
    bench("mlp", "lenet")
    expected, order = json.loads(bench.path.read_text()), list(bench.seen)
    assert len(order) == 2 * 8 and set(expected["details"]) == {"mlp", "lenet"}
    run = models.run
    for name in (*models.WORK.iterdir(), bench.path):
        name.unlink()
    for last in (4, 11):  # batches: in the second design of the first network, and in the first one of the second

        def stopping(network, device, number, phase, last=last, **more):
            if len(bench.seen) == last:
                raise KeyboardInterrupt
            run(network, device, number, phase, **more)

        bench.seen.clear()
        monkeypatch.setattr(models, "run", stopping)
        with pytest.raises(KeyboardInterrupt):
            bench("mlp", "lenet")
    assert set(json.loads(bench.path.read_text())["details"]) == {"mlp"}
    monkeypatch.setattr(models, "run", run)
    bench.seen.clear()
    bench("mlp", "lenet")
    assert 0 < len(bench.seen) < len(order)
    again = json.loads(bench.path.read_text())
    for part in ("figures", "provenance"):
        assert again[part] == expected[part]
    bench.seen.clear()
    bench("mlp", "lenet")
    assert not bench.seen  # nothing is left to run


def test_other_sources_are_measured_anew(bench, without_simulator, monkeypatch):
    bench("mlp")
    bench.seen.clear()
    monkeypatch.setattr(models, "training_sources", lambda: "changed")
    bench("mlp")
    assert len(bench.seen) == 8


def test_one_wrong_bit_fails_the_bench(bench, without_simulator, monkeypatch):
    class Wrong(Second):
        def __init__(self, config):
            super().__init__(config)
            self.machine.on_command = self._spoil

        def _spoil(self, index, command):
            if command.opcode == Opcode.UPDATE:
                self.machine.memory[command.out_addr] ^= 1

    monkeypatch.setattr(models, "SimDevice", Wrong)
    with pytest.raises(SystemExit, match=r"^hash_equal_bp_mlp: .*other bits\nhash_equal_gp_mlp: .*other bits$"):
        bench("mlp")
    figures = json.loads(bench.path.read_text())["figures"]
    assert figures["hash_equal_bp_mlp"] is False is figures["hash_equal_gp_mlp"]


def test_a_batch_that_changes_nothing_is_no_success(bench, without_simulator, monkeypatch):
    run = models.run
    monkeypatch.setattr(models, "run", lambda *batch, **more: run(*batch, **more) if batch[2] == 0 else None)
    with pytest.raises(SystemExit, match=r"^hash_equal_bp_mlp"):
        bench("mlp")


def test_a_network_that_cannot_be_measured_does_not_stop_the_others(bench, without_simulator, monkeypatch, capsys):
    module_of = models.module_of

    def refusing(name):
        if name == "mlp":
            raise LoweringError("fc (Linear): refused")
        return module_of(name)

    monkeypatch.setattr(models, "module_of", refusing)
    with pytest.raises(SystemExit, match=r"^mlp: fc \(Linear\): refused$"):
        bench("mlp", "lenet")
    assert set(json.loads(bench.path.read_text())["details"]) == {"lenet"}


def test_all_networks_have_images_that_they_are_built_for():
    assert len(models.PAPER) == 15 and set(models.PAPER) == set(PAPER_MODELS)
    assert models.SIDES["yolo-v3"] % 32 == 0 and set(models.SIDES) <= set(models.PAPER)
    larger = [models.config_of(name, "max") for name in ("paper", "tiny")]
    assert [(config.n_filters, config.n_tensors) for config in larger] == [(2048, 4096)] * 2
    assert all(config.depthwise and config.batch_norm and config.clamps and config.matmul for config in larger)
