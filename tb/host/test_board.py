"""Training over the host link of a simulated board, every bit on its line simulated, with a line that fails."""

import os
import threading
import tty
from dataclasses import replace

import numpy as np
import pytest
from adagp.host import link
from adagp.host.assembler import Program
from adagp.host.board_device import BoardDevice, Port
from adagp.host.frames import frame, request
from adagp.host.link import LinkError
from adagp.host.run_folder import RunFolder
from adagp.sim.board import Board, serve
from adagp.sim.mishaps import Mishaps
from adagp.spec.commands import Command, Opcode
from adagp.spec.link import Kind
from adagp.spec.presets import preset
from adagp.spec.registers import Status

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

TINY = preset("tiny")
SEED = 5
BAUD = TINY.clock_hz // 4
PATIENCE = 0.3
"""Seconds: a simulated board is slow."""
OPTIONS = (
    "--preset", "tiny", "--batch", "4", "--epochs", "2", "--train-images", "8", "--test-images", "4",
    "--checkpoint-every", "1",
)  # fmt: skip
PREDICTED = ("--variant", "max", "--phases", "1:1")
NETWORK = """
from torch import nn

def build(shape, n_classes):
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, n_classes))
"""
MISHAPS = {"drop": 4e-4, "corrupt": 4e-4, "delay": 4e-4, "duplicate": 4e-4}


class Bench:
    """A board whose line can be cut and mended; ``port`` is its path."""

    def __init__(self, config, **chances):
        self.board = Board(config, memory_bytes=1 << 20)
        self.there, self.back = (Mishaps(**chances, seed=2 * SEED + side) for side in (0, 1))
        self.cut_at = None  # cycle
        self.mend()

    def mend(self):
        """Serve the board at a new terminal."""
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        self.port, self.cut = os.ttyname(self.slave), False
        self._begin()

    def _begin(self):
        arguments = self.board, self.master, self._stopped, self.there, self.back
        self._thread = threading.Thread(target=serve, args=arguments, daemon=True)
        self._thread.start()

    def lose_power(self):
        """In its place is a board that knows of nothing."""
        self.cut = True
        self._thread.join(30)
        self.board, self.cut = Board(self.board.config, memory_bytes=1 << 20), False
        self._begin()

    def _stopped(self):
        return self.cut or (self.cut_at is not None and self.board.cycles > self.cut_at)

    def close(self):
        """Nothing passes any more."""
        self.cut = True
        self._thread.join(30)
        assert not self._thread.is_alive()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def bench(monkeypatch):
    """Makes boards, and closes them in the end."""
    monkeypatch.setattr(link, "LONGEST_PATIENCE", 0.6)  # or a dead line takes too long to be given up
    made = []

    def make(config=TINY, **chances):
        made.append(Bench(config, **chances))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def train(adagp, tmp_path):
    """Trains the small network; returns the exit code, the folder and what was said."""
    (tmp_path / "small.py").write_text(NETWORK)

    def run(device, port, *options, folder="run"):
        model = "--model", f"{tmp_path}/small.py:build"
        line = ("--port", port, "--baud", BAUD, "--patience", PATIENCE) if port else ()
        code, out, said = adagp(
            "train", "--device", device, *line, *OPTIONS, *model, *options, "-o", tmp_path / folder
        )  # fmt: skip
        return code, RunFolder(tmp_path / folder), out + said

    return run


@pytest.mark.parametrize("mishaps", [{}, MISHAPS], ids=["undisturbed", "disturbed"])
@pytest.mark.parametrize("options", [(), PREDICTED], ids=["baseline", "max"])
def test_trains_like_golden(bench, train, options, mishaps):
    """The same weights to the bit, whatever happens to bytes in either direction."""
    code, golden, _ = train("golden", None, *options, folder="golden")
    assert code == 0
    board = bench(replace(TINY, variant="max") if options else TINY, **mishaps)
    code, run, said = train("board", board.port, *options)
    assert code == 0, said
    assert run.summary["weights_hash"] == golden.summary["weights_hash"]
    counts = run.summary["link"]
    print(counts, board.there.counts, board.back.counts)
    assert counts["payload_bytes"] > 5000 and counts["requests"] > 300
    assert f"{counts['requests']:,} requests" in said
    if mishaps:
        assert min(*board.there.counts.values(), *board.back.counts.values()) > 0
        assert counts["repeated"] > 3 and counts["bad_frames"] > 0 and counts["time_outs"] > 0


def test_a_line_that_is_cut(bench, train):
    """One clear line at the end; the same command goes on at another port, though the board was left in a batch."""
    code, golden, _ = train("golden", None, folder="golden")
    assert code == 0
    board = bench()
    board.cut_at = 900_000  # by then it has a checkpoint
    code, run, said = train("board", board.port)
    assert code == 1 and not run.finished and run.has_checkpoint(), said
    assert "the board doesn't answer any more after 8 repetitions; it was asked" in said
    assert "the same command goes on from the last checkpoint" in said
    board.close()
    board.cut_at = None
    board.mend()
    code, run, said = train("board", board.port)
    assert code == 0 and "going on from epoch" in said, said
    assert run.summary["weights_hash"] == golden.summary["weights_hash"]


def test_a_board_left_in_a_batch(bench):
    """A new connection stops what the one before has left, and finds an accelerator at rest."""
    board = bench()
    port = Port(board.port, BAUD, PATIENCE)
    first = BoardDevice(TINY, port)
    program = Program()
    program.append(Command(Opcode.HOST, {"phase_mask": 0xF}))
    program.append(Command(Opcode.END, {"phase_mask": 0xF}))
    first.write(program.address, program.words())
    first.start(program, 0)
    assert first.wait() & Status.HOST
    first.close()
    second = BoardDevice(TINY, port)
    assert not second.read_register("STATUS") & (Status.BUSY | Status.HOST | Status.ERROR)
    second.close()


def test_memory_and_registers(bench):
    """Any address and length, both register buses; statistics add up."""
    rng = np.random.default_rng(SEED)
    board = bench(drop=1e-3)
    device = BoardDevice(TINY, Port(board.port, BAUD, PATIENCE))
    expected = np.zeros(1 << 14, np.uint8)
    done = []
    device.progress = lambda *of: done.append(of)
    for _ in range(12):
        start, size = int(rng.integers(0, 8000)), int(rng.integers(1, 2500))
        data = rng.integers(0, 256, size, np.uint8)
        device.write(start, data)
        expected[start : start + size] = data
        assert (device.read(start, size) == data).all()
        assert done[-1] == (size, size)
    assert (board.board.memory[: 1 << 14] == expected).all()
    for number in range(8):
        device.link.write_register(4 * number, 0x01010101 * number, dram=True)
    assert [device.link.read_register(4 * n, dram=True) for n in range(8)] == [0x01010101 * n for n in range(8)]
    device.set_exponents(3, -5, 7)
    assert device.exponents(3) == (-5, 7)
    device.close()
    counts = device.link.statistics
    assert counts.payload_bytes > 10_000 and counts.repeated > 0 < counts.lost_requests + counts.time_outs


def test_garbage_writes_nothing(bench):
    """Noise, torn and broken frames: only memory that whole requests name is written, and the next host is served."""
    rng = np.random.default_rng(SEED)
    board = bench()
    os.write(board.slave, frame(request(0, Kind.HELLO, 0, 0)))
    aimed = frame(request(1, Kind.WRITE_MEMORY, 64, 4096, bytes(range(64))))
    for _ in range(60):
        whole = bytearray(aimed)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            whole[place] ^= int(rng.integers(1, 256))
        torn = aimed[: int(rng.integers(len(aimed)))]
        noise = rng.integers(0, 256, int(rng.integers(40)), np.uint8).tobytes()
        os.write(board.slave, bytes(whole) + torn + noise)
    device = BoardDevice(TINY, Port(board.port, BAUD, PATIENCE))
    assert not board.board.memory.any()
    device.write(100, np.arange(50, dtype=np.uint8))
    assert (device.read(100, 50) == np.arange(50)).all()
    device.close()
    assert board.board.memory.sum() == np.arange(50).sum()


def test_what_can_be_wrong_with_a_board(bench, monkeypatch):
    board = bench()
    port = Port(board.port, BAUD, PATIENCE)

    def refused(says, config=TINY, port=port):
        with pytest.raises(LinkError, match=says):
            BoardDevice(config, port)

    other = replace(TINY, variant="low")
    refused(f"is of configuration {TINY.config_hash:08x}, not {other.config_hash:08x} .tiny, low.: load its", other)
    with monkeypatch.context() as patch:
        patch.setattr(link, "LINK_VERSION", 7)
        refused("the board speaks version 1 of the link's protocol, this host 7")

    device = BoardDevice(TINY, port)
    with pytest.raises(
        LinkError, match="a bus of the board refused an access, when it was asked for 8 bytes at 0x1000"
    ):
        device.read(1 << 20, 8)
    device.close()

    device = BoardDevice(TINY, port)  # which forgives
    board.lose_power()
    with pytest.raises(LinkError, match="the board was reset, or has lost its power"):
        device.read_register("STATUS")
    device.close()


def test_no_board_at_all(monkeypatch):
    monkeypatch.setattr(link, "LONGEST_PATIENCE", 0.1)
    master, slave = os.openpty()
    tty.setraw(slave)
    port = Port(os.ttyname(slave), BAUD, 0.02)
    with pytest.raises(
        LinkError, match=r"the board doesn't answer at all .another port, another baud rate, no bitstream"
    ):
        BoardDevice(TINY, port)
    wrong_rate = threading.Timer(0.3, lambda: os.write(master, b"~\x00\xf8~" * 20))  # behind what hello throws away
    wrong_rate.start()
    with pytest.raises(LinkError, match=r"80 bytes came, but no answer .another baud rate.. after 3 repetitions"):
        BoardDevice(TINY, Port(os.ttyname(slave), BAUD, 0.3))
    os.close(master)
    with pytest.raises(LinkError, match=r"the line to .* broke|can't open"):
        BoardDevice(TINY, port)
    os.close(slave)


@pytest.mark.parametrize(("options", "says"), [
    (("--device", "board"), "--device board needs --port"),
    (("--device", "golden", "--port", "/dev/x", "--baud", "9600"), "--port, --baud: of no effect with --device golden"),
    (("--device", "board", "--port", "/dev/no-such"), "can't open /dev/no-such at 3000000 baud: "),
    (("--device", "board", "--port", "/dev/null", "--baud", "0"), "baud = 0 must be at least 1"),
    (("--device", "board", "--port", "/dev/null", "--patience", "0"), "patience = 0.0 must satisfy 0.01 <= patience"),
])  # fmt: skip
def test_mistakes(adagp, tmp_path, options, says):
    code, _, err = adagp("train", *options, *OPTIONS, "-o", tmp_path)
    assert code in (1, 2) and says in err and err.count("\n") == 1
