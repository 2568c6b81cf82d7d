"""Random tasks of batch norm: as commands of a layer say them, whatever the operands hold."""

from adagp.spec.commands import CMode, Opcode
from adagp.spec.microcode.machine import TileError, descriptors, task
from adagp.spec.microcode.program import tile_program
from adagp.spec.opcodes import NORMS

__all__ = ["random_norm_task"]

ADDRESSES = ("a_addr", "b_addr", "c_addr", "d_addr", "e_addr", "out_addr")


def random_norm_task(config, rng, opcode=None, **fixed):
    """A task whose tiles fit, with operands 10,000 bytes apart."""
    while True:
        opcode_ = opcode or rng.choice(NORMS)
        n, h, w, c = rng.randint(1, 4), rng.randint(1, 5), rng.randint(1, 5), rng.randint(1, 19)
        fields = {"opcode": opcode_, "n": n, "h": h, "w": w, "oh": h, "ow": w, "c": c, "q": c}
        fields |= {"r": 1, "s": 1, "stride": 1, "relu": rng.randrange(2), "track": rng.randrange(2)}
        fields |= {name: rng.randint(1, size + 1) for name, size in (("nb", n), ("yb", h), ("cb", c), ("qb", c))}
        fields |= {f"{name}_pitch": rng.choice((0, 0, c, c + 3)) for name in "xycd"}
        fields |= {"c_mode": rng.choice([mode for mode in CMode if mode != CMode.SUB]), "out_id": rng.randrange(8)}
        fields |= {name: 10_000 * place for place, name in enumerate(ADDRESSES)}
        if opcode_ == Opcode.NORM_SUMS and rng.random() < 0.5:
            fields["b_addr"] = fields["a_addr"]
        fields |= {"const_mantissa": rng.randrange(1 << 15, 1 << 16), "const_exponent": rng.randint(-40, 0)}
        fields |= {"momentum": rng.randint(1, 65535), "unbiased_mantissa": rng.randrange(1 << 15, 1 << 16)}
        fields |= {"unbiased_exponent": rng.randint(-40, -20), "out_outer": rng.randrange(2)}
        fields |= {"index": rng.getrandbits(16)}
        fields |= {f"exp_{name}": rng.randint(-20, 5) for name in ("a", "b", "c", "out")}
        made = task({**fields, **fixed}, dry=int(rng.random() < 0.25))
        try:
            descriptors(tile_program, config, [made])
        except TileError:
            continue
        return made
