"""``adagp train --devices``: the bits of one device, a killed process, runs that go on, and what is refused."""

import json
import os
import signal
import subprocess
import sys

import pytest
from adagp.host.pipelines import job
from adagp.host.pipelines.ranks import OneProcess
from adagp.host.pipelines.training import PipelineTrainer
from adagp.host.training.run_folder import RunFolder
from adagp.spec.phases import GP
from command_line import SMALL
from torch import distributed

pytestmark = pytest.mark.timeout(300)

RUN = ("--device", "golden", *SMALL, "--micro-batches", "4", "--checkpoint-every", "2")
SEVERAL = (*RUN, "--devices", "2")
SAME = ("epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "macs", "saturations")


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    """The folder of a run on one device with the same micro-batches."""
    from adagp.cli.main import main

    folder = tmp_path_factory.mktemp("runs") / "one"
    with pytest.raises(SystemExit) as ended:
        main(["train", "-o", str(folder), *RUN])
    assert ended.value.code == 0
    return RunFolder(folder)


def test_several_devices_in_one_process_have_the_bits_of_one(adagp, one_device, tmp_path):
    code, out, err = adagp("train", "-o", tmp_path / "run", *SEVERAL, "--one-process", "--pipeline", "gpipe")
    assert code == 0 and "gpipe on 2 devices, in one process" in err and "speed-up over one device" in out
    found = RunFolder(tmp_path / "run")
    assert found.summary["weights_hash"] == one_device.summary["weights_hash"]
    rows = zip(found.log, one_device.log, strict=True)
    assert all([mine[name] for name in SAME] == [its[name] for name in SAME] for mine, its in rows)
    told = found.summary["pipeline"]
    assert told["link_bytes_a_batch"] == sum(row["link_bytes"] for row in told["stages"]) > 0
    assert sum(row["share"] for row in told["stages"]) == pytest.approx(1)


def test_a_killed_process_is_told_and_the_run_goes_on_with_the_same_bits(adagp, one_device, tmp_path, monkeypatch):
    """Two processes with replicas: the second one is killed after a checkpoint within the first epoch."""
    several, checkpoint = (*SEVERAL, "--pipeline", "chimera"), PipelineTrainer.checkpoint

    def killing(trainer):
        checkpoint(trainer)
        trainer.team._others[0].send_signal(signal.SIGKILL)

    with monkeypatch.context() as patched:
        patched.setattr(PipelineTrainer, "checkpoint", killing)
        code, _, err = adagp("train", "-o", tmp_path / "run", *several)
    assert code == 1 and "rank 1 was killed by SIGKILL; the same command goes on from the last checkpoint" in err
    code, _, err = adagp("train", "-o", tmp_path / "run", *RUN)
    assert code == 2 and "is of a run with --devices 2, --pipeline chimera: give another --output" in err
    code, _, err = adagp("train", "-o", tmp_path / "run", *SEVERAL, "--pipeline", "gpipe", "--cut", "3.Conv2d")
    assert code == 2 and "is of a run with --pipeline chimera, no --cut: give another --output" in err
    code, _, err = adagp("train", "-o", tmp_path / "run", *several)
    assert code == 0 and "going on from epoch 1, batch 2" in err
    assert RunFolder(tmp_path / "run").summary["weights_hash"] == one_device.summary["weights_hash"]
    assert json.loads((tmp_path / "run" / "log.json").read_text())[-1]["devices"] == 2
    code, _, err = adagp("train", "-o", tmp_path / "run", *SEVERAL, "--pipeline", "gpipe")
    assert code == 2 and "is of a run with --pipeline chimera: give another --output" in err
    assert RunFolder(tmp_path / "run").finished


def test_predicted_gradients_have_the_bits_of_one_device_in_a_run_that_goes_on(adagp, tmp_path, monkeypatch):
    """Two processes with replicas: they stop between two GP batches, with the predictor in the checkpoint."""
    predicted = (*RUN, "--variant", "max", "--phases", "1:1")
    code, out, _ = adagp("train", "-o", tmp_path / "one", *predicted)
    assert code == 0 and "3 of warm-up, 1 of BP, 2 of GP" in out
    several, checkpoint = (*predicted, "--devices", "2", "--pipeline", "chimera"), PipelineTrainer.checkpoint

    def stopping(trainer):
        checkpoint(trainer)
        if trainer.progress.batches[GP]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(PipelineTrainer, "checkpoint", stopping)
        assert adagp("train", "-o", tmp_path / "run", *several)[0] == 130
    code, out, err = adagp("train", "-o", tmp_path / "run", *several)
    assert code == 0 and "going on from epoch 2, batch 2" in err and "3 of warm-up, 1 of BP, 2 of GP" in out
    one, found = (RunFolder(tmp_path / name) for name in ("one", "run"))
    assert found.summary["weights_hash"] == one.summary["weights_hash"]
    rows = zip(found.log, one.log, strict=True)
    assert all([mine[name] for name in SAME[:5]] == [its[name] for name in SAME[:5]] for mine, its in rows)


def test_stale_weights_and_a_hybrid_go_on_with_the_same_bits(adagp, tmp_path, monkeypatch):
    """One process stops in the epoch without stale weights; of two, one is killed in the epoch with them."""
    stale, write = (*SEVERAL, "--pipeline", "stale-1f1b", "--pipelined-epochs", "1"), PipelineTrainer.checkpoint

    def stopping(trainer):
        write(trainer)
        if isinstance(trainer.team, OneProcess):
            if trainer.progress.epoch and trainer.progress.step:
                raise KeyboardInterrupt
        else:
            trainer.team._others[0].send_signal(signal.SIGKILL)

    def run(name, *options):
        with monkeypatch.context() as patched:
            patched.setattr(PipelineTrainer, "checkpoint", stopping)
            stopped, _, told = adagp("train", "-o", tmp_path / name, *stale, *options)
        code, _, err = adagp("train", "-o", tmp_path / name, *stale, *options)
        assert code == 0 and "missed" in err and "without stale weights" in " ".join(err.split())
        return RunFolder(tmp_path / name).summary, stopped, told, err

    assert adagp("train", "-o", tmp_path / "whole", *stale, "--one-process")[0] == 0
    whole = RunFolder(tmp_path / "whole").summary["weights_hash"]
    one, stopped, _, err = run("one", "--one-process")
    assert stopped == 130 and "going on from epoch 2, batch 2" in err
    hybrid, stopped, told, err = run("run")
    assert stopped == 1 and "rank 1 was killed by SIGKILL; the same command goes on from the last checkpoint" in told
    assert "going on from epoch 1, batch 2" in err
    assert hybrid["weights_hash"] == one["weights_hash"] == whole
    assert [row["missed"] for row in hybrid["pipeline"]["stages"]] == [1, 0]


def test_processes_of_torchrun_have_the_bits_of_one_device(adagp, one_device, tmp_path, monkeypatch):
    """This process is rank 0, and the store is that of torchrun's agent."""
    store = distributed.TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False)
    told = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    for name, value in (told | {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "True"}).items():
        monkeypatch.setenv(name, value)
    command, elsewhere = ("train", *SEVERAL, "-o", tmp_path / "run"), os.environ | {"RANK": "1"}
    with subprocess.Popen([sys.executable, "-m", "adagp", *command], env=elsewhere, stderr=subprocess.PIPE) as other:
        code, _, err = adagp(*command)
        _, said = other.communicate(timeout=60)
    assert (code, other.returncode, said) == (0, 0, b"") and "in 2 processes of torchrun" in err
    assert RunFolder(tmp_path / "run").summary["weights_hash"] == one_device.summary["weights_hash"]


@pytest.mark.parametrize(("options", "told"), [
    (("--devices", "4", "--micro-batches", "4"), "torchrun has started 2 processes, and each has a device: give --dev"),
    ((), "--devices 1: torchrun has started 2 processes"),
    (("--devices", "2", "--micro-batches", "4", "--one-process"), "--one-process: torchrun has started a process for"),
])  # fmt: skip
def test_mistakes_with_torchrun_are_told(adagp, tmp_path, monkeypatch, options, told):
    for name, value in {"TORCHELASTIC_RUN_ID": "none", "RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    code, _, err = adagp("train", "-o", tmp_path / "run", "--device", "golden", *SMALL, *options)
    assert code == 2 and told in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(("options", "told"), [
    (("--devices", "3", "--micro-batches", "2"), "1f1b: micro_batches = 2 must be at least devices = 3"),
    (("--devices", "2", "--micro-batches", "3"), "micro_batches = 3 must divide batch = 8"),
    (("--devices", "6", "--micro-batches", "8"), "stages = 6 must satisfy 1 <= stages <= 5"),
    (("--devices", "2", "--micro-batches", "4", "--cut", "x"), "cut at 'x': a stage must begin with"),
    (("--devices", "2", "--variant", "max"), "micro_batches = 1 must be at least 2, since a GP batch"),
    (("--devices", "2", "--variant", "max", "--predictor-every", "2"), "one program of batches with true gradients"),
    (("--devices", "2", "--variant", "max", "--gp-momentum", "keep"), "and update momentum in all batches"),
    (("--devices", "2", "--variant", "max", "--gate", "0.5"), "no device sees the quality of all predictions"),
    (("--devices", "2", "--variant", "low", "--gradient-source", "skip"), "the source 'predicted' alone"),
    (("--devices", "2", "--dataflow", "ws"), "several devices take the dataflow 'free' alone"),
    (("--devices", "2", "--micro-batches", "4", "--pipeline", "stale-registers"), "(stale-paired has the same"),
    (("--devices", "2", "--micro-batches", "4", "--pipelined-epochs", "1"), "of no effect with the pipeline 1f1b"),
    (("--devices", "2", "--micro-batches", "4", "--pipeline", "stale-1f1b", "--variant", "max"), "the variant 'basel"),
    (("--devices", "3", "--micro-batches", "4", "--pipeline", "chimera"), "chimera: devices = 3 must be even"),
    (("--devices", "2", "--micro-batches", "4", "--compare"), "--compare needs the device sim"),
    (("--devices", "2", "--micro-batches", "4", "--link-latency", "-1"), "latency = -1.0 must be at least 0"),
    (("--cut", "5.Linear", "--one-process"), "--cut, --one-process: of no effect with --devices 1"),
])  # fmt: skip
def test_mistakes_are_told_in_a_line_before_a_device_is_made(adagp, tmp_path, monkeypatch, options, told):
    monkeypatch.setattr(job, "open_device", None)
    code, out, err = adagp("train", "-o", tmp_path / "run", "--device", "golden", *SMALL, *options)
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert (code, out, len(lines)) == (2, "", 1) and told in lines[0], err
    assert not (tmp_path / "run").exists()
