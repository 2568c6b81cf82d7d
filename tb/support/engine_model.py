"""A plain model of the four engines that runs descriptors, to judge the tile program.

Follows docs/machine.md and the docstrings of the descriptors, nothing else. Engines run concurrently in a random
interleaving, meet through tokens only and take a random time: data that an engine will overwrite is spoilt when it
starts, data that it reads must be there at its end. A missing token shows as wrong data, one too many as a deadlock.
"""

import itertools
from collections import deque

import numpy as np
from adagp.spec.microcode.descriptors import Target, VectorMode
from adagp.spec.numerics import SHIFT_MAX, SHIFT_MIN, operand_max, unpredicted
from clamped_elements import ElementEnd
from descriptor_grammar import Grammar
from dropped_elements import vectors_that_stay
from engine_arithmetic import drained, grid, odometer, requantise, sum_up
from norm_model import digits, norm_vectors, own_fields
from window_model import sums_of_windows

__all__ = ["Emulator"]

JUNK = 0x2AAA


class Emulator:
    """``memory`` is a numpy array of operands (byte address / operand_bytes). ``run`` works on it in place.

    ``overwritten``: places that may be written though they hold something. After a run: ``results`` (id -> (seen, top
    or None)), ``saturations``, ``done`` (commands completed), ``grammar`` (which the descriptors passed through).
    """

    def __init__(self, config, memory, rng):
        self.config, self.memory, self.rng = config, memory, rng
        self.a, self.b = (np.full((2, n), JUNK, np.int64) for n in (config.a_elements, config.b_elements))
        self.c = np.full((2, config.c_elements), JUNK, np.int64)
        biases = config.bias_words * max(config.rows, config.cols)
        self.bias = np.full((2, biases), JUNK, dtype=object)
        self.acc = np.full((2, config.acc_depth, config.cols), JUNK, np.int64)
        self.tokens = dict.fromkeys(("a_full", "b_full", "acc_full", "c_ready", "drained"), 0)
        self.tokens.update(dict.fromkeys(("a_free", "b_free", "acc_free", "c_free"), 2))
        self.fill_half = {Target.A: 0, Target.B: 0}
        self.held = {"a": -1, "b": -1}
        self.acc_compute = self.acc_drain = 0
        self.vectors = deque()
        self.sums = np.full(4 * config.n_filters, JUNK, np.int64)
        self.results, self.saturations, self.done = {}, 0, 0
        self.macs, self.overwritten, self.grammar = 0, range(0), Grammar(config)

    # --- scheduling ------------------------------------------------------------------------------

    def run(self, issued):
        """Run all descriptors; AssertionError if the engines wait for each other forever."""
        queues = {name: deque() for name in ("fill", "compute", "drain", "store")}
        running = {}
        issued = deque(issued)
        while issued or running or any(queues.values()):
            moves = []
            if issued and len(queues[issued[0][0]]) < 2:
                moves.append(("issue", None))
            for name, queue in queues.items():
                if name in running:
                    if name != "compute" or not drained(running[name]) or "drain" in running:
                        moves.append(("end", name))
                elif queue and all(self.tokens[t] >= 1 for t in self._takes(name, queue[0])):
                    moves.append(("start", name))
            # A vector drain ends after the compute that feeds it.
            if "drain" in running and self._pooled(running["drain"]) and not self.vectors:
                moves = [move for move in moves if move != ("end", "drain")]
            assert moves, f"deadlock: {self.tokens} running {running} queues {queues}"
            move, name = self.rng.choice(moves)
            if move == "issue":
                engine, descriptor = issued.popleft()
                self.grammar.take(engine, descriptor)
                queues[engine].append(descriptor)
            elif move == "start":
                running[name] = queues[name].popleft()
                for token in self._takes(name, running[name]):
                    self.tokens[token] -= 1
                getattr(self, f"_{name}_start")(running[name])
            else:
                getattr(self, f"_{name}_end")(running.pop(name))
        assert not self.vectors

    def _takes(self, name, d):
        if name == "fill" and d["open"]:
            return [{Target.A: "a_free", Target.B: "b_free"}.get(d["target"], "c_free")]
        if name == "compute":
            takes = [f"{x}_full" for x in "ab" if d[f"new_{x}"]]
            return takes + ["acc_free"] * (d["mode"] == VectorMode.GEMM and d["first"])
        if name == "drain":
            return ["c_ready"] + ["acc_full"] * (not d["vector"] and not d["zeros"])
        return ["drained"] * (name == "store" and d["begin"])

    # --- FILL --------------------------------------------------------------------------------------

    def _pad(self, d):
        if d["target"] in self.fill_half:
            return (self.a, self.b)[d["target"]][self.fill_half[d["target"]]]
        return (self.c if d["target"] == Target.C else self.bias)[d["half"]]

    def _fill_start(self, d):
        if d["open"]:
            halves = [self._pad(d)]
            if d["target"] in (Target.C, Target.BIAS):
                halves = [self.c[d["half"]], self.bias[d["half"]]]
            for half in halves:
                half[:] = JUNK

    def _fill_end(self, d):
        pad = self._pad(d)
        assert d["clear"] <= len(pad)
        pad[: d["clear"]] = -operand_max(self.config.operand_width) if d["clear_min"] else 0
        levels = [d[f"n{i}"] for i in range(3)]
        if all(levels) and d["length"]:
            assert d["step"] % self.config.banks == 1, "fill lanes share a bank"
            size = self.config.operand_bytes
            assert all(d[f] % size == 0 for f in ("dram", "d0", "d1", "d2"))
            to = grid(*((levels[i], d[f"s{i}"]) for i in range(3)), (d["length"], d["step"])) + d["sp"]
            read = grid(*((levels[i], d[f"d{i}"] // size) for i in range(3)), (d["length"], 1)) + d["dram"] // size
            assert len(set(to % len(pad))) == len(to), "an element written twice"
            values = self.memory[read]
            assert (values != JUNK).all(), "read where nothing was written"
            if d["target"] == Target.BIAS:
                values = requantise(values.astype(object), d["shift"], self.config.acc_width)
            if d["mark"]:
                to, values = to[values <= 0], unpredicted(self.config.operand_width)
            pad[to % len(pad)] = values
        if d["ready"]:
            name = {Target.A: "a_full", Target.B: "b_full"}.get(d["target"], "c_ready")
            self.tokens[name] += 1
            if d["target"] in self.fill_half:
                self.fill_half[d["target"]] ^= 1

    # --- COMPUTE -----------------------------------------------------------------------------------

    def _compute_start(self, d):
        for x in "ab":
            if d[f"new_{x}"]:
                self.tokens[f"{x}_free"] += self.held[x] >= 0
                self.held[x] = 1 if self.held[x] < 0 else self.held[x]
                self.held[x] ^= 1
        if d["mode"] == VectorMode.GEMM and d["first"]:
            self.acc[self.acc_compute] = JUNK

    def lanes(self, pad, addresses):
        """pad[addresses], with lane i in bank (address of lane 0 + i) % banks, as the crossbar reads it."""
        lanes = np.arange(addresses.shape[-1])
        assert ((addresses - addresses[..., :1] - lanes) % self.config.banks == 0).all(), "lanes share a bank"
        return pad[addresses % len(pad)]

    def _compute_end(self, d):
        outer = odometer([d[f"n{i}"] for i in range(6)], [d[f"jump{i}"] for i in range(6)])
        if d["mode"] in (VectorMode.SCALE, VectorMode.TABLES):
            self.vectors.extend(norm_vectors(self, d, outer))
        else:
            modes = {VectorMode.GEMM: self._gemm, VectorMode.DOT: self._dot, VectorMode.DIGITS: self._dot}
            modes.get(d["mode"], self._pool)(d, outer)

    def _gemm(self, d, outer):
        rows, cols = self.config.rows, self.config.cols
        inner = odometer([d[f"k{i}"] for i in range(3)], [d[f"kjump{i}"] for i in range(3)])
        assert len(inner) == d["n_k"] and len(outer) + d["ones"] == d["n_a"]
        n_stat, n_stream = (d["n_a"], d["n_b"]) if d["swap"] else (d["n_b"], d["n_a"])
        n_groups = -(-n_stat // cols)
        acc = self.acc[self.acc_compute]
        assert n_groups * n_stream <= len(acc)
        sums = np.zeros((d["n_a"], d["n_b"]), np.int64)
        for k in range(0, d["n_k"], rows):
            lane_k = inner[k : k + rows]
            a = self.lanes(self.a[self.held["a"]], outer[:, None] + lane_k)
            if d["ones"]:
                a = np.concatenate([a, np.ones((1, len(lane_k)), np.int64)])
            b_address = np.arange(d["n_b"])[:, None] * d["b_stride"] + k + np.arange(len(lane_k))
            b = self.lanes(self.b[self.held["b"]], b_address)
            sums += a @ b.T
        self.macs += d["n_a"] * d["n_b"] * d["n_k"]
        if not d["swap"]:
            sums = sums.T
        for j in range(n_groups):
            part = sums[j * cols : (j + 1) * cols].T
            words = acc[j * n_stream : (j + 1) * n_stream]
            words[:, : part.shape[1]] = part + (0 if d["first"] else words[:, : part.shape[1]])
        if d["last"]:
            self.tokens["acc_full"] += 1
            self.acc_compute ^= 1

    def _dot(self, d, outer):
        """Windows of products, of DIGITS also of B, group by group; kept until the descriptor with ``last``."""
        assert d["k0"] == d["k1"] == d["kjump2"] == 1 and d["n_k"] == d["k2"]
        b, rows, sums = odometer([d["n_b"], d["n_a"]], [d["kjump0"], d["b_stride"]]), self.config.rows, []
        for k in range(0, d["n_k"], rows):
            lane_k = k + np.arange(min(rows, d["n_k"] - k))
            a_lanes = self.lanes(self.a[self.held["a"]], outer[:, None] + lane_k)
            b_lanes = a_lanes if d["swap"] else self.lanes(self.b[self.held["b"]], b[:, None] + lane_k)
            a_lanes = np.pad(a_lanes, ((0, d["ones"] * (d["n_values"] or d["n_a"])), (0, 0)), constant_values=1)
            factors = [a_lanes, np.ones_like(b_lanes)][: 2 if d["mode"] == VectorMode.DIGITS else 1]
            windows = np.stack([sums_of_windows(d, each, b_lanes) for each in factors], axis=1)
            sums.extend(np.pad(windows.reshape(-1, len(lane_k)), ((0, 0), (0, rows - len(lane_k)))))
        assert (d["last"] and d["first"]) or len(sums) <= self.config.kept_words
        self.kept = sums if d["first"] else list(np.add(sums, self.kept))
        if d["last"]:
            self.vectors.extend(digits(self.kept) if d["mode"] == VectorMode.DIGITS else self.kept)

    def _pool(self, d, outer):
        taps = d["n4"] * d["n5"]
        assert taps == d["n_a"] and d["n_k"] == d["k2"] == self.config.rows and d["k0"] == d["k1"] == 1
        addresses = outer.reshape(-1, taps)[:, :, None] + np.arange(self.config.rows) * d["kjump2"]
        a = self.lanes(self.a[self.held["a"]], addresses)
        if d["mode"] == VectorMode.MAX:
            first = a.argmax(axis=1)
            self.vectors.extend(itertools.chain(*zip(a.max(axis=1) * d["mantissa"], first + 1, strict=True)))
            return
        if d["mode"] == VectorMode.SELECT:
            b = self.lanes(self.b[self.held["b"]], addresses)
            a = np.where(b == np.arange(taps, 0, -1)[:, None], a, 0)
        drops = self.config.dropout and d["mode"] == VectorMode.SUM and d["momentum"]
        self.vectors.extend(a.sum(axis=1) * d["mantissa"] * (vectors_that_stay(d, self.config.rows) if drops else 1))

    # --- DRAIN -------------------------------------------------------------------------------------

    def _drain_start(self, d):
        pass

    def _pooled(self, d):
        """True if its vectors come from the pool unit."""
        return d["vector"] and not d["reorganise"]

    def _drain_end(self, d):
        cols = self.config.rows if d["vector"] else self.config.cols
        for o in range(d["n_out"]):
            for i in range(d["n_in"]):
                index = None
                if d["vector"] and d["reorganise"]:
                    vector = self.sums[[d["at"] + o * d["n_in"] + i]] * d["mantissa"]
                elif d["scaled"]:
                    vector, *own_way = self.vectors.popleft()
                elif d["vector"]:
                    vector = self.vectors.popleft()
                    index = self.vectors.popleft() if d["idx"] else None
                elif d["zeros"]:
                    vector = np.zeros(cols, int)
                else:
                    vector = self.acc[self.acc_drain][o * d["n_in"] + i]
                lanes = cols
                if (i == d["n_in"] - 1) if d["last_inner"] else (o == d["n_out"] - 1):
                    lanes = d["lanes_last"]
                to = o * d["s_out"] + i * d["s_in"] + np.arange(lanes) * d["lane_step"]
                self.lanes(self.c[d["half"]], to)
                for lane in range(lanes):
                    own = d | own_fields(*own_way, lane) if d["scaled"] else d
                    self._element(own, int(vector[lane]), int(to[lane]), o, i, lane, lanes)
                if index is not None:
                    self.lanes(self.c[d["half"]], to + d["idx"])
                    self.c[d["half"], (to + d["idx"]) % self.config.c_elements] = index[:lanes]
        if not d["vector"] and not d["zeros"]:
            if d["reorganise"]:
                sum_up(self, d)
            self.tokens["acc_free"] += 1
            self.acc_drain ^= 1
        self.tokens["drained"] += 1

    def _element(self, d, acc, to, o, i, lane, lanes):
        width, word = self.config.acc_width, self.config.rows if d["vector"] else self.config.cols
        c = self.c[d["half"]]
        to %= len(c)
        last = (o == d["n_out"] - 1 and lane == lanes - 1) if d["swap"] else i == d["n_in"] - 1
        shift = d["shift_ones"] if d["ones"] and last else d["shift"]
        assert SHIFT_MIN <= shift <= SHIFT_MAX
        x = int(requantise(acc, shift, width))
        if d["bias"]:
            x += int(self.bias[d["half"], i if d["swap"] else o * word + lane])
        if d["c_mode"] in (2, 3, 4):
            x += (-1 if d["c_mode"] == 3 else 1) * int(requantise(int(c[to]), d["shift_c"], width))
        width = self.config.operand_width
        masked = (d["c_mode"] == 1 and c[to] <= 0) or (d["c_mode"] == 4 and c[to] == unpredicted(width))
        end = ElementEnd(width, d["c_mode"], d["relu"], d["bound"], d["shift_bound"], d["slope"])
        out, bits, saturated = end.result(x, int(c[to]), masked)
        if d["track"]:
            tops = [self.results.get(d["id"]), None if bits is None else bits + d["exponent"]]
            self.results[d["id"]] = max((top for top in tops if top is not None), default=None)
        self.saturations += saturated and not d["dry"]
        c[to] = out

    # --- STORE -------------------------------------------------------------------------------------

    def _store_start(self, d):
        pass

    def _store_end(self, d):
        size = self.config.operand_bytes
        if not d["dry"]:
            levels = [(d[f"n{i}"], d[f"s{i}"], d[f"d{i}"] // size) for i in range(3)]
            read = grid(*((n, s) for n, s, _ in levels), (d["length"], 1)) + d["sp"]
            to = grid(*((n, step) for n, _, step in levels), (d["length"], 1)) + d["dram"] // size
            may = np.isin(to, self.overwritten) | (self.memory[to] == JUNK)
            assert may.all(), "written twice, or where it must not"
            self.memory[to] = self.c[d["half"], read % self.config.c_elements]
        self.tokens["c_free"] += d["close"]
        self.done += d["done"]
