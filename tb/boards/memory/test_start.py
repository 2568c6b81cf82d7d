"""``adagp board start``: calibration and memory test over a link, with models of PHY and memory at its end."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from adagp.boards.memory import bring_up
from adagp.cli.main import main
from adagp.host.devices.link import LinkError
from phy_model import Lane, MemoryModel, PhyModel

LANES = ((2, 3, 6), (0, 1, 5))
"""Bitslip, first and last delay that work."""


class LinkedModels:
    """The interface of a :class:`~adagp.host.devices.link.Link` to a board with these models."""

    def __init__(self, phy, memory, answers=True, config_hash=0x1234):
        self.phy, self.memory, self.answers, self.config_hash = phy, memory, answers, config_hash
        self.greeted = self.finished = False

    def hello(self):
        if not self.answers:
            raise LinkError("no answer")
        self.greeted = True
        return SimpleNamespace(config_hash=self.config_hash)

    def finish(self):
        self.finished = True

    def read_register(self, address, dram=False):
        assert dram and self.greeted
        return self.phy.read(address)

    def write_register(self, address, value, dram=False):
        assert dram and self.greeted
        self.phy.write(address, value)

    def write(self, address, data):
        assert self.phy.values["ddrctrl_init_done"], "the memory is used before it is started"
        self.memory.write(address, np.frombuffer(data, np.uint8))

    def read(self, address, size):
        return self.memory.read(address, size).tobytes()


@pytest.fixture
def start(controller, tmp_path, monkeypatch, capsys):
    """Runs the command at a board; returns exit code, output, errors, and whether the line was closed."""
    controller.save(tmp_path / "dram.json")
    (tmp_path / "accelerator.json").write_text(json.dumps({"config_hash": 0x1234}))

    def run(*options, lanes=LANES, answers=True, config_hash=0x1234, folder=tmp_path, **faults):
        phy = PhyModel(controller, [Lane(*lane) for lane in lanes], seed=1)
        link = LinkedModels(phy, MemoryModel(controller.memory_bytes, controller.lanes, **faults), answers, config_hash)
        closed = []
        run.phy = phy

        class Line:
            def __init__(self, port):
                assert port.path == "somewhere"

            def close(self):
                closed.append(True)

        monkeypatch.setattr(bring_up, "Line", Line)
        monkeypatch.setattr(bring_up, "Link", lambda *_: link)
        monkeypatch.setattr("time.sleep", lambda _: None)
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as ended:
            main(["board", "start", str(folder), *map(str, options)])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err, bool(closed)

    return run


PORT = ("--port", "somewhere")


def test_a_memory_is_started(start, controller, tmp_path):
    code, out, said, closed = start(*PORT, "--json", tmp_path / "started.json")
    assert code == 0 and closed, said
    summary = json.loads((tmp_path / "started.json").read_text())
    assert [(eye["bitslip"], eye["first"], eye["last"], eye["delay"]) for eye in summary["eyes"]] == [
        (2, 3, 6, 4), (0, 1, 5, 3),
    ]  # fmt: skip
    assert summary["bytes_compared"] > 1 << 14 and f"{summary['bytes_compared']:,} bytes compared" in out
    assert f"{controller.memory_bytes >> 20} MiB started" in out and "DQ8 to DQ15" in out and "1 to 5" in out


@pytest.mark.parametrize(("faults", "message"), [
    ({"lanes": (LANES[0], (0, 5, 1))}, r"failed: calibration: lane 1 \(DQ8 to DQ15\) reads wrongly at every bitslip"),
    ({"dead": 1 << 20}, "failed: memory test: .* address bit 20 has no effect"),
    ({"lost": range(1 << 20, 1 << 26)}, r"failed: memory test: \d+ of 64 bytes from 0x100000 are wrong"),
    ({"stuck": 1}, r"failed: memory test: .*lane 0 "),
    ({"config_hash": 0x4321}, "failed: the board at somewhere is of configuration 00004321, the folder's bitstream of"),
    ({"answers": False}, "failed: somewhere at 3000000 baud: no answer"),
])  # fmt: skip
def test_what_does_not_work_is_named(start, faults, message):
    code, out, said, closed = start(*PORT, **faults)
    assert code == 1 and closed and "MiB started" not in out
    assert not start.phy.values["ddrctrl_init_done"]  # the accelerator must not use it
    assert said.strip().count("\n") == 0
    assert re.search(message, said), said


def test_mistakes(start, tmp_path):
    code, _, said, _ = start()
    assert code == 2 and "needs --port" in said
    code, _, said, _ = start(*PORT, folder=tmp_path / "nowhere")
    (tmp_path / "accelerator.json").write_text("[]")
    assert "accelerator.json isn't the description of an accelerator" in start(*PORT)[2]
    assert code == 2 and f"there is no board in {tmp_path / 'nowhere'}: " in said and said.strip().count("\n") == 0
