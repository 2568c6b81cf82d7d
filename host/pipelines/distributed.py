"""Pipelines of several processes, each with an accelerator: torch.distributed.pipelining runs the schedules.

The processes may be on several machines, as ``torchrun`` starts them. Torch's stages pass values and gradients on, and
its runtime takes the steps of our lists. Time is that of the devices: a message carries the cycle at which it was sent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import distributed, nn

from ...spec.config import Config
from ...spec.phases import GP, WARMUP
from ..compiler.values import Input
from ..devices.device import Device
from .relay import Relay
from .rounds import Rounds
from .stage_weights import united
from .staged_network import Pipelined, Ran
from .steps import PipelineError, Step, What
from .worker import Loss, Message

try:
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import (
        BACKWARD_INPUT,
        BACKWARD_WEIGHT,
        FORWARD,
        FULL_BACKWARD,
        REDUCE_GRAD,
        _Action,
        _PipelineScheduleRuntime,
    )

    if "input_grads" not in signature(PipelineStage).parameters:
        raise ImportError("PipelineStage has no parameter 'input_grads'")
except ImportError as error:  # some are private names, and older versions lack them
    raise PipelineError(
        f"pipelines of several processes need torch >= 2.12, this is torch {torch.__version__}: {error}"
    ) from error

__all__ = ["RankNetwork", "gathered"]

_ACTIONS = {
    What.FORWARD: FORWARD, What.BACKWARD: FULL_BACKWARD, What.BACKWARD_INPUT: BACKWARD_INPUT,
    What.BACKWARD_WEIGHT: BACKWARD_WEIGHT, What.UPDATE: REDUCE_GRAD,
}  # fmt: skip
_FAILED = "adagp/failed"
"""The key of the processes' store under which the first one that fails says why."""


class RankNetwork(Pipelined):
    """A process' part of a network on as many accelerators as there are processes.

    ``torch.distributed`` is initialised, with gloo; the process' rank is the device's place in the schedule. The other
    parameters are those of :class:`~adagp.host.pipelines.staged_network.Pipelined`. All processes make one and call
    each method, with the same arguments. If one fails there, all raise PipelineError with the first one's reason.

    A process that ends or is killed closes its connections: the others raise in the call that they wait in, or in
    their next one. One that stops without a word, as a machine without power does, is noticed after the ``timeout``
    of ``init_process_group``. That should be longer than a device takes for a batch; torch's own is 30 minutes.
    After a failure in :meth:`train`, or one of the connections, the processes' group has been destroyed.

    A message's time is that of the whole vector which goes to the neighbouring stage, so the latency counts even if
    no tensor is in it, and a tensor that is passed on counts on each link. StagedNetwork sends each tensor at once to
    the device that reads it. So ``cycles`` and ``sent_bytes`` may differ between the two; bits don't.
    """

    free: float
    _rounds: Rounds
    _runs: list[_PipelineScheduleRuntime]

    def __init__(
        self, module, inputs: Sequence[int] | Sequence[Input], batch: int, config: Config, device: Device,
        schedule: str = "1f1b", micro_batches: int = 4, **options: Any,
    ):  # fmt: skip
        self.rank, size = distributed.get_rank(), distributed.get_world_size()
        make = partial(
            super().__init__, module, inputs, batch, config, {self.rank: device}, size, schedule, micro_batches,
            **options,
        )  # fmt: skip
        made = gathered(self.rank, lambda: self._made(make))
        for rank, theirs in enumerate(made):
            if theirs != made[self.rank]:
                raise PipelineError(f"rank {rank} has another network, schedule or configuration than rank {self.rank}")

    @property
    def clock(self) -> float:
        return self.free

    def load_state(self, state: Mapping, seed: int = 0) -> None:
        """Install the network, as :class:`~adagp.host.pipelines.staged_network.Pipelined` does."""
        gathered(self.rank, partial(super().load_state, state, seed))

    def set_hyper(self, learning_rate: float, momentum: float, weight_decay: float) -> None:
        """Set the parameters of SGD for the batches from now on."""
        gathered(self.rank, partial(super().set_hyper, learning_rate, momentum, weight_decay))

    def set_adam(self, learning_rate: float) -> None:
        """Set the parameters of the predictor's Adam for the batches from now on."""
        gathered(self.rank, partial(super().set_adam, learning_rate))

    def train(
        self, x: np.ndarray, loss: Loss, *, calibrate: bool = False, phase: int = WARMUP, follows: bool = False,
        alone: bool = False,
    ) -> None:  # fmt: skip
        """Train a batch, as :class:`~adagp.host.pipelines.staged_network.StagedNetwork` does."""
        try:
            self._begin(x, loss, calibrate, phase, alone)
            self.free = self.free if follows else 0.0
            self.kept, self.shared, self.calibrates = dict[tuple[str, int], Message](), dict[str, int](), calibrate
            if phase == GP or not self._runs:
                self._rounds.batch()
            else:
                run = self._runs[0 if calibrate else 1]
                run.step(target=torch.zeros(run._n_microbatches), return_outputs=False)
            if self.staged.gp and phase != GP:
                self._rounds.learn()
            if self.staged.schedule.replicas > 1:
                self._rounds.agree_as_replicas()
        except Exception as error:
            raise PipelineError(_reason(self.rank, error)) from error

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The weights and running statistics of all stages as a torch state dict (float64), by the module's names."""
        return self._merged(united(gathered(self.rank, self._states)))

    def weights_hash(self) -> str:
        """SHA-256 as one device has it; equal after equal training."""
        return self._hash(united(gathered(self.rank, self._bits), alike=True))

    def _made(self, make: Callable[[], None]) -> list[int | str]:
        """Cut the network, and get torch's runtime ready; returns the hashes that all processes must share."""
        make()
        self.worker, self.relay, self.free = self.workers[0], Relay(self.staged), 0.0
        self._rounds, self._runs = Rounds(self), []
        devices, count = self.staged.devices, self.staged.schedule.micro_batches
        if self.staged.schedule.replicas == 1 and not self.staged.schedule.eager:
            self._runs = [
                self._schedule([each.calibrating_steps for each in devices], 1),
                self._schedule([each.steps for each in devices], count),
            ]
        programs = [
            each.digest for one in devices for each in (one.program, one.calibrating, one.gp, one.alone) if each
        ]
        return [self.staged.config.config_hash, *programs]

    def _schedule(self, lists: Sequence[Sequence[Step]], micro_batches: int) -> _PipelineScheduleRuntime:
        """Torch's runtime with the steps of our lists; raises PipelineError if it would take them in another order.

        The predictor's steps, which end the lists, aren't among them.
        """
        lists = [[step for step in steps if step.what in _ACTIONS] for steps in lists]
        stages: list[Any] = [_Stage(self, stage) for stage in sorted({step.stage for step in lists[self.rank]})]
        made = _PipelineScheduleRuntime(stages, micro_batches, loss_fn=_no_loss, scale_grads=False)
        actions: dict[int, list[_Action | None]] = {
            rank: [_action(step) for step in steps if step.what is not What.UPDATE] for rank, steps in enumerate(lists)
        }
        made._prepare_schedule_with_comms(actions)
        taken = [each for each in made.pipeline_order_with_comms[self.rank]
                 if each.computation_type in _ACTIONS.values()]  # fmt: skip
        if taken != [_action(step) for step in lists[self.rank]]:
            raise PipelineError(f"{self.staged.schedule.name}: torch's runtime takes the steps in another order")
        return made

    def run(self, what: What, stage: int, micro_batch: int | None, vector: torch.Tensor | None) -> torch.Tensor:
        """Run a step with the vector that came for it; returns the one that goes to the neighbour."""
        step, backward, worker = self.worker.next, what is not What.FORWARD, self.worker
        if step is None or (step.what, step.stage, step.micro_batch) != (what, stage, micro_batch):
            raise PipelineError(f"device {self.rank} of the pipeline is at {step}, not at {what} of stage {stage}")
        begin = self.free
        if vector is not None and micro_batch is not None:
            sender = stage + 1 if backward else stage - 1
            found, time, shared = self.relay.unpacked(sender, backward, micro_batch, vector)
            self.kept |= found
            if self.calibrates:
                worker.share(shared)
                self.shared |= shared
            begin = max(begin, time + self.link.cycles(self.relay.n_bytes(sender, backward)))
        for need in worker.needs:
            worker.take(replace(self.kept[need], reader=stage))
        sent, cycles = worker.run()
        if self.calibrates and what is What.FORWARD:
            self.shared |= worker.shared
        self.kept |= {(message.tensor, message.micro_batch): message for message in sent}
        self.free = begin + cycles
        self.ran.append(Ran(self.rank, step, begin, self.free))
        if micro_batch is None or what in (What.BACKWARD_WEIGHT, What.UPDATE):
            return torch.zeros(1, dtype=torch.float64)
        self.sent_bytes += self.relay.n_bytes(stage, backward)
        return self.relay.packed(stage, backward, micro_batch, self.kept, self.free, self.shared)


class _Stage(PipelineStage):
    """A stage whose steps run on the accelerator; torch only passes the vectors on."""

    def __init__(self, network: RankNetwork, stage: int):
        def vector(of: int, backward: bool) -> torch.Tensor:
            inside = 0 <= of < network.staged.schedule.stages
            return torch.zeros(network.relay.length(of, backward) if inside else 1, dtype=torch.float64)

        super().__init__(
            nn.Identity(), stage, network.staged.schedule.stages, torch.device("cpu"),
            input_args=vector(stage - 1, False), output_args=vector(stage, False),
            input_grads=vector(stage, True), output_grads=vector(stage + 1, True),
        )  # fmt: skip
        self._network = network

    def forward_one_chunk(self, fwd_chunk_id, args, kwargs=None, save_forward_output=True):
        came = None if self.is_first else self.args_recv_info[fwd_chunk_id][0].buffer
        sent = self._network.run(What.FORWARD, self.stage_index, fwd_chunk_id, came)
        self.fwd_cache[fwd_chunk_id] = ((sent,), [])
        return sent

    def backward_one_chunk(self, bwd_chunk_id, loss=None, full_backward=True, last_backward=False):
        came = None if self.is_last else self.grad_recv_info[bwd_chunk_id][0].buffer
        what = What.BACKWARD if full_backward else What.BACKWARD_INPUT
        self.fwd_cache.pop(bwd_chunk_id)
        self.bwd_cache[bwd_chunk_id] = (self._network.run(what, self.stage_index, bwd_chunk_id, came),)

    def backward_weight_one_chunk(self, bwd_chunk_id, last_backward=False):
        self._network.run(What.BACKWARD_WEIGHT, self.stage_index, bwd_chunk_id, None)

    def perform_reduce_grad(self, grad_scale_factor):
        self._network.run(What.UPDATE, self.stage_index, None, None)


def _action(step: Step) -> _Action:
    return _Action(step.stage, _ACTIONS[step.what], step.micro_batch)


def _no_loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The device's stop has the loss; torch wants one of its own."""
    return torch.zeros(())


def gathered(rank: int, mine: Callable[[], Any]) -> list[Any]:
    """The processes' results of ``mine``, in the order of ranks; all raise PipelineError if one of them fails."""
    part, failure = None, None
    try:
        part = mine()
    except Exception as error:
        failure = error
    try:
        found: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(found, (part, failure and _told(rank, failure)))
    except Exception as error:
        raise PipelineError(_reason(rank, failure or error)) from error
    for _, told in found:
        if told:
            raise PipelineError(told) from failure
    return [part for part, _ in found]


def _told(rank: int, error: Exception) -> str:
    return f"rank {rank}: {next(iter(str(error).splitlines()), type(error).__name__)}"


def _reason(rank: int, error: Exception) -> str:
    """The reason why the run ends: this process' failure, unless another one has failed before."""
    mine = _told(rank, error)
    try:
        store = distributed.distributed_c10d._get_default_store()
        first = store.compare_set(_FAILED, "", mine).decode() or mine
    except (RuntimeError, ValueError):  # the process with the store is gone
        first = mine
    if distributed.is_initialized():
        distributed.destroy_process_group()  # its connections close, so nobody waits for this process
    return f"the pipeline has ended: {first}"
