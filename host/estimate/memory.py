"""The memory port and the part after it: flows of beats, which share both as arbiter and controller let them."""

from math import ceil

from ...rtl.memory.axi import OUTSTANDING
from ...spec.config import Config
from .clock import Clock, Process
from .traffic import Traffic

__all__ = ["Flow", "Memory"]

REQUEST_CYCLES = 8
"""Cycles of a burst on its way: skid and grant of the arbiter, the port's register, the controller's acceptance, and
the first beat's way back through the arbiter's skid. Measured on a fill whose part answers at once."""
NEAR = 1e-6
"""Beats below which a flow is over; rates are quotients."""


class Flow:
    """Beats under way; a process that yields it goes on when they have passed.

    ``cap``: most beats a cycle. ``weight``: beats of a burst, as the arbiter lets bursts pass in turn. ``window``: most
    beats that are asked for at a time, if they are few; then they queue up after those that others asked for. With
    ``single`` a burst is asked for once the one before has passed, and queues up too.
    """

    def __init__(
        self, memory: "Memory", moved: Traffic, write: bool, inside: bool = False, cap: float = 1.0, window: int = 0,
        single: bool = False,
    ):  # fmt: skip
        beats = max(moved.beats, 1)
        self.memory, self.write, self.left = memory, write, float(moved.beats)
        self.weight = beats / max(moved.bursts, 1)
        self.bus = 0.0 if inside else moved.granules * memory.granule_cycles / beats
        self.held = OUTSTANDING * self.weight * self.bus  # the bus' cycles for all bursts that may be under way
        # So many bursts may be under way; each takes a request's way, and its beats.
        under_way = OUTSTANDING * self.weight / (memory.round_trip + self.weight)
        refreshed = 1.0 if inside else 1 - max(0.0, memory.refresh - OUTSTANDING * self.weight) * memory.refresh_rate
        self.cap = min(cap, under_way, refreshed)
        self.rate, self.window, self.single = 0.0, window, single
        self.process: Process | None = None

    def most(self, others: "list[Flow]") -> float:
        """Most beats a cycle beside other flows of the direction."""
        if self.single and others:  # which have as many under way as there may be
            ahead = sum(min((OUTSTANDING - 1) * other.weight, other.left) for other in others)
            return self.weight / (self.weight / self.cap + ahead)
        if not self.window or not others:
            return self.cap
        ahead = sum(min(OUTSTANDING * other.weight, other.left + self.memory.asked) for other in others)
        turns = self.window / 2 / self.weight * sum(other.weight for other in others)  # while half of it passes
        # A chunk keeps its room until its weights are taken; meanwhile the rest of the other one comes.
        return min(self.cap, self.window / (self.memory.round_trip + ahead + turns + self.window))

    def take(self, process: Process) -> int | None:
        """Begin to flow for a process."""
        if self.left <= NEAR:
            return self.memory.clock.now
        self.process = process
        self.memory.begin(self)
        return None


class Memory:
    """Flows of both directions. Reads share a beat a cycle, writes another; all share the part's data bus.

    Bursts under way let the bus fall behind for a while.
    """

    def __init__(self, clock: Clock, config: Config):
        self.clock, self.config, part = clock, config, config.dram
        hz = config.clock_hz
        self.granule_cycles = max(part.burst_bytes, config.beat_bytes) * hz / part.bandwidth_bytes
        self.latency = REQUEST_CYCLES + round(part.latency_ns * hz / 1e9)
        self.round_trip = self.latency
        self.refresh = part.refresh_ns * hz / 1e9
        self.refresh_rate = 1e9 / (part.refresh_interval_ns * hz) if part.refresh_interval_ns else 0.0
        self._least = 1 - self.refresh * self.refresh_rate
        self.asked = 0
        """Beats of reads that fill has asked for and whose flows haven't begun."""
        self._flows: list[Flow] = []
        self._since = 0
        self._version = self._holding = 0  # engines that hold reads up
        self._behind = self._grows = 0.0  # bus cycles that bursts under way wait for, and how many more they become
        self.bus_cycles = 0.0
        self.beats = {False: 0.0, True: 0.0}  # of reads, of writes

    def begin(self, flow: Flow) -> None:
        """Let a flow begin now."""
        self._pass()
        self._flows.append(flow)
        self._share()

    def hold(self, more: int) -> None:
        """Count ``more`` engines that don't take a beat that has come for them; while there is one no read passes."""
        reading = any(not flow.write for flow in self._flows)
        if reading:
            self._pass()
        self._holding += more
        if reading:
            self._share()

    def _pass(self) -> None:
        """Let beats pass up to now."""
        elapsed = self.clock.now - self._since
        self._since = self.clock.now
        self._behind = max(0.0, self._behind + self._grows * elapsed)
        for flow in self._flows:
            beats = flow.rate * elapsed
            if beats > flow.left:
                beats = flow.left
            flow.left -= beats
            self.bus_cycles += beats * flow.bus
            self.beats[flow.write] += beats

    def _share(self) -> None:
        """Give each flow its rate until a flow begins or ends, and wait for the next end."""
        flows, least = self._flows, self._least
        if self._holding:
            for flow in flows:
                flow.rate = 0.0
            flows = [flow for flow in flows if flow.write]
            _fill(flows)
        elif len(flows) == 1:
            flows[0].rate = min(flows[0].cap, 1.0)
        else:
            _fill([flow for flow in flows if not flow.write])
            _fill([flow for flow in flows if flow.write])
        wanted = sum([flow.rate * flow.bus for flow in flows])
        room = min([flow.held for flow in flows], default=0.0) - self._behind
        if wanted > least and room < 1:
            for flow in flows:
                flow.rate *= least / wanted
            wanted = least
        self._grows = wanted - least
        self._version += 1
        if flows:
            cycles = min([ceil(flow.left / flow.rate - NEAR) for flow in flows])
            if self._grows > 0:  # until the bursts under way are all behind
                cycles = min(cycles, ceil(room / self._grows))
            version = self._version
            self.clock.call(self.clock.now + max(1, cycles), lambda: self._end(version))

    def _end(self, version: int) -> None:
        if version != self._version:
            return
        self._pass()
        over = [flow for flow in self._flows if flow.left <= NEAR]
        self._flows = [flow for flow in self._flows if flow.left > NEAR]
        self._share()
        for flow in over:
            assert flow.process is not None
            self.clock.resume(flow.process, self.clock.now)


def _fill(flows: list[Flow]) -> None:
    """Share a beat a cycle by the flows' weights; what one can't use goes to the others."""
    if len(flows) == 1:
        flows[0].rate = min(flows[0].cap, 1.0)
        return
    room, open_flows = 1.0, flows
    caps = {id(flow): flow.most([other for other in flows if other is not flow]) for flow in flows}
    while open_flows:
        weights = sum(flow.weight for flow in open_flows)
        bounded = [flow for flow in open_flows if caps[id(flow)] <= room * flow.weight / weights]
        if not bounded:
            for flow in open_flows:
                flow.rate = room * flow.weight / weights
            return
        for flow in bounded:
            flow.rate = caps[id(flow)]
            room -= flow.rate
        open_flows = [flow for flow in open_flows if flow not in bounded]
