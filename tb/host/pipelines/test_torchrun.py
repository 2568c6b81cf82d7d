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


@pytest.mark.parametrize(("interface", "addresses", "told"), [
    ("", ["127.0.1.1"], "has 127.0.1.1, where others can't reach it: set GLOO_SOCKET_IFNAME"),
    ("", [], "has no address, where others"), ("", ["10.0.0.2"], ""), ("eth0", ["127.0.1.1"], ""),
])  # fmt: skip
def test_a_machine_that_others_cant_reach_is_told(monkeypatch, interface, addresses, told):
    """Without an address its name isn't known."""

    def known(name, port):
        if not addresses:
            raise OSError
        return [(None, None, None, "", (each, 0)) for each in addresses]

    monkeypatch.setattr(torchrun.socket, "getaddrinfo", known)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", interface)
    found = torchrun.unreachable()
    assert told in found and bool(told) == bool(found)


def test_a_process_is_refused_by_the_first_one(monkeypatch):
    """For an address that matters between machines alone, the first process' own too, and for other code."""
    monkeypatch.setattr(torchrun, "differences", lambda mine, theirs: theirs["sources"][len(mine["sources"]) :])
    here, there = ({"host": host, "unreachable": "", "sources": "x"} for host in ("a", "b"))
    lost = here | {"unreachable": "can't be reached"}
    assert torchrun.refusal([here, there]) == torchrun.refusal([lost, lost]) == ""
    assert torchrun.refusal([lost, there]) == "rank 0 of the pipeline can't be reached"
    assert torchrun.refusal([here, here | {"sources": "xhas others"}]) == "rank 1 of the pipeline has others"
