"""Small valid programs, and commands of them with some fields spoilt."""

from random import Random

from adagp.golden.occupancy import misfit
from adagp.golden.validate import validate
from adagp.host.program import header
from adagp.spec.commands import COMMAND_WORDS, FIELDS, Adam, CMode, Command, Opcode, Phase, Source, command_field
from adagp.spec.config import Config
from adagp.spec.errors import ErrorCode
from adagp.spec.opcodes import BACKWARD, DEPTHWISE, GEMMS, NORMS, POOLS, UPDATES
from adagp.spec.operands import WAITS, counted, operands

from .extent import HUGE, core, work

__all__ = ["BASE", "neighbours", "spoilt"]

BASE = 0x400
"""Address of the data; programs lie before it."""
LARGE = 0.1
"""Share of layers that are to be spoilt whose tiles may come to the limits of the scratchpads."""
FREE = 0.35
"""Share of programs whose commands mostly don't wait for each other, so that they are under way together."""
TWO = 0.4
"""Share of those with two commands to be spoilt."""
LONG = 300
"""Weights of an UPDATE that is to be under way when another command fails, at most."""
ALWAYS = {"phase_mask": int(Phase.ALL)}
GEOMETRY = ("n", "c", "h", "w", "oh", "ow", "q", "r", "s", "stride", "pad_y", "pad_x", "nb", "yb", "cb", "qb",
            "x_pitch", "y_pitch", "c_pitch", "d_pitch")  # fmt: skip
PRODUCTS = (("n", "c"), ("n", "q"), ("c", "q"), ("h", "w"), ("r", "s"), ("oh", "ow"))
"""Fields that are multiplied with each other, and then with more."""
OPCODES = (*GEMMS, *(op for op in POOLS if op != Opcode.REORGANISE), Opcode.UPDATE)
PREDICTING = (*OPCODES, Opcode.FORWARD, Opcode.FORWARD, Opcode.ADAM, Opcode.ADAM)
ASKED = (
    {"opcode": Opcode.REORGANISE}, {"opcode": Opcode.ADAM}, {"reorganise": 1}, {"predictor": 1}, {"quality": 1},
    {"c_mode": CMode.SUB}, {"source": Source.ZERO}, {"source": Source.RANDOM}, {"source": 3}, {"wait_predictor": 1},
    {"wait_predictor": 1 << 15}, {"reorganise": 1, "predictor": 1},
)  # fmt: skip
"""Fields that only predicting variants allow, or not even they, or not every command."""


def _for_prediction(config: Config, draw: Random, opcode: Opcode) -> dict:
    """Fields of a GEMM besides those that every variant has."""
    found = {"predictor": int(draw.random() < 0.4), "scale_id": draw.choice((0, draw.randrange(config.n_tensors)))}
    if opcode == Opcode.FORWARD and not found["predictor"]:
        found["reorganise"] = int(draw.random() < 0.8)
    return found


def _for_switches(config: Config, draw: Random, opcode: Opcode, f: dict) -> dict:
    """Fields of a layer that switches of the generator build hardware for."""
    found: dict = {}
    if config.clamps and f["c_mode"] != CMode.ADD_MASK and not f.get("predictor") and draw.random() < 0.3:
        found = {name: draw.randrange(1 << 16) * draw.randrange(2) for name in ("bound_mantissa", "slope")}
        found["bound_exponent"] = draw.randint(-20, 2)
    if config.dropout and opcode == Opcode.AVGPOOL:
        found["momentum"] = draw.randrange(1 << 16) * draw.randrange(2)
    if config.matmul and opcode in GEMMS and f["c_mode"] != CMode.ADD_MASK:
        found["d_pitch"] = draw.randrange(2) * (f["r"] * f["s"] * f["c"] + draw.randint(0, 9))
        found["bias"] = 0 if found["d_pitch"] else f["bias"]
    return found


def _norm(draw: Random) -> dict:
    """The fields of a command of batch norm, addresses apart."""
    n, size, channels = draw.randint(1, 3), draw.randint(1, 4), draw.randint(1, 6)
    f = {
        "n": n, "h": size, "w": draw.randint(2, 4), "c": channels, "q": channels, "r": 1, "s": 1, "stride": 1,
        "relu": draw.randrange(2), "c_mode": draw.choice([mode for mode in CMode if mode != CMode.SUB]),
        "momentum": draw.randint(1, 65535),
    }  # fmt: skip
    f |= {"oh": f["h"], "ow": f["w"]}
    f |= {tile: draw.randint(1, f[extent]) for tile, extent in (("nb", "n"), ("yb", "h"), ("cb", "c"), ("qb", "c"))}
    f |= {f"{operand}_pitch": draw.choice((0, 0, channels + draw.randint(0, 9))) for operand in "xycd"}
    for name in ("const", "unbiased"):
        f |= {f"{name}_mantissa": draw.randrange(1 << 15, 1 << 16), f"{name}_exponent": draw.randint(-40, 0)}
    return f


def _reorganise(draw: Random, sums: int) -> dict:
    """The fields of a REORGANISE that takes ``sums`` or fewer, addresses apart."""
    f = dict.fromkeys(("n", "h", "w", "oh", "ow", "r", "s", "stride", "nb", "yb"), 1)
    f["c"] = f["q"] = draw.choice((sums, draw.randint(1, sums)))
    f["cb"] = draw.choice((f["c"], draw.randint(1, f["c"])))
    return f | {
        "qb": f["cb"], "relu": draw.randrange(2), "swap": draw.randrange(2), "c_mode": draw.choice(list(CMode)),
        "const_mantissa": draw.randrange(1 << 16), "const_exponent": draw.randint(-20, 2),
    }  # fmt: skip


def _layer(config: Config, draw: Random, opcode: Opcode, large: bool) -> dict:
    """The fields of a layer of one tile or a few, addresses apart."""
    while True:
        r, s, stride = draw.choice((1, 1, 2, 3)), draw.choice((1, 1, 2, 3)), draw.choice((1, 1, 1, 2))
        size, channels, tiled = (16, 20, 0.5) if large else (5, 6, 0.15)
        f = {
            "n": draw.randint(1, 2), "c": draw.randint(1, channels), "h": draw.randint(1, size),
            "w": draw.randint(1, size), "q": draw.randint(1, channels), "r": r, "s": s, "stride": stride,
            "pad_y": draw.randrange(r), "pad_x": draw.randrange(s), "relu": draw.randrange(2),
            "swap": draw.randrange(2), "out_outer": draw.randrange(2), "bias": draw.randrange(2),
            "c_mode": draw.choice(list(CMode)),
            "const_mantissa": draw.randrange(1 << 16), "const_exponent": draw.randint(-20, 2),
        }  # fmt: skip
        f["oh"], f["ow"] = (
            (f[size] + 2 * f[pad] - f[kernel]) // stride + 1
            for size, pad, kernel in (("h", "pad_y", "r"), ("w", "pad_x", "s"))
        )
        if opcode not in GEMMS:
            f["q"] = f["c"]
        elif config.predicts:
            f |= _for_prediction(config, draw, opcode)
        written = f["c"] if opcode in BACKWARD else f["q"]
        for operand, least in (("x", f["c"]), ("y", f["q"]), ("c", written), ("d", written)):
            f[f"{operand}_pitch"] = draw.choice((0, 0, least, least + draw.randint(1, 9)))
        for tile, extent in (("nb", "n"), ("yb", "h"), ("cb", "c"), ("qb", "q")):
            f[tile] = draw.randint(1, f[extent]) if draw.random() < tiled else f[extent]
        f |= _for_switches(config, draw, opcode, f)
        command = Command(opcode, f)
        if min(f["oh"], f["ow"]) < 1 or validate(command, config) != ErrorCode.NONE:
            continue
        if misfit(command, core(command, config)):
            continue
        if large or work(command, config) <= HUGE:
            return f


def _update(config: Config, draw: Random, opcode: Opcode, most: int) -> dict:
    """The fields of an UPDATE or ADAM of ``most`` weights or fewer, addresses apart."""
    f = {"count": draw.randint(1, most)}
    if opcode == Opcode.ADAM:
        return f | {"hyper": draw.randrange(config.n_hyper - len(Adam) + 1)}
    f["hyper"] = draw.randrange(config.n_hyper - 2)
    if config.predicts:
        f |= {"quality": draw.randrange(2), "source": draw.choice((Source.GIVEN, Source.GIVEN, Source.ZERO))}
        f["scale_id"] = draw.randrange(config.n_tensors)
    return f


def _command(
    config: Config, draw: Random, given: dict, at: int, spoils: bool, large: bool, long: bool, sums: int
) -> tuple[Command, int]:
    """A valid command with operands from ``at`` on, and the waits ``given``; and where its operands end.

    ``spoils``: it is to be spoilt.
    ``long``: often an UPDATE that writes for long. ``sums``: how many there are for a REORGANISE.
    """
    long = long and draw.random() < 0.5
    opcodes = (PREDICTING if config.predicts else OPCODES) + DEPTHWISE * 2 * config.depthwise
    opcodes += (NORMS if spoils else (Opcode.NORM_SUMS,)) * config.batch_norm  # the others' results aren't known
    opcode = Opcode.UPDATE if long else draw.choice(opcodes)
    if sums and not long and draw.random() < 0.7:
        opcode, f = Opcode.REORGANISE, _reorganise(draw, sums)
    elif opcode in UPDATES:
        f = _update(config, draw, opcode, LONG if long else 24)
    elif opcode in NORMS:
        f = _norm(draw)
    else:
        f = _layer(config, draw, opcode, large)
    ids = ("a", "b", "c", "d", "out")
    f |= {f"{operand}_id": draw.randrange(config.n_tensors) for operand in ids}
    f |= {**ALWAYS, **given, "layer": draw.randrange(1 << 16), "track": draw.randrange(2)}
    unit = config.beat_bytes if opcode in UPDATES else config.operand_bytes
    for name, place in operands(Command(opcode, f), config).items():
        at = -(-at // unit) * unit
        f[f"{name}_addr"] = at
        at += place.n_bytes + unit * draw.choice((0, 0, 1, draw.randrange(100)))
    if draw.random() < 0.1:
        f["ring"], f["a_addr"] = 1, f.get("a_addr", BASE) - BASE * (opcode not in UPDATES)
    return Command(opcode, f), at


def neighbours(config: Config, draw: Random, memory_bytes: int) -> tuple[list[list[int]], list[int]]:
    """A valid program as words, and the indices of the commands in it that are to be spoilt, mostly one.

    Its commands share no memory, so that they need not wait: in some programs few do, in the others each for all
    before it.
    """
    free = draw.random() < FREE
    counts = (0, 1, 1, 2) if free or config.predicts else (0, 0, 0, 1)  # some predicting commands go together
    before, behind = draw.choice(counts), draw.choice(counts)
    while True:
        given = dict.fromkeys(WAITS, 0)
        at, sums = BASE + config.beat_bytes * draw.randrange(64), 0
        commands = [header(config)]
        for place in range(before + 1 + behind):
            large = place == before and draw.random() < LARGE
            waits = {} if free and draw.random() < 0.8 else given
            spoils = place == before
            command, at = _command(config, draw, dict(waits), at, spoils, large, free and not spoils, sums)
            commands.append(command)
            given[counted(command)] += 1
            sums = 4 * command.q if command.reorganise else sums
        if at <= memory_bytes:
            break
    places = [1 + before]
    if free and behind and draw.random() < TWO:
        places.append(draw.randint(2 + before, 1 + before + behind))
    if draw.random() < 0.2:
        left_out = draw.choice((0, draw.randrange(config.n_tensors), config.n_tensors))
        commands.append(Command(Opcode.COMMIT, {**ALWAYS, "out_id": left_out}))
    commands.append(Command(Opcode.END, ALWAYS))
    return [command.encode() for command in commands], places


def _value(draw: Random, width: int, old: int, others: list[int], name: str, limits: dict) -> int:
    """Another value for a field, any that fits it."""
    how = draw.random()
    if name in limits and how < 0.2:
        return limits[name] + draw.choice((-1, 0, 1))
    if name.endswith("_addr"):  # else none would be a multiple of the operand's size, or in memory
        return draw.choice((
            old + draw.choice((-8, -2, -1, 1, 2, 8)), old ^ 1 << draw.randrange(width), draw.randrange(1 << 15) & -8,
            draw.randrange(1 << 15) & -2, (1 << 15) - 2 * draw.randrange(64), draw.choice(others), (1 << width) - 8,
        ))  # fmt: skip
    if how < 0.3:
        return old + draw.choice((-1, 1))
    if how < 0.5:
        return old ^ 1 << draw.randrange(width)
    if how < 0.65:
        return draw.choice((0, 1, (1 << width) - 1, 1 << width - 1))
    if how < 0.8:
        return draw.choice(others)
    return draw.randrange(1 << width) if how < 0.85 else draw.randrange(12)


def _limit(draw: Random, width: int) -> list[int]:
    """Two values as wide as fields may be, whose product is about a power of two at the end of what is allowed."""
    product, first = 1 << draw.choice((16, 26, 28, 29, 30, 31)), 1 << draw.randrange(width)
    return [min(max(1, value), (1 << width) - 1) for value in (first, product // first + draw.choice((-1, 0, 0, 1)))]


def _with(words: list[int], fields: dict) -> list[int]:
    """The words with other values in some fields."""
    words = list(words)
    for field in FIELDS:
        if field.name in fields:
            words[field.word] &= ~((1 << field.width) - 1 << field.lsb)
            words[field.word] |= int(fields[field.name]) << field.lsb
    return words


def spoilt(config: Config, words: list[int], draw: Random) -> list[int]:
    """The words of a command with 1 to 3 of its fields, or of the bits that belong to no field, changed."""
    changed = list(words)
    while changed == words:
        changed = _changed(config, words, draw)
    return changed


def _changed(config: Config, words: list[int], draw: Random) -> list[int]:
    """The words with new values in some places, maybe the old ones again."""
    limits = {f"{operand}_id": config.n_tensors for operand in ("a", "b", "c", "d", "out", "scale")}
    hypers = len(Adam) if command_field("opcode").decode(words[0]) == Opcode.ADAM else 3
    limits |= {"hyper": config.n_hyper - hypers + 1, "opcode": max(Opcode) + 1, "c_mode": max(CMode) + 1}
    words = list(words)
    values = [words[f.word] >> f.lsb & (1 << f.width) - 1 for f in FIELDS]
    if draw.random() < 0.05:
        names = draw.choice(PRODUCTS)
        width = min(field.width for field in FIELDS if field.name in names)
        return _with(words, dict(zip(names, _limit(draw, width), strict=True)))
    if draw.random() < 0.05:
        return _with(words, draw.choice(ASKED))
    for _ in range(draw.choice((1, 1, 2, 3))):
        kind = draw.random()
        if kind < 0.05:  # a reserved bit or one of any field
            place = draw.randrange(COMMAND_WORDS)
            words[place] ^= 1 << draw.randrange(32)
            continue
        chosen = draw.choice(FIELDS)
        while (kind < 0.45) != (chosen.name in GEOMETRY):
            chosen = draw.choice(FIELDS)
        old = words[chosen.word] >> chosen.lsb & (1 << chosen.width) - 1
        new = _value(draw, chosen.width, old, values, chosen.name, limits) & (1 << chosen.width) - 1
        words[chosen.word] ^= (old ^ new) << chosen.lsb
    return words
