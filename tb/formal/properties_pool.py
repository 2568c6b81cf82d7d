"""Jobs: the pool unit, its unit for windows side by side, and dropout."""

from dataclasses import replace

from adagp.rtl.compute.depthwise import WINDOWS, Depthwise
from adagp.rtl.compute.dropout import Dropout
from adagp.rtl.compute.pool import Pool
from adagp.rtl.compute.pool_job import PoolLayout
from adagp.spec.norm import SUM_DIGITS
from amaranth import Cat, Mux, Value

from .registry import CONFIG, job
from .rules import bind_streams, handshake_rule, stream_rule

__all__ = []

DEPTHWISE = replace(CONFIG, depthwise=True)
POOLS = replace(CONFIG, depthwise=True, batch_norm=True, dropout=True)
DATA = ("t:$mul",)
"""Cells that are cut out: the rules don't depend on results."""


@job("pool_switched", lambda: Pool(POOLS), cut=(*DATA, "t:$mem_v2"))
@job("pool_depthwise", lambda: Pool(DEPTHWISE), cut=(*DATA, "t:$mem_v2"))
@job("pool", lambda: Pool(CONFIG), cut=DATA)
def _pool(h):
    bind_streams(h)
    h.assume("job: has taps", ~h.dut.job.valid | (h.dut.job.p.n_taps != 0))
    h.prove("busy while a result waits", ~h.dut.o.valid | h.dut.busy)
    pending, several = h.signal("pending").any(), h.signal("is_max")
    if h.dut.config.normalises:
        several |= h.signal("digits")
        h.prove("pending: no more than an index or the digits after the first",
                h.signal("pending") <= Mux(h.signal("digits"), 2 * SUM_DIGITS - 1, 1))  # fmt: skip
        done = h.signal("done")[0]  # its valid bit
        h.prove("also: no window is finished as the one before keeps its second sum", ~(h.signal("also") & done))
    h.prove("pending: only a maximum has an index, only digits follow each other", ~pending | several)
    h.prove("pending: its maximum has gone, in a job that may be over", ~pending | h.dut.busy)
    h.prove("taking: within a job", ~h.signal("taking") | h.signal("working"))
    if not (h.dut.config.normalises or h.dut.config.drops):
        done, keeps = h.signal("done")[0], PoolLayout(h.signals("job")[-1]).keeps & h.signal("multiplies")
        h.prove("step: unless a finished window can't leave, or the one before has its index left",
                h.signal("step") == (~done | ((h.block("skid").i.ready | keeps) & ~pending)))  # fmt: skip
        h.cover("step: waits for an index", done & pending)
    gone = h.dut.o.valid & h.dut.o.ready
    before = h.before(gone) if h.dut.config.normalises else h.before(h.before(gone))
    h.cover("a result leaves as soon as may be after another", before & gone)


@job("depthwise", lambda: Depthwise(DEPTHWISE), cut=(*DATA, "t:$mem_v2"))
def _depthwise(h):
    dut, job = h.dut, h.dut.job.p
    for name in ("job", "a", "b"):
        stream_rule(h, name, getattr(dut, name), False)
    # The payload is a sum of these; that equal ones have equal sums is hard for the solver.
    sums = [h.signal(f"sum{lane}_{k}") for lane in range(dut.o.p.shape().length) for k in range(WINDOWS)]
    addends = Cat(*sums, h.signal("turn"), dut.kept)
    handshake_rule(h, "o", dut.o.valid, Value.cast(dut.o.ready), addends, True)
    h.ignores("o: valid ignores ready", dut.o.valid, dut.o.ready)
    kept = dut.kept.as_value()
    h.assume("kept: stands while it isn't read", ~h.before(~dut.r_en) | (h.before(kept) == kept))
    h.assume("job: windows 2 or 3 wide, in rows of at least as many columns",
             ~dut.job.valid | ((job.width >= 2) & (job.columns >= job.width) & (job.rows != 0)))  # fmt: skip
    h.prove("taking, loading: within a job", ~(h.signal("taking") | h.signal("loading")) | dut.busy)
    h.prove("busy while a result waits", ~dut.o.valid | dut.busy)
    h.prove("w_en: what is kept doesn't leave", ~(dut.w_en & dut.o.valid))
    h.prove("kept: no word is read as it is written", ~(dut.r_en & dut.w_en) | (dut.r_addr != dut.w_addr))
    h.prove("table: no row is read as one is loaded", ~(dut.a.ready & h.signal("loading")))


@job("dropout", lambda: Dropout(CONFIG), cut=DATA)
def _dropout(h):
    o, start, drops = h.dut.o, h.dut.start, h.signal("drops")
    h.assume("job: has channels", ~start | (h.dut.job.channels != 0))
    stands = h.before(o.valid & ~o.ready & ~start)
    h.prove(
        "o: a mask stands until it is taken or a job begins", ~stands | (o.valid & (o.payload == h.before(o.payload)))
    )
    h.prove("o: no mask of the job before", ~(h.before(start) & drops) | ~o.valid)
    h.prove("o: without a probability all stay", drops | (o.valid & o.payload.all()))
    h.cover("o: a job begins while a mask waits", stands & drops & start)
