"""Invariants of the operand fetcher of the output-stationary array: its outer positions, addresses and vectors.

They are of fetchers with two levels of outer positions and one of the reduction.
"""

from adagp.rtl.compute.lane_offsets import most_bits
from amaranth import Cat, Mux, Signal, Value
from amaranth.lib import data

from .harness import Harness
from .rules_walks import odometer_rule, slice_rule

__all__ = ["blocks_rule"]


def blocks_rule(h: Harness, vectors: list) -> None:
    """A model of the walks' outer positions says where passes end and which operands are read.

    That groups of reduction elements come as they should is another job's; of these the model takes what is said of
    their blocks. ``vectors``: those on their way, from :func:`.rules_compute.vectors_rule`.
    """
    dut, config, walk = h.dut, h.dut.config, h.dut.walk.p
    taken, start = h.signal("taken"), dut.walk.valid & dut.walk.ready
    flags = {name: shape for name, shape in h.block("offsets").o.p.shape().members.items() if name != "offset"}
    position, group = h.signal("position"), data.StructLayout(flags)(h.signal("group"))
    valid, half, _, ones = position[:4]
    bits = h.block("odometer").address.shape().width
    most = 1 << most_bits(config, bits)
    counts = Cat((n != 0) & (n <= most) for n in list(walk.n)[-2:])
    h.assume("walk: outer positions in the operands of a half", ~dut.walk.valid | counts.all())
    h.assume("walk: reduces something", ~dut.walk.valid | (walk.n_k != 0))
    given = {name: Signal.like(Value.cast(value), name=f"given_{name}") for name, value in {
        "n0": walk.n[-2], "n1": walk.n[-1], "jump0": walk.jump[-2], "jump1": walk.jump[-1], "ones": walk.ones,
        "blocks": walk.blocks, "on_columns": walk.on_columns}.items()}  # fmt: skip
    place, now, begin, ends = _positions(h, given, start, taken, group, bits, most)
    rest = ~(now["extra"] | ((now["left0"] == 0) & (now["left1"] == 0) & ~given["ones"]))
    h.assume("walk: its last block has the operand's last outer positions",
             ~(valid & ends & rest & given["blocks"] & group.last & group.final))  # fmt: skip
    new_half = Signal(init=1, name="new_half")
    with h.m.If(start):
        h.m.d.sync += [given[name].eq(value) for name, value in zip(given, (
            walk.n[-2], walk.n[-1], walk.jump[-2], walk.jump[-1], walk.ones, walk.blocks, walk.on_columns,
        ), strict=True)]  # fmt: skip
        h.m.d.sync += new_half.eq(new_half ^ walk.new)
    busy = h.signals("busy")[-1]  # ports are made before
    h.prove("position: taken when it is valid", valid == taken)
    h.prove("position: its half changes with each new tile", half == new_half)
    h.prove("position: ones after all others, if there are any", ~busy | (ones == now["extra"]))
    end = {"pass": ends, "sweep": ends & (group.last | ~given["blocks"]), "walk": ends & group.last & group.final}
    h.prove("position: lanes of the group", position[4:-3] == group.lanes)
    h.prove("position: ends of pass, sweep and walk", ~busy | (position[-3:] == Cat(end.values())))
    _odometer_of_model(h, busy, place, now, begin, given)
    _vectors(h, position, taken, vectors)
    passed = taken & ends & given["blocks"]
    h.cover("a block's positions anew, with its next group", passed & ~group.last & (place != 0))
    h.cover("another block, of the next positions", passed & group.last & group.advance & ~group.final)
    h.cover("a pass of a single position, ones", passed & now["extra"] & (place == 0))
    offset = _groups(h, taken & ends, busy, group)
    _addresses(h, now, offset, bits)


def _groups(h, used, busy, group):
    """Each group is in use for a pass, in the order in which they were made, and those of a walk within it.

    Returns the offsets of the group in use.
    """
    slice_rule(h, "following")
    offsets, following = h.block("offsets"), h.block("following").o
    places = [(h.signal("group_valid"), group), (following.valid, following.p)]
    made = offsets.o.valid & offsets.o.ready
    level, items = Signal(range(3), name="groups"), [Signal.like(offsets.o.p, name=f"group_{n}") for n in range(2)]
    staying = level - used
    h.m.d.sync += level.eq(staying + made)
    for number, item in enumerate(items):
        stays = Mux(used, items[-1].as_value(), item.as_value())
        h.m.d.sync += item.as_value().eq(Mux(made & (staying == number), offsets.o.p.as_value(), stays))
    h.prove("group: one for each pass", level == places[0][0] + places[1][0])
    same = Cat(group[name] == items[0][name] for name in group.shape().members).all()
    h.prove("group: the oldest", ~places[0][0] | same)
    loaded = h.before(following.valid & following.ready)
    offset = Mux(loaded, following.p.offset.as_value(), h.signal("group_offsets"))
    h.prove("group_offsets: of the oldest, a cycle later", ~places[0][0] | (offset == items[0].offset.as_value()))
    h.prove("following: the one after it", ~following.valid | (
        following.p.as_value() == Mux(places[0][0], items[1].as_value(), items[0].as_value())))  # fmt: skip
    # A walk is in both places from when its groups begin to be made until its last group is used.
    h.prove("offsets: columns of blocks", ~h.signal("offsets.on_columns") | h.signal("offsets.blocks"))
    for number, (there, each) in enumerate(places):
        h.prove(f"group {number}: the walk's last block is one of the rows'", ~(there & each.final) | each.advance)
    last = sum(there & each.last & each.final for there, each in places)
    h.prove("prepared: groups of as many walks are there",
            h.signal("prepared") + busy == h.signal("offsets.working") + last)  # fmt: skip
    return items[0].offset


def _positions(h, given, start, taken, group, bits, most):
    """Model of outer positions: place in a pass, this position, its block's first one; whether it ends a pass."""
    config, walk = h.dut.config, h.dut.walk.p
    shapes = {"left0": range(most), "left1": range(most), "address": bits, "extra": 1}
    now, begin = ({n: Signal(s, name=f"{kind}_{n}") for n, s in shapes.items()} for kind in ("now", "begin"))
    place = Signal(range(max(config.rows, config.cols)), name="place_of_model")
    spent, turns1 = (now["left0"] == 0) & (now["left1"] == 0), now["left1"] == 0
    first = {"left0": given["n0"] - 1, "left1": given["n1"] - 1, "address": 0}
    anew = now["extra"] | spent
    stepped = {
        "left0": Mux(anew, first["left0"], now["left0"] - turns1),
        "left1": Mux(anew | turns1, first["left1"], now["left1"] - 1),
        "address": Mux(anew, 0, now["address"] + Mux(turns1, given["jump0"], given["jump1"])),
        "extra": ~now["extra"] & spent & given["ones"],
    }  # fmt: skip
    ends = now["extra"] | (spent & ~given["ones"])
    ends |= given["blocks"] & (place + 1 == Mux(given["on_columns"], config.cols, config.rows))
    again = given["blocks"] & ends & ~(group.last & group.advance)
    with h.m.If(taken):
        h.m.d.sync += place.eq(Mux(given["blocks"] & ~ends, place + 1, 0))
        for name, value in now.items():
            kept = Mux(place == 0, value, begin[name])
            h.m.d.sync += [begin[name].eq(kept), value.eq(Mux(again, kept, stepped[name]))]
    with h.m.If(start):
        h.m.d.sync += [
            place.eq(0), now["left0"].eq(walk.n[-2] - 1), now["left1"].eq(walk.n[-1] - 1), now["address"].eq(0),
            now["extra"].eq(0),
        ]  # fmt: skip
    return place, now, begin, ends


def _odometer_of_model(h, busy, place, now, begin, given):
    """The odometer, and the state that it keeps, are where the model is."""
    odometer = h.block("odometer")
    h.prove("odometer: begun while busy", ~busy | odometer_rule(h, "odometer", h.prove))
    for name in ("ones", "blocks", "on_columns"):
        h.prove(f"{name}: of the walk", ~busy | (h.signal(name) == given[name]))
    h.prove("place: of the position in its pass", ~busy | (h.signal("place") == place))
    h.prove("extra: the position that reads as ones", h.signal("extra") == now["extra"])
    h.prove("address: of the position", ~busy | (odometer.address == now["address"]))
    h.prove("extra: within a walk, if there are ones", ~now["extra"] | (busy & given["ones"]))
    for kind, where, here in (("now", now, busy), ("begin", begin, busy & (place != 0))):
        at_start = Cat(where[f"left{n}"] == (given[f"n{n}"] - 1)[: odometer.most_bits] for n in range(2)).all()
        h.prove(f"{kind}: as it gives ones, the odometer is back at its start",
                ~(here & where["extra"]) | (at_start & (where["address"] == 0)))  # fmt: skip
    kept, at, fields = h.signal("odometer.kept"), 0, {}
    for name, width in (("address", len(odometer.address)), ("last", 1), ("spent", 2), ("nearly", 2), ("turns", 2),
                        ("counts", 2), ("left0", odometer.most_bits), ("left1", odometer.most_bits)):  # fmt: skip
        fields[name], at = kept[at : at + width], at + width
    for level in range(2):
        name, jump = f"left{level}", h.signal("odometer.jumps").as_unsigned().word_select(level, len(given["jump0"]))
        left, span = ((h.signal(f"odometer.{each}{level}") - 1)[: odometer.most_bits] for each in ("left", "span"))
        turns = (given[f"n{level}"] - 1)[: odometer.most_bits]
        of_walk = (span == turns) & (jump == given[f"jump{level}"].as_unsigned())
        h.prove(f"odometer.span{level}: of the walk", ~busy | of_walk)
        h.prove(f"odometer.{name}: of the position", ~busy | (left == now[name]))
        saved, inner = busy & (place != 0), (begin["left1"] == 0) | (level == 1)
        none = begin[name] == 0
        flags = [(fields["spent"], none), (fields["nearly"], begin[name] == 1), (fields["turns"], inner),
                 (fields["counts"], ~none & inner)]  # fmt: skip
        there = (fields[name] - 1)[: odometer.most_bits] == begin[name]
        sound = Cat(flag[level] == is_so for flag, is_so in flags).all()
        h.prove(f"odometer.kept: {name} of the block's first position", ~saved | (there & (begin[name] <= turns)))
        h.prove(f"odometer.kept: flags of level {level}", ~saved | sound)
    spent = (begin["left0"] == 0) & (begin["left1"] == 0)
    h.prove("odometer.kept: the block's first position", ~saved | (
        (fields["address"] == begin["address"]) & (fields["last"] == spent)
        & (h.signal("kept_extra") == begin["extra"]) & (~begin["extra"] | given["ones"])))  # fmt: skip


def _addresses(h, now, offset, bits):
    """Each lane reads the operand of its position and reduction element, in the position's half."""
    pad, banks = h.dut.pad, h.dut.config.banks
    bank_bits = (banks - 1).bit_length()
    valid, half = h.signal("position")[:2]
    taken = h.before(valid), h.before(h.before(valid))
    of_half = h.before(h.before(half))
    (outer,) = (signal for signal in h.signals("stage") if len(signal) == bits)
    group_offsets = data.ArrayLayout(bits, h.dut.config.vector_lanes)(h.signal("group_offsets"))
    for lane in range(h.dut.config.vector_lanes):
        address = h.before((now["address"] + offset[lane])[:bits])
        h.prove(f"group_offsets[{lane}]: of the position a cycle before",
                ~taken[0] | ((outer + group_offsets[lane])[:bits] == address))  # fmt: skip
        address = h.before(address)
        h.prove(f"pad.addr[{lane}]: the operand's", ~taken[1] | (pad.addr[lane] == Cat(address[bank_bits:], of_half)))
        if lane == 0:
            h.prove("pad.rot: the first lane's bank", ~taken[1] | (pad.rot == address[:bank_bits]))


def _vectors(h, position, taken, vectors):
    """Each position gives one vector, in order, with its lanes and ends; one arbitrary vector is followed."""
    dut = h.dut
    flags = len(position) - 4  # lanes and ends come last in both layouts
    places = [(there, bits[-flags:]) for there, bits in vectors]
    leaves, pick = dut.o.valid & dut.o.ready, h.free(name="pick")
    under_way, known = h.count(taken, leaves, len(places)), Signal(name="known")
    ahead, kept = Signal(range(len(places) + 1), name="ahead"), Signal(flags, name="kept_flags")
    picks = taken & pick & ~known
    h.m.d.sync += ahead.eq(Mux(picks, under_way, ahead) - leaves)
    with h.m.If(picks):
        h.m.d.sync += [known.eq(1), kept.eq(position[-flags:])]
    with h.m.If(known & leaves & (ahead == 0)):
        h.m.d.sync += known.eq(0)
    h.prove("o: a vector for each position", under_way == sum(there for there, _ in places))
    h.prove("the vector that is followed is under way", ~known | (ahead < under_way))
    before = 0
    for number, (there, found) in enumerate(places):
        h.prove(f"place {number}: in order, as it was", ~(known & there & (ahead == before)) | (found == kept))
        before = before + there
    h.cover("o: the vector that is followed comes after others", leaves & known & (ahead == 0) & h.before(ahead == 1))
