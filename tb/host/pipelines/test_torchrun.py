"""Processes of torchrun's: differences between them, and the reason why all end."""

import atexit
import json
from dataclasses import replace

import pytest
from adagp.host.pipelines import torchrun
from adagp.host.pipelines.plan import Plan
from adagp.host.pipelines.torchrun import Meeting, differences, introduction
from adagp.host.training.settings import TrainSettings
from torch import distributed

SETTINGS, PLAN = TrainSettings(preset="tiny", batch=8, micro_batches=4, data_dir="here"), Plan(2, cut=("3.Conv2d",))


@pytest.mark.parametrize(("settings", "plan", "device", "told"), [
    ({"data_dir": "there"}, {}, "golden", ""),
    ({"batch": 16, "seed": 3}, {}, "golden", "has batch = 16, not 8, seed = 3, not 0"),
    ({}, {"latency": 5.0}, "sim", "has latency = 5.0, not 0.0, device = 'sim', not 'golden'"),
])  # fmt: skip
def test_what_differs_is_named(monkeypatch, settings, plan, device, told):
    monkeypatch.setattr(torchrun, "pipeline_sources", lambda: "mine")  # which takes a second
    others = introduction(replace(SETTINGS, **settings), replace(PLAN, **plan), device)
    mine, theirs = (json.loads(json.dumps(each)) for each in (introduction(SETTINGS, PLAN, "golden"), others))
    assert differences(mine, theirs) == told
    assert differences(mine, theirs | {"sources": "others"}) == "has other code of adagp than rank 0"


def test_a_process_that_says_nothing_is_the_reason(monkeypatch):
    monkeypatch.setattr(atexit, "register", lambda end: None)  # which would end the tests
    monkeypatch.setattr(torchrun, "_GRACE", 0.1)
    store = distributed.HashStore()
    first, second = (Meeting(store, rank, 3) for rank in (0, 2))
    told = first.why("a connection is closed")
    assert told == "the pipeline has ended: rank 1 was killed, or has ended without a word"
    Meeting(store, 1, 3).why("the reason")
    assert second.ended(1) and second.why("a connection is closed") == "a connection is closed"


@pytest.mark.parametrize(("local", "interface", "addresses", "told"), [
    ("1", "", ["127.0.1.1"], "has 127.0.1.1, where others can't reach it: set GLOO_SOCKET_IFNAME"),
    ("1", "", [], "has no address, where others"), ("1", "", ["10.0.0.2"], ""), ("1", "eth0", ["127.0.1.1"], ""),
    ("2", "", ["127.0.1.1"], ""),
])  # fmt: skip
def test_a_machine_that_others_cant_reach_is_told(monkeypatch, local, interface, addresses, told):
    """The second process is on another machine; without an address its name isn't known."""

    def known(name, port):
        if not addresses:
            raise OSError
        return [(None, None, None, "", (each, 0)) for each in addresses]

    monkeypatch.setattr(torchrun.socket, "getaddrinfo", known)
    for variable, value in {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": local, "GLOO_SOCKET_IFNAME": interface}.items():
        monkeypatch.setenv(variable, value)
    found = torchrun.unreachable()
    assert told in found and bool(told) == bool(found)
