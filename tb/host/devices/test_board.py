"""Training over the host link of a simulated board, every bit on its line simulated, with a line that fails."""

import os
import threading
import tty
from dataclasses import replace

import numpy as np
import pytest
from adagp.host.devices import board as board_device
from adagp.host.devices import link
from adagp.host.devices.board import BoardDevice, Port
from adagp.host.devices.frames import frame, request
from adagp.host.devices.link import LinkError
from adagp.host.program import Program, header
from adagp.host.training.run_folder import RunFolder
from adagp.sim.board import Board, serve
from adagp.sim.line_noise import LineNoise
from adagp.spec.commands import Command, Opcode
from adagp.spec.link import Kind
from adagp.spec.presets import preset
from adagp.spec.registers import Status
from simulated_line import SimulatedLine

pytestmark = pytest.mark.timeout(900)  # a simulator may have to be built first

TINY = preset("tiny")
SEED = 5
BAUD = TINY.clock_hz // 4
PATIENCE = 0.002
"""Seconds of the board's time."""
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
MISHAPS = {"drop": 1.5e-4, "corrupt": 1.5e-4, "delay": 1.5e-4, "duplicate": 1.5e-4}
PORT = Port("simulated", BAUD, PATIENCE)


def a_board(variant="baseline"):
    return Board(replace(TINY, variant=variant), memory_bytes=1 << 20)


@pytest.fixture
def plug(monkeypatch):
    """Lets whoever opens a port find a board behind it; returns the line."""

    def plugged(board, cut_at=None, **chances):
        there, back = (LineNoise(**chances, seed=2 * SEED + side) for side in (0, 1))
        line = SimulatedLine(board, there, back, cut_at)
        monkeypatch.setattr(board_device, "Line", lambda _: line)
        return line

    return plugged


@pytest.fixture
def train(adagp, tmp_path):
    """Trains the small network; returns the exit code, the folder and what was said."""
    (tmp_path / "small.py").write_text(NETWORK)

    def run(device, *options, folder="run"):
        model = "--model", f"{tmp_path}/small.py:build"
        line = ("--port", "simulated", "--baud", BAUD, "--patience", PATIENCE) if device == "board" else ()
        code, out, said = adagp("train", "--device", device, *line, *OPTIONS, *model, "-o", tmp_path / folder, *options)
        return code, RunFolder(tmp_path / folder), out + said

    return run


@pytest.mark.parametrize(
    "options", [pytest.param((), id="baseline"), pytest.param(PREDICTED, id="max", marks=pytest.mark.slow)]
)
def test_trains_like_golden(plug, train, options):
    """The same weights to the bit, whatever happens to bytes in either direction."""
    code, golden, _ = train("golden", *options, folder="golden")
    assert code == 0
    line = plug(a_board("max" if options else "baseline"), **MISHAPS)
    code, run, said = train("board", *options)
    assert code == 0, said
    assert run.summary["weights_hash"] == golden.summary["weights_hash"]
    counts = run.summary["link"]
    print(counts, line.there.counts, line.back.counts)
    assert counts["payload_bytes"] > 5000 and counts["requests"] > 300
    assert f"{counts['requests']:,} requests" in said
    assert (
        min(there + back for there, back in zip(line.there.counts.values(), line.back.counts.values(), strict=True)) > 0
    )
    assert counts["repeated"] > 3 and counts["bad_frames"] > 0 and counts["time_outs"] > 0


def test_the_same_command_twice(plug, train):
    """A second host that trains on the board after the first ends with the same weights and numbers of batches."""
    code, golden, _ = train("golden", *PREDICTED, folder="golden")
    assert code == 0
    board = a_board("max")
    for folder in ("first", "second"):
        plug(board)
        code, run, said = train("board", *PREDICTED, folder=folder)
        assert code == 0, said
        for name in ("weights_hash", "batches_warmup", "batches_bp", "batches_gp"):
            assert run.summary[name] == golden.summary[name], name
    assert golden.summary["batches_gp"] > 0


def test_through_a_terminal(train):
    """The same over a pseudo-terminal, by pyserial and the wall's clock, with bytes lost, changed and late."""
    code, golden, _ = train("golden", folder="golden")
    assert code == 0
    master, slave = os.openpty()
    tty.setraw(slave)
    ended = threading.Event()
    board = a_board()
    there, back = (LineNoise(drop=2.5e-4, corrupt=2.5e-4, delay=2.5e-4, seed=SEED + side) for side in (0, 1))
    thread = threading.Thread(target=serve, args=(board, master, ended.is_set, there, back), daemon=True)
    thread.start()
    code, run, said = train("board", "--port", os.ttyname(slave), "--patience", 1)
    ended.set()
    thread.join()
    assert code == 0, said
    counts = run.summary["link"]
    print(counts, there.counts, back.counts)
    assert run.summary["weights_hash"] == golden.summary["weights_hash"] and counts["bytes_sent"] > 5000
    assert all(side.counts[name] > 0 for side in (there, back) for name in ("drop", "corrupt", "delay"))
    assert counts["repeated"] > 0 and counts["bad_frames"] > 0
    os.close(master)
    os.close(slave)


def test_a_line_that_is_cut(plug, train):
    """One clear line at the end; the same command goes on at a new line, though the board was left in a batch."""
    code, golden, _ = train("golden", folder="golden")
    assert code == 0
    board = a_board()
    plug(board, cut_at=15_000)  # by then there is a checkpoint
    code, run, said = train("board")
    assert code == 1 and not run.finished and run.has_checkpoint(), said
    assert "the board doesn't answer any more after 8 repetitions; it was asked" in said
    assert "the same command goes on from the last checkpoint" in said
    plug(board)
    code, run, said = train("board")
    assert code == 0 and "going on from epoch" in said, said
    assert run.summary["weights_hash"] == golden.summary["weights_hash"]


def test_a_board_left_in_a_batch(plug):
    """A new connection stops what the one before has left, and finds an accelerator at rest."""
    board = a_board()
    plug(board)
    first = BoardDevice(TINY, PORT)
    program = Program()
    for command in (header(TINY), Command(Opcode.HOST, {"phase_mask": 0xF}), Command(Opcode.END, {"phase_mask": 0xF})):
        program.append(command)
    first.write(program.address, program.words())
    first.start(program, 0)
    assert first.wait() & Status.HOST
    first.close()
    plug(board)
    second = BoardDevice(TINY, PORT)
    assert not second.read_register("STATUS") & (Status.BUSY | Status.HOST | Status.ERROR)


def test_memory_and_registers(plug):
    """Any address and length, both register buses; statistics add up."""
    rng = np.random.default_rng(SEED)
    board = a_board()
    plug(board, drop=4e-4)
    device = BoardDevice(TINY, PORT)
    expected = np.zeros(1 << 14, np.uint8)
    done = []
    device.progress = lambda *of: done.append(of)
    for _ in range(6):
        start, size = int(rng.integers(0, 8000)), int(rng.integers(1, 2500))
        data = rng.integers(0, 256, size, np.uint8)
        device.write(start, data)
        expected[start : start + size] = data
        assert (device.read(start, size) == data).all()
        assert done[-1] == (size, size)
    assert (board.memory[: 1 << 14] == expected).all()
    for number in range(8):
        device.link.write_register(4 * number, 0x01010101 * number, dram=True)
    assert [device.link.read_register(4 * n, dram=True) for n in range(8)] == [0x01010101 * n for n in range(8)]
    device.set_exponents(3, -5, 7)
    assert device.exponents(3) == (-5, 7)
    device.close()
    counts = device.link.statistics
    assert counts.payload_bytes == sum(size for size, total in done if size == total)
    assert counts.repeated > 0 < counts.lost_requests + counts.time_outs


def test_garbage_writes_nothing(plug):
    """Noise, torn and broken frames: only memory that whole requests name is written, and the next host is served."""
    rng = np.random.default_rng(SEED)
    board = a_board()
    board.exchange(frame(request(0, Kind.HELLO, 0, 0)))
    aimed = frame(request(1, Kind.WRITE_MEMORY, 64, 4096, bytes(range(64))))
    for _ in range(40):
        whole = bytearray(aimed)
        for place in rng.integers(1, len(whole) - 1, rng.integers(1, 4)):
            whole[place] ^= int(rng.integers(1, 256))
        torn = aimed[: int(rng.integers(len(aimed) - 1))]
        noise = rng.integers(0, 256, int(rng.integers(40)), np.uint8).tobytes()
        board.exchange(bytes(whole) * (bytes(whole) != aimed) + torn + noise)
    while board.waiting:
        board.exchange([])
    plug(board)
    device = BoardDevice(TINY, PORT)
    assert not board.memory.any()
    device.write(100, np.arange(50, dtype=np.uint8))
    assert (device.read(100, 50) == np.arange(50)).all()
    assert board.memory.sum() == np.arange(50).sum()
    plug(board)
    BoardDevice(TINY, PORT).link.finish()
    sent = frame(request(0, Kind.HELLO, 0, 0)) + aimed
    board.exchange(sent)  # the same request, whole: it is what the noise was made of
    board.exchange([], 40 * len(sent) + 4000)
    assert (board.memory[4096 : 4096 + 64] == np.arange(64)).all()


def test_what_can_be_wrong_with_a_board(plug, monkeypatch):
    board = a_board()
    line = plug(board)

    def refused(says, config=TINY):
        with pytest.raises(LinkError, match=says):
            BoardDevice(config, PORT)

    other = replace(TINY, acc_depth=512)
    refused(
        f"is of configuration {TINY.config_hash:08x}, not {other.config_hash:08x} .tiny.: load its bitstream", other
    )
    refused("simulated does not predict gradients, unlike variant low: choose the one", replace(TINY, variant="low"))
    with monkeypatch.context() as patch:
        patch.setattr(link, "LINK_VERSION", 7)
        refused("the board speaks version 1 of the link's protocol, this host 7")

    plug(a_board("max"))
    refused("simulated predicts gradients, unlike variant baseline")
    refused("simulated has a predictor on chip, unlike variant low", replace(TINY, variant="low"))
    line = plug(board)

    device = BoardDevice(TINY, PORT)
    with pytest.raises(LinkError, match="a bus of the board refused an access, when it was asked for 8 bytes at 0x100"):
        device.read(1 << 20, 8)
    device = BoardDevice(TINY, PORT)  # which forgives
    line.board = a_board()
    with pytest.raises(LinkError, match="the board was reset, or has lost its power"):
        device.read_register("STATUS")


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
    (("--device", "board", "--port", "/dev/null", "--patience", "0"), "patience = 0.0 must satisfy 0.001 <= patience"),
])  # fmt: skip
def test_mistakes(adagp, tmp_path, options, says):
    code, _, err = adagp("train", *options, *OPTIONS, "-o", tmp_path)
    assert code in (1, 2) and says in err and err.count("\n") == 1
