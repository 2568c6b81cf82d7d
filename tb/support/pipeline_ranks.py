"""Processes of a pipeline, which must find this module by its name; each leaves what it has seen as a file."""

import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
from adagp.host.devices.golden import GoldenDevice
from adagp.host.pipelines.distributed import RankNetwork
from adagp.host.pipelines.staged_network import Link
from adagp.host.pipelines.steps import PipelineError
from pipelined import (
    BATCH,
    IMAGE,
    KINDS,
    MEMORY,
    MICRO_BATCHES,
    PARTS,
    SWITCHED,
    batches,
    loss_of,
    made,
    several_devices,
    source_of,
)
from torch import distributed

__all__ = ["LIMIT", "process"]

LIMIT = 60
"""Seconds until gloo gives up."""


class Timed(GoldenDevice):
    """A device whose steps all take the same time."""

    cycles = 0

    def wait(self):
        self.cycles += 100
        return super().wait()

    def counters(self, phase):
        return {**super().counters(phase), "cycles": self.cycles}


class Dying(GoldenDevice):
    """A device that fails in its second batch."""

    waits = 0

    def wait(self):
        self.waits += 1
        if self.waits > 8:
            self.die()
        return super().wait()

    def die(self):
        raise RuntimeError("the device has lost its power")


class Killed(Dying):
    """A device whose process is killed there."""

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)


def process(rank: int, size: int, path: str, runs: list[tuple[str, str]]) -> None:
    """A process of ``size``: trains by each schedule and kind of network, then meets a different one and failures.

    The last process is killed at the end.
    """
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"  # whatever the machine is called
    torch.set_num_threads(1)
    joined(rank, size, f"{path}/store")
    seen: dict = {}
    for kind, schedule in runs:
        pipeline = ranked(kind, schedule, Timed(KINDS[kind][1], MEMORY))
        trained = list(several_devices(pipeline, made(kind).state_dict(), kind))
        hashes = [weights for weights, _ in trained]
        torch.save(trained[-1][1], Path(path, f"{rank} {kind} {schedule}.pt"))
        steps = [[str(ran.step), ran.begin, ran.end] for ran in pipeline.ran]
        seen[f"{kind} {schedule}"] = {"hashes": hashes, "steps": steps, "bytes": pipeline.sent_bytes}
    try:
        cut = ["5.Conv2d" if rank else "2.Conv2d", "8.Linear"]
        ranked("plain", "1f1b", GoldenDevice(KINDS["plain"][1], MEMORY), cut=cut)
    except PipelineError as error:
        seen["different"] = str(error)
    begin = time.monotonic()
    try:
        ranked("plain", "1f1b", GoldenDevice(SWITCHED if rank == 1 else KINDS["plain"][1], MEMORY))
    except PipelineError as error:
        seen["refused"] = str(error), time.monotonic() - begin
    try:
        failing(GoldenDevice(KINDS["plain"][1], MEMORY if rank != 1 else 1 << 13))
    except PipelineError as error:
        seen["small"] = str(error)
    try:
        failing((Dying if rank == 1 else GoldenDevice)(KINDS["plain"][1], MEMORY))
    except PipelineError as error:
        seen["failure"] = str(error)
    Path(path, f"{rank}.json").write_text(json.dumps(seen))
    joined(rank, size, f"{path}/other store")
    begin = time.monotonic()
    try:
        failing((Killed if rank == size - 1 else GoldenDevice)(KINDS["plain"][1], MEMORY))
    except PipelineError as error:
        seen["killed"] = str(error), time.monotonic() - begin
    Path(path, f"{rank}.json").write_text(json.dumps(seen))


def joined(rank: int, size: int, store: str) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=timedelta(seconds=LIMIT)
    )


def failing(device) -> None:
    """Train on a device of which another process' fails."""
    pipeline = ranked("plain", "1f1b", device)
    pipeline.load_state(made("plain").state_dict())
    pipeline.set_hyper(0.05, 0.9, 0.002)
    for calibrate, images, labels in batches():
        pipeline.train(images, loss_of(labels), calibrate=calibrate)


def ranked(kind, schedule, device, **options):
    """A process' part of a network."""
    options = {"chunks": PARTS, "source": source_of(kind), "link": Link(latency=30, bytes_per_cycle=4), **options}
    return RankNetwork(made(kind), IMAGE, BATCH, KINDS[kind][1], device, schedule, MICRO_BATCHES, **options)
