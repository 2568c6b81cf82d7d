"""The compiler from the tile program's subset of Python to microcode.

The subset is one function of ``c``, ``k``, ``m`` with integer locals; ``+ - * //``, ``min``, ``max``,
``align``; comparisons, ``and``, ``or``, ``not``, plain numbers and ``over`` as conditions; ``if``, ``while``,
conditional expressions; ``m.fill/compute/drain/store`` with keyword arguments and ``m.fail``; and calls of
steps, functions of some of ``c``, ``k``, ``m`` and ``t``, a namespace of integers that steps share. ``k.*`` are
folded into constants, ``c.*`` that are read are loaded once at the start, steps are compiled in their place. Locals of
the same name in different steps share a register: Python itself sees to it that a step reads none that it hasn't
assigned.
"""

import ast
import inspect
import textwrap
from dataclasses import dataclass
from types import FunctionType

from ..config import Config
from .descriptors import ENGINES
from .isa import Instruction, Op, Program
from .machine import TASK_FIELDS, constants
from .program import tile_program
from .shape import LOOP_ENDS, align, over

__all__ = ["compile_program"]

_ZERO = 0  # the register that holds 0
_BRANCHES = {ast.Eq: Op.BEQ, ast.NotEq: Op.BNE, ast.Lt: Op.BLT, ast.GtE: Op.BGE}
_INVERSE = {Op.BEQ: Op.BNE, Op.BNE: Op.BEQ, Op.BLT: Op.BGE, Op.BGE: Op.BLT}
_BINARY = {ast.Add: Op.ADD, ast.Sub: Op.SUB, ast.Mult: Op.MUL, ast.FloorDiv: Op.DIV}


@dataclass(frozen=True)
class _Slot:
    index: int


class _Compiler:
    """One pass over the function's tree; operands are register numbers, constants are ``ast`` folded ints."""

    def __init__(self, config: Config, names: dict[str, int], function: FunctionType):
        self.config = config
        self.steps: dict[str, ast.FunctionDef] = {}
        self.main = self._parse(function)
        self.k = names
        self.program = Program()
        self.constants = {0: _ZERO}
        self.free: list[int] = []
        self.fields: set[str] = set()  # of the task, that the code reads

    # --- registers -------------------------------------------------------------------------------

    def _register(self, value=0):
        self.program.registers.append(value)
        return len(self.program.registers) - 1

    def _named(self, name):
        if name not in self.program.names:
            self.program.names[name] = self._register()
        return self.program.names[name]

    def _operand(self, node):
        """(register with the node's value, whether it is a temporary to be freed)."""
        value = self._fold(node)
        if value is not None:
            if value not in self.constants:
                self.constants[value] = self._register(value)
            return self.constants[value], False
        if isinstance(node, ast.Name):
            return self.program.names[node.id], False
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == "c":
                self.fields.add(node.attr)
            return self.program.names[ast.unparse(node)], False
        temporary = self.free.pop() if self.free else self._register()
        self._into(temporary, node)
        return temporary, True

    def _emit(self, op, d=0, a=0, b=0, to_slot=False):
        self.program.instructions.append(Instruction(op, d, a, b, to_slot))
        return self.program.instructions[-1]

    def _apply(self, op, left, right, to=None):
        """Evaluate two nodes and emit ``op`` on them."""
        operands = [self._operand(left), self._operand(right)]
        self.free.extend(register for register, temporary in operands if temporary)
        (a, _), (b, _) = operands
        if isinstance(to, _Slot):
            return self._emit(op, to.index, a, b, to_slot=True)
        return self._emit(op, to or 0, a, b)

    # --- expressions -----------------------------------------------------------------------------

    def _fold(self, node):
        """The node's value if it is a constant, else None."""
        match node:
            case ast.Constant(value=int(value)):
                return int(value)
            case ast.Attribute(value=ast.Name(id="k"), attr=name):
                return int(self.k[name])
            case ast.IfExp(test=test, body=body, orelse=orelse) if (known := self._known(test)) is not None:
                return self._fold(body if known else orelse)
            case ast.UnaryOp(op=ast.USub(), operand=operand) if self._fold(operand) is not None:
                return -self._fold(operand)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self._fold(left), self._fold(right)
                if isinstance(op, ast.Mult) and 0 in (a, b):
                    return 0
                if a is not None and b is not None and type(op) in _BINARY:
                    return {Op.ADD: a + b, Op.SUB: a - b, Op.MUL: a * b, Op.DIV: a // (b or 1)}[_BINARY[type(op)]]
        return None

    def _into(self, to, node):
        """Emit code that puts the node's value into register or slot ``to``."""
        match node:
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY and self._fold(node) is None:
                self._binary(to, _BINARY[type(op)], left, right)
            case ast.IfExp(test=test, body=body, orelse=orelse) if (known := self._known(test)) is not None:
                self._into(to, body if known else orelse)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                to_else = self._branch(test, False)
                self._into(to, body)
                to_end = [self._emit(Op.BEQ)]
                self._land(to_else)
                self._into(to, orelse)
                self._land(to_end)
            case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in ("min", "max"):
                self._apply(Op[name.upper()], left, right, to)
            case ast.Call(func=ast.Name(id="align"), args=[value, residue, banks]):
                if self._fold(banks) != self.config.banks:
                    raise SyntaxError(f"line {node.lineno}: align works modulo k.banks only")
                self._apply(Op.ALIGN, value, residue, to)
            case _ if isinstance(node, (ast.Name, ast.Attribute)) or self._fold(node) is not None:
                self._apply(Op.ADD, node, ast.Constant(0), to)
            case _:
                raise SyntaxError(f"line {node.lineno}: {ast.unparse(node)} is outside the compiled subset")

    def _binary(self, to, op, left, right):
        constant = self._fold(right)
        if (op == Op.MUL and constant == 1) or (op == Op.DIV and constant == 1):
            return self._into(to, left)
        if op == Op.MUL and constant == 2:
            value, temporary = self._operand(left)
            self.free.extend([value] * temporary)
            is_slot = isinstance(to, _Slot)
            return self._emit(Op.ADD, to.index if is_slot else to, value, value, is_slot)
        if op == Op.DIV and constant and constant & (constant - 1) == 0:
            self._apply(Op.SHIFT, left, ast.Constant(0), to).b = constant.bit_length() - 1
            return None
        return self._apply(op, left, right, to)

    # --- conditions ------------------------------------------------------------------------------

    def _land(self, branches):
        for branch in branches:
            branch.d = len(self.program.instructions)

    def _branch(self, test, sense):
        """Emit code that branches if ``test`` is ``sense`` and falls through otherwise; the open branches."""
        match test:
            case ast.BoolOp(op=op, values=values) if any(self._known(value) is not None for value in values):
                open_ones = [value for value in values if self._known(value) is None]  # the others don't decide
                return self._branch(ast.BoolOp(op, open_ones) if len(open_ones) > 1 else open_ones[0], sense)
            case ast.BoolOp(op=op, values=values):
                if isinstance(op, ast.Or) == sense:  # any value alone decides
                    return [branch for value in values for branch in self._branch(value, sense)]
                through = [branch for value in values[:-1] for branch in self._branch(value, not sense)]
                taken = self._branch(values[-1], sense)
                self._land(through)
                return taken
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._branch(operand, not sense)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                if isinstance(op, (ast.Gt, ast.LtE)):
                    left, right, op = right, left, ast.Lt() if isinstance(op, ast.Gt) else ast.GtE()
                branch = _BRANCHES[type(op)]
                return [self._apply(branch if sense else _INVERSE[branch], left, right)]
            case ast.Call(func=ast.Name(id="over"), args=[_, _, *loops]) if not sense:
                return self._over([ast.literal_eval(each) for each in loops])
        return [self._apply(Op.BNE if sense else Op.BEQ, test, ast.Constant(0))]

    def _over(self, loops):
        """The branches that leave :func:`.shape.over` with false."""
        branches = []
        for name in loops:
            self._block(ast.parse(f"t.{name}0 = t.{name}0 + t.{name}_t").body)
            end = ast.parse(f"t.{name}0 == {'.'.join(LOOP_ENDS[name])}", mode="eval").body
            branches += self._branch(end, False)
            if name != loops[-1]:
                self._block(ast.parse(f"t.{name}0 = 0").body)
        return branches

    def _known(self, test):
        """The condition's value if switches of the configuration alone decide it, else None."""
        match test:
            case ast.BoolOp(op=op, values=values):
                known = [self._known(value) for value in values]
                decides = isinstance(op, ast.Or)
                return decides if decides in known else None if None in known else not decides
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                known = self._known(operand)
                return None if known is None else not known
        value = self._fold(test)
        return None if value is None else bool(value)

    # --- statements ------------------------------------------------------------------------------

    def _parse(self, function):
        """Its tree; the steps that it calls are kept by name."""
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        for name in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - self.steps.keys():
            step = function.__globals__.get(name)
            if inspect.isfunction(step) and step not in (align, over):
                self.steps[name] = self._parse(step)
        return tree

    def compile(self, fields: set[str] | None = None) -> Program:
        """The program; it loads the task's ``fields``, by default all that any step names."""
        if fields is None:
            attributes = (n for tree in (self.main, *self.steps.values()) for n in ast.walk(tree))
            fields = {n.attr for n in attributes if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "c"}
        for name in sorted(fields):
            self._emit(Op.LOAD, self._named(f"c.{name}"), TASK_FIELDS.index(name))
        self._block(self.main.body)
        self._emit(Op.END)
        return self.program

    def _block(self, statements):
        for statement in statements:
            self._statement(statement)

    def _statement(self, node):
        match node:
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Assign(targets=[ast.Name(id="t")], value=ast.Call(func=ast.Name(id="SimpleNamespace"), args=[])):
                pass
            case ast.Assign(targets=[ast.Name() | ast.Attribute(value=ast.Name(id="t")) as target], value=value):
                self._into(self._named(ast.unparse(target)), value)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=given, keywords=[])) if self._fits(name, given):
                self._block(self.steps[name].body)
            case ast.If(test=test, body=body, orelse=orelse) if (known := self._known(test)) is not None:
                self._block(body if known else orelse)
            case ast.If(test=test, body=body, orelse=orelse):
                branches = self._branch(test, False)
                self._block(body)
                if orelse:
                    to_end = [self._emit(Op.BEQ)]
                    self._land(branches)
                    self._block(orelse)
                    branches = to_end
                self._land(branches)
            case ast.While(test=test, body=body, orelse=[]):
                top = len(self.program.instructions)
                branches = self._branch(test, False)
                self._block(body)
                self._emit(Op.BEQ, top)
                self._land(branches)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="m"), attr="fail"), args=[code])):
                self._emit(Op.FAIL, a=self._fold(code))
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="m"), attr=engine), keywords=given)):
                self._push(engine, given)
            case _:
                raise SyntaxError(f"line {node.lineno}: {ast.unparse(node)} is outside the compiled subset")

    def _fits(self, name, given):
        """Return whether a step of this name takes just these arguments, under the same names."""
        step = self.steps.get(name)
        return step is not None and [ast.unparse(each) for each in given] == [each.arg for each in step.args.args]

    def _push(self, engine, given):
        slots = {bits.name: i for i, bits in enumerate(ENGINES[engine])}
        for keyword in given:
            if self._fold(keyword.value) != 0:
                self._into(_Slot(slots[keyword.arg]), keyword.value)
        self._emit(Op.PUSH, a=list(ENGINES).index(engine))


def compile_program(config: Config, function=tile_program) -> Program:
    """``function`` (of c, k, m) as microcode for ``config``; raises SyntaxError outside the subset."""
    names = vars(constants(config))
    draft = _Compiler(config, names, function)
    draft.compile()
    return _Compiler(config, names, function).compile(draft.fields)
