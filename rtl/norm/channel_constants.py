"""Constants of batch norm for one channel, and its running statistics, step by step."""

from amaranth import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..lib.square_root import SquareRoot
from .backward_steps import backward_steps
from .forward_steps import forward_steps
from .layouts import N_WIDTH, ROOT_WIDTH, BackwardLayout, CommandLayout, ForwardLayout, StateLayout, Steps, Task
from .serial_arithmetic import SerialArithmetic
from .serial_divide import SerialDivide

__all__ = ["ChannelConstants"]

_QUOTIENT_WIDTH = 47
_DIVIDEND_WIDTH = _QUOTIENT_WIDTH + N_WIDTH


class ChannelConstants(wiring.Component):
    """Makes what ``golden/channel_constants.py`` defines, one channel after the other.

    Members
    -------
    start : In(1)
        begin; only while ``ready``
    task : In(Task)
        what to make
    command : In(CommandLayout)
        constants of the command; as all inputs they stand still until ``ready``
    first, second : In(signed)
        sums of x and x * x, or of g and g * x
    gamma, beta : In(signed(16))
        operands of the weight tensor
    state : In(StateLayout)
        running statistics
    row : In(ForwardLayout)
        for BACKWARD, the channel's forward row
    ready : Out(1, init=1)
        the results are there
    forward : Out(ForwardLayout)
        the forward row
    backward : Out(BackwardLayout)
        the backward row
    next_state : Out(StateLayout)
        running statistics after the batch

    Attributes
    ----------
    CYCLES
        most cycles of a task

    Timing
    ------
    ``ready`` comes at most CYCLES after ``start``.
    """

    CYCLES = 400

    start: In(1)
    task: In(Task)
    command: In(CommandLayout)
    first: In(signed(41))
    second: In(signed(56))
    gamma: In(signed(16))
    beta: In(signed(16))
    state: In(StateLayout)
    row: In(ForwardLayout)
    ready: Out(1, init=1)
    forward: Out(ForwardLayout)
    backward: Out(BackwardLayout)
    next_state: Out(StateLayout)

    def elaborate(self, platform):
        m = Module()
        m.submodules.arithmetic = arithmetic = SerialArithmetic()
        m.submodules.root = root = SquareRoot(2 * ROOT_WIDTH, ROOT_WIDTH)
        m.submodules.divide = divide = SerialDivide(_DIVIDEND_WIDTH, N_WIDTH, _QUOTIENT_WIDTH)
        steps = Steps(m, arithmetic)
        rooted = self._result(m, root)
        m.d.comb += root.i.eq(arithmetic.acc)
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += self.ready.eq(0)
                with m.Switch(self.task):
                    with m.Case(Task.BATCH):
                        m.next = "MEAN"
                    with m.Case(Task.RUNNING):
                        m.next = "RUNNING_MEAN"
                    with m.Case(Task.BACKWARD):
                        m.next = "GX_TERM"
            forward_steps(m, self, steps, root, rooted, divide)
            backward_steps(m, self, steps, divide)
            with m.State("DONE"):
                m.d.sync += self.ready.eq(1)
                m.next = "IDLE"
        return m

    def _result(self, m, block):
        """The last result of ``block``, and whether it is there."""
        name = type(block).__name__.lower()
        left, result = (
            Signal(range(block.latency + 1), name=f"{name}_left"),
            Signal.like(block.o, name=f"{name}_result"),
        )
        with m.If(block.start):
            m.d.sync += left.eq(block.latency)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.If(left == 1):
            m.d.sync += result.eq(block.o)
        return result, left == 0
