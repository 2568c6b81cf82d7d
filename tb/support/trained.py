"""Short trainings, also in processes of their own, which must find this module by its name."""

import os
import sys

import torch
from adagp import AdaGP, schedule
from torch import distributed, nn
from torch.nn import functional as F
from torch_networks import conv_network, image_batches, weights_of

MIXED = schedule(1, (1, 2, 1), (1, 1, 1))


def train(ada, network, batches, start=0, stop=None, rates=None):
    """Epochs of four batches, without regard to where ``batches`` begins."""
    for number, (x, y) in enumerate(batches[start:stop], start):
        ada.step(lambda x=x, y=y: F.cross_entropy(network(x), y))
        if rates:
            rates.step()
        if number % 4 == 3:
            ada.end_epoch()


def process(rank: int, size: int, path: str) -> None:
    """One of ``size`` processes that train side by side, each with its share of every batch; leaves its weights."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"  # whatever the machine is called
    distributed.init_process_group("gloo", init_method=f"file://{path}/store", rank=rank, world_size=size)
    torch.set_num_threads(1)
    network = without_statistics()
    parallel = nn.parallel.DistributedDataParallel(network)
    ada = AdaGP(parallel, torch.optim.SGD(network.parameters(), 0.05, momentum=0.9), MIXED)
    shares = [(x.chunk(size)[rank], y.chunk(size)[rank]) for x, y in image_batches(12)]
    train(ada, parallel, shares)
    torch.save((weights_of(network), weights_of(ada.predictor)), f"{path}/{rank}.pt")
    distributed.barrier()  # one that ends while the other still talks to it can end it with a signal
    distributed.destroy_process_group()


def without_statistics():
    """A network that is the same whoever sees which images."""
    network = conv_network()
    network[1] = nn.Identity()  # whose statistics would be of each process' images alone
    return network
