"""Jobs: the queues of commands, their waits, and the accounts of commands given and completed.

Issue is proved with the queues of each kind of machine: without a predictor, with the predictor's commands among the
main core's, and with a queue of their own.
"""

from dataclasses import replace

from adagp.rtl.control.command_check import is_update
from adagp.rtl.control.dispatch import COUNT_WIDTH, Dispatch, WaitLayout
from adagp.rtl.control.issue import MAIN_DEPTH, UPDATE_DEPTH, Issue
from adagp.rtl.lib.pair_queue import PairQueue
from amaranth import Cat

from .registry import CONFIG, job
from .rules import bind_streams, fifo_rule, pair_rule

__all__ = []

KINDS = tuple(WaitLayout.members)
MACHINES = {"issue": CONFIG, "issue_low": replace(CONFIG, variant="low"), "issue_max": replace(CONFIG, variant="max")}


def _queue_rule(h, name, dispatch, queue):
    """A queue's offer has waited long enough, and stays at its front until it is taken."""
    fifo_rule(h, name, queue, by_stream=True)
    path, wait = f"{name[: -len('queue')]}payloads", WaitLayout(queue.r_data)
    payloads = h.block(path)
    h.prove(f"{name}: as many payloads", payloads.level == queue.level)
    h.prove(f"{name}: the payload of what is offered is there", ~dispatch.o.valid | payloads.r_rdy)
    if isinstance(payloads, PairQueue):
        pair_rule(h, path)
        h.prove(f"{name}: the payload of what is offered doesn't move", ~(dispatch.o.valid & h.signal(f"{path}.moves")))
    else:
        h.prove(f"{name}: payloads move with it", payloads.r_rdy == queue.r_rdy)
    waited = Cat(dispatch.completed[kind] >= wait[kind] for kind in KINDS).all()
    h.prove(f"{name}: what is offered may go", ~dispatch.o.valid | (queue.r_rdy & waited))


@job("dispatch_small", lambda: Dispatch(8, MAIN_DEPTH))
@job("dispatch", lambda: Dispatch(8, UPDATE_DEPTH))
def _dispatch(h):
    bind_streams(h)
    queue = h.block("queue")
    _queue_rule(h, "queue", h.dut, queue)
    there, taken = queue.r_rdy & h.block("payloads").r_rdy, h.signal("taken")
    h.prove("what was taken leaves the queues", ~taken | (there & ~h.dut.o.valid))
    for which in KINDS:
        wait, short = WaitLayout(queue.r_data)[which], h.dut.completed[which] == 0
        h.cover(f"wait.{which}: waited for", h.before(h.before(queue.r_rdy & short)) & h.dut.o.valid & (wait == 1))
        now = h.dut.completed[which]
        h.assume(f"completed.{which}: only grows while something is queued",
                 ~h.before(queue.level != 0) | (now >= h.before(now)))  # fmt: skip


def _flow(h, name):
    """A queue's tasks from their entry to their completion; returns how many there are, and whether one is new."""
    dut = h.dut
    port = dut.task if name == "main" else getattr(dut, f"{name}_task")
    done = getattr(dut, f"{name}_done")
    running = h.count(port.valid & port.ready, done, 15)
    queue, in_flight = h.block(f"{name}.queue"), h.block(f"{name}_in_flight")
    taken = h.signal(f"{name}.taken")  # and still in the queue
    here = queue.level + running - taken
    there = queue.r_rdy & h.block(f"{name}.payloads").r_rdy
    h.prove(f"{name}: what was taken leaves its queue", ~taken | (there & ~h.block(name).o.valid))
    h.prove(f"{name}: what was taken runs", ~taken | (running != 0))
    h.assume(f"{name}: as many are done as were taken", ~done | (running != 0))
    fifo_rule(h, f"{name}_in_flight", in_flight)
    h.prove(f"{name}_in_flight: what waits or runs", in_flight.level == here)
    _queue_rule(h, f"{name}.queue", h.block(name), queue)
    h.prove(f"{name}: is told what is completed", h.block(name).completed.as_value() == _completed(h).as_value())
    h.cover(f"{name}: done", done)
    return here


def _completed(h):
    return h.dut.given.shape()(h.signals("completed")[-1])  # the others are the queues' ports


def _accounts(h, trying, here):
    """Each command of each kind is complete or in flight, and nothing else is."""
    completed, config = _completed(h), h.dut.config
    flights = dict.fromkeys(KINDS, 0) | here
    if config.predicts and config.n_cores == 1:
        flights["predictor"] = h.held("main_in_flight", lambda entry: entry[-1])
        flights["main"] = here["main"] - flights["predictor"]
    for kind in KINDS:
        given, now = h.dut.given[kind], completed[kind]
        # A program's commands are numbered by 16 bits, and the first is its header.
        h.assume(f"{kind}: fewer than 2^16 in a batch", given != (1 << COUNT_WIDTH) - 1)
        h.prove(f"{kind}: what was given is complete, waits or runs", trying | (given == now + flights[kind]))
        h.prove(f"{kind}: no more is completed than was given", now <= given)
        for name in h.dut.queues:
            waiting = h.before(h.block(f"{name}.queue").level != 0)
            h.prove(f"{kind}: completed only grows while something is queued for {name}",
                    ~waiting | (now >= h.before(now)))  # fmt: skip
        if kind != "predictor" or config.predicts:
            h.cover(f"{kind}: two complete", now == 2)


def _pushes(h):
    """Work is pushed two cycles after there was room for it, and there still is."""
    dut, command = h.dut, h.dut.work.p.command
    push, known, room = h.signal("push"), h.signal("stage"), []
    update, aside = is_update(command.opcode), ~is_update(command.opcode) & command.predictor
    chosen = {"main": ~update, "update": update}
    if dut.config.n_cores > 1:
        chosen |= {"main": ~update & ~command.predictor, "predictor": aside}
    for name, meant in chosen.items():
        room.append(meant & h.block(name).i.ready & h.block(f"{name}_in_flight").w_rdy)
    waits, pushes = h.state("", "WAIT"), h.state("", "PUSH")
    found = (h.signals("$signal")[0] == update) & (h.signal("aside") == aside)
    h.prove("push: only what is to be pushed", ~push | pushes)
    h.prove("kind: known while work waits", ~(waits | pushes) | found)
    h.prove("room: known a cycle later", ~(pushes & known) | Cat(room).any())
    h.prove("push: there is room", ~push | Cat(room).any())


def _issue(h):
    dut = h.dut
    bind_streams(h)
    trying, work, completed = h.signal("trying"), dut.work, _completed(h)
    if not dut.config.predicts:  # fetch's check refuses them
        h.assume("work: none of the predictor's", ~work.valid | ~work.p.command.predictor)
    here = {name: _flow(h, name) for name in dut.queues}
    _accounts(h, trying, here)
    # What fetch's job proves.
    h.assume("new_batch: only when all is settled", ~dut.new_batch | (dut.settled & ~work.valid))
    dry = work.valid & work.p.dry
    h.assume("dry work: offered when all before is settled", ~dry | h.before((dut.settled & ~work.valid) | dry))
    h.assume("no work while dry work is tried", ~work.valid | ~trying)
    _pushes(h)
    for state in ("WAIT", "PUSH"):
        h.prove(f"{state}: work is there", ~h.state("", state) | work.valid)
    h.prove("dry work finds everything settled", ~dry | dut.settled)
    h.prove("trying: one command, and nothing else is given",
            ~trying | ((sum(here.values()) == 1) & (dut.given == completed)))  # fmt: skip
    offers = Cat((dut.task if name == "main" else getattr(dut, f"{name}_task")).valid for name in here)
    h.prove("settled: nothing waits in a queue", ~dut.settled | ~offers.any())
    h.prove("settled: stays while nothing is given",
            ~h.before(dut.settled & ~(work.valid & work.ready)) | dut.settled)  # fmt: skip
    h.prove("settled: not after dry work was taken", ~h.before(dry & work.ready) | ~dut.settled)
    h.prove("settled: nothing waits or runs", ~dut.settled | (sum(here.values()) == 0))
    h.cover("a new batch after some commands", dut.new_batch & (completed.main == 2))
    h.cover("trying comes to its end", h.before(trying) & ~trying)
    if dut.config.n_cores > 1:
        runs = h.block("predictor.queue").level != 0
        h.cover("the predictor's waits while the main core's go", runs & dut.task.valid & dut.main_done)


for _name, _config in MACHINES.items():
    job(_name, lambda config=_config: Issue(config), depth=60)(_issue)
