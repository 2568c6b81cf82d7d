"""Refusals of networks and optimizers that the library can't train, each with its reason."""

import torch
from torch import distributed, nn
from torch.nn.parameter import is_lazy

__all__ = ["COMPILED", "check_supported", "refused", "unwrapped"]

_SHARDED = ("FullyShardedDataParallel", "FSDPModule")
COMPILED = (
    "a compiled network (torch.compile): outputs of layers inside a compiled graph can't be seen; give the network as "
    "it was before, and run that"
)


def unwrapped(network: nn.Module) -> nn.Module:
    """The network itself, taken out of DistributedDataParallel."""
    return network.module if isinstance(network, nn.parallel.DistributedDataParallel) else network


def _compiled(network):
    return any(
        hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
        for module in network.modules()
    )


def _is_one_of_several(network):
    several = distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
    return several and not isinstance(network, nn.parallel.DistributedDataParallel)


def refused(reason: str) -> TypeError:
    """Error that says why something can't be trained."""
    return TypeError(f"ADA-GP can't train {reason}")


def check_supported(network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Raise TypeError, with the reason, for what can't be trained with predicted gradients."""
    if not isinstance(network, nn.Module):
        raise TypeError(f"network is of type {type(network).__name__}, and must be an nn.Module")
    reasons = {
        COMPILED: _compiled(network),
        "a scripted network (torch.jit): what it computes inside can't be seen; give the module that it was made from":
            any(isinstance(module, torch.jit.ScriptModule) for module in network.modules()),
        "nn.DataParallel: its copies of the network live for one batch; use DistributedDataParallel":
            isinstance(network, nn.DataParallel),
        "a sharded network (FSDP): no process has a whole weight to update; use DistributedDataParallel":
            any(cls.__name__ in _SHARDED for module in network.modules() for cls in type(module).__mro__),
        "a network of several processes without what joins them: each would predict from outputs of its own, and "
        "weights would drift apart; give the DistributedDataParallel":
            _is_one_of_several(network),
        "a network with lazy modules: the predictor is sized by its weights; run one batch through it first":
            any(is_lazy(parameter) for parameter in network.parameters()),
        "with several optimizers: a batch is one step of one; give it groups of parameters":
            isinstance(optimizer, list | tuple | dict),
        "SparseAdam: predicted gradients are dense":
            isinstance(optimizer, torch.optim.SparseAdam),
        "LBFGS: it wants several backward passes a batch, and has one state for all weights":
            isinstance(optimizer, torch.optim.LBFGS),
    }  # fmt: skip
    for reason, applies in reasons.items():
        if applies:
            raise refused(reason)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer is of type {type(optimizer).__name__}, and must be a torch.optim.Optimizer")
