"""A finished tile's descriptors for the store engine.

A step of the tile program: compiled like it (see :mod:`adagp.spec.microcode.program` for its language and names).
"""

__all__ = ["store"]


def store(c, m, t):
    """Store the finished output tile; ``done`` is the lowest bit of ``final``, set in the command's last tile alone."""
    more = 1 if t.tail or t.idx else 0
    m.store(
        begin=1, close=1 - more, done=t.final * (1 - more), dry=c.dry,
        dram=c.out_addr + t.out_offset, n0=t.out_n0, n1=t.out_n1, n2=t.out_n2, d0=t.out_d0, d1=t.out_d1, d2=t.out_d2,
        s0=t.out_s0, s1=t.out_s1, s2=t.out_s2, length=t.out_length,
    )  # fmt: skip
    if t.idx:
        m.store(
            close=1, done=t.final, dry=c.dry,
            dram=c.b_addr + t.out_offset, n0=t.out_n0, n1=t.out_n1, n2=t.out_n2, d0=t.out_d0, d1=t.out_d1, d2=t.out_d2,
            sp=t.idx, s0=t.out_s0, s1=t.out_s1, s2=t.out_s2, length=t.out_length,
        )  # fmt: skip
    if t.tail:
        m.store(
            close=1, done=t.final, dry=c.dry,
            dram=c.out_addr + t.tail_offset,
            n0=t.out_n0, n1=1, n2=1, d0=t.out_d0, sp=t.taps * t.i_t, s0=t.out_s0, length=1,
        )  # fmt: skip
