"""The accelerator itself in the native driver: generated, linted, reached through its registers."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from adagp.gen.generated import generated
from adagp.rtl.control.supervisor import RESET_CYCLES
from adagp.sim import IDEAL, Simulation, SimulationError
from adagp.sim.build import lint
from adagp.spec.config import VERSION
from adagp.spec.errors import ErrorCode
from adagp.spec.presets import preset
from adagp.spec.registers import DEVICE_ID, Control, Status, register

pytestmark = pytest.mark.timeout(900)  # Verilog and a simulator may have to be made first

CONFIG = preset("tiny")
BYTES = replace(CONFIG, name="bytes", operand_width=8, acc_width=32, update_lanes=2)
GENERATE = """
from adagp.gen.verilog import to_verilog
from adagp.spec.presets import preset
from memory_traffic_dut import Copier
print(to_verilog(Copier(preset("tiny"))))
"""


@pytest.mark.parametrize("config", [
    CONFIG, BYTES, replace(preset("paper"), variant="max"),
    pytest.param(preset("ecp5"), marks=pytest.mark.slow),  # tiny but for deeper memories
], ids=lambda config: config.name)  # fmt: skip
def test_lint(config):
    assert lint(generated(config)) == []


def test_lint_reports(tmp_path):
    text = generated(CONFIG).read_text()
    (tmp_path / "top.v").write_text(text.replace("assign irq = ", "assign irq = 2'd2 & ", 1))
    assert any("WIDTHTRUNC" in line for line in lint(tmp_path / "top.v"))


def test_what_the_supervisor_resets_has_no_other_reset():
    """``rst`` reaches the supervisor, registers and the memory port; cores, update unit and fetch have none of it."""
    text = generated(replace(CONFIG, variant="max")).read_text()
    found = re.findall(r"^module (\S+) ?\(([^;]*)\);", text, re.MULTILINE)
    ports = {name.removeprefix("\\adagp.accelerator.").split("$")[0]: ports for name, ports in found}
    resettable = {name for name, names in ports.items() if re.search(r"\b(\w+_)?rst\b", names)}
    engines = {name for name in ports if re.match(r"(core|predictor|update|control\.(fetch|issue|exponents))\b", name)}
    assert {"core.drain.epilogue", "predictor.compute", "update.reader", "control.fetch.prefetch"} <= engines
    assert {"control.supervisor", "control.csr", "reads.grants", "writes.grants"} <= resettable
    assert not engines & resettable


def test_generation_is_deterministic():
    texts = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "tb/support"}
        texts.add(subprocess.run([sys.executable, "-c", GENERATE], env=env, capture_output=True, check=True).stdout)
    assert len(texts) == 1 and b"module adagp" in texts.pop()


def test_identifies_itself():
    with Simulation(CONFIG, memory_bytes=1 << 20) as device:
        names = {"STATUS": Status.BUSY, "ID": DEVICE_ID, "VERSION": VERSION, "CONFIG_HASH": CONFIG.config_hash}
        assert {name: device.read_register(register(name).offset) for name in names} == names
        statuses = [device.read_register(register("STATUS").offset) for _ in range(2 * RESET_CYCLES)]
        assert statuses[-1] == 0 and set(statuses) <= {0, Status.BUSY}  # the reset goes through the machine


@pytest.mark.parametrize("part", [None, IDEAL])
def test_refuses_a_program_of_zeroes(part):
    with Simulation(CONFIG, part, memory_bytes=1 << 20) as device:
        for name, value in {"PROGRAM": 4096, "IRQ_ENABLE": 1, "BATCHES": 1, "CONTROL": Control.START}.items():
            device.write_register(register(name).offset, value)
        assert device.run_until_irq(10_000) > 0
        assert device.read_register(register("STATUS").offset) & Status.ERROR
        assert device.read_register(register("ERROR").offset) == ErrorCode.CONFIG_MISMATCH
        device.write_register(register("CONTROL").offset, Control.CLEAR)
        with pytest.raises(SimulationError, match=r"no interrupt within 1000 cycles: STATUS .*, ERROR NONE"):
            device.run_until_irq(1000)
