"""Python syntax tree to Python syntax tree: control flow and assignments become calls on the frame.

Takes the `def` a user wrote, gives a function of the same signature which, run under a stager, records a kernel.
Plain Python stays plain Python: whether a loop or branch is staged is decided when its header is evaluated. Every
statement first reports its place, and line numbers are kept, so that errors from anywhere name the user's line.

The rewritten shapes, with `__f` the frame (see `language.frame`):

    x = e                 x = __f.assign("x", e, lambda: x)
    for i in it: B        __r = __f.loop(("i",), it);  carry;  for i in __r.run(): B;  leave
    while c: B            __r = __f.while_loop(lambda: c);  carry;  for _ in __r.run(): B;  leave
    if c: B else: D       __r = __f.branch(c);  carry;  if __r.then(): B;  if __r.orelse(): reset; D;  __r.end();  leave
    carry                 if __r.carry("x", lambda: x): x = __r.value      for every name that B or D assigns
    reset                 if __r.reset("x", lambda: x): x = __r.value  for every name that B assigns
    leave                 if __r.leave("x", lambda: x): x = __r.value
"""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping, Sequence

from tilelang.errors import Loc, StagingError
from tilelang.language.names import LOOPS, assigned_names, binding_counts, flat_names, is_range, parts_of, reborn_names
from tilelang.language.source import FunctionSource, function_source
from tilelang.language.tree_rewriter import TreeRewriter
from tilelang.records import record

FRAME = "__f"
_ENTER = "__tilelang_enter"
_FUNCTION = "__tilelang_function"
_SEVERAL = (ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.DictComp)  # values with parts that one name stands for


@record(slots=True)
class StatementPlace:
    """Where a statement is in the user's text, and which names it binds.

    `unpacks` is true for a `with` whose target is a tuple or list of names.
    """

    loc: Loc
    targets: tuple[str, ...] = ()
    unpacks: bool = False


@record(slots=True)
class Rewritten:
    """A function ready to be staged.

    Attributes:
        function: Same signature as the user's; to be called with a frame entered.
        places: Indexed by the numbers that the rewritten code passes to `frame.at`.
        source: Where it came from.
    """

    function: types.FunctionType
    places: tuple[StatementPlace, ...]
    source: FunctionSource

    @property
    def loc(self) -> Loc:
        """The place of the `def` line."""
        node = self.source.node
        text = self.source.lines[node.lineno - 1].rstrip()
        end = len(text) - len(text.lstrip()) + len(text.strip())
        return Loc(self.source.file, node.lineno, self.source.loc(node).col, node.lineno, end, node.name)


def rewrite(fn: types.FunctionType, enter: object) -> Rewritten:
    """Rewrites a function; `enter()` will be called first thing and returns its frame.

    Raises:
        StagingError: The function holds a construct that has no meaning in a kernel.
    """
    source = function_source(fn)
    rewriter = _Rewriter(source)
    body = rewriter.block(_without_docstring(source.node.body))
    start = ast.parse(f"{FRAME} = {_ENTER}()").body
    definition = ast.FunctionDef(
        name=_FUNCTION,  # not the user's name, which must stay a global or cell for the body
        args=_plain_arguments(source.node.args),
        body=start,
        decorator_list=[],
    )
    # An outer function whose parameters are the free names makes the compiler treat them as cells.
    free = [_ENTER, *fn.__code__.co_freevars]
    factory = ast.FunctionDef(
        name="factory",
        args=ast.arguments(
            posonlyargs=[], args=[ast.arg(n) for n in free], kwonlyargs=[], kw_defaults=[], defaults=[]
        ),
        body=[ast.copy_location(definition, source.node), ast.Return(_load(_FUNCTION))],
        decorator_list=[],
    )
    module = ast.fix_missing_locations(ast.Module(body=[factory], type_ignores=[]))
    definition.body += body  # whose places are known
    code = _inner_code(compile(module, source.file, "exec", dont_inherit=True), "factory", _FUNCTION)
    code = code.replace(co_name=fn.__name__)
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    cells[_ENTER] = types.CellType(enter)
    function = types.FunctionType(
        code, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells[name] for name in code.co_freevars)
    )
    function.__kwdefaults__ = fn.__kwdefaults__
    return Rewritten(function, tuple(rewriter.places), source)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body[0]:
        case ast.Expr(value=ast.Constant(value=str())):
            return body[1:]
    return body


def _plain_arguments(args: ast.arguments) -> ast.arguments:
    """The parameters without annotations and defaults, which were evaluated when the user's `def` ran."""

    def bare(arg: ast.arg | None) -> ast.arg | None:
        return None if arg is None else ast.copy_location(ast.arg(arg.arg), arg)

    none = ast.Constant(None)
    return ast.arguments(
        posonlyargs=[a for a in map(bare, args.posonlyargs) if a],
        args=[a for a in map(bare, args.args) if a],
        vararg=bare(args.vararg),
        kwonlyargs=[a for a in map(bare, args.kwonlyargs) if a],
        kw_defaults=[none if d is not None else None for d in args.kw_defaults],
        kwarg=bare(args.kwarg),
        defaults=[none for _ in args.defaults],
    )


def _inner_code(code: types.CodeType, *path: str) -> types.CodeType:
    for name in path:
        code = next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
    return code


_UNSUPPORTED: dict[str, tuple[str, str]] = {
    "Try": ("`try`", "a kernel cannot catch exceptions; check the condition with `if` or T.device_assert"),
    "TryStar": ("`try`", "a kernel cannot catch exceptions; check the condition with `if` or T.device_assert"),
    "AsyncFor": ("`async for`", "write a plain `for`"),
    "AsyncWith": ("`async with`", "write a plain `with`"),
    "AsyncFunctionDef": ("`async def`", "write a plain `def`"),
    "ClassDef": ("`class`", "define classes outside of the kernel"),
    "Global": ("`global`", "pass values as arguments, or read the global without assigning it"),
    "Nonlocal": ("`nonlocal`", "assign a buffer element or a T.alloc_var instead"),
    "Match": ("`match`", "write if/elif/else"),
    "Yield": ("`yield`", "a kernel is no generator; write a loop, or return values from a @T.macro"),
    "YieldFrom": ("`yield from`", "a kernel is no generator; write a loop, or return values from a @T.macro"),
    "Await": ("`await`", "a kernel cannot wait for coroutines"),
    "NamedExpr": ("`:=`", "assign in a statement of its own"),
    "TypeAlias": ("`type`", "define types outside of the kernel"),
}

_INPLACE = {
    ast.Add: "iadd",
    ast.Sub: "isub",
    ast.Mult: "imul",
    ast.Div: "itruediv",
    ast.FloorDiv: "ifloordiv",
    ast.Mod: "imod",
    ast.Pow: "ipow",
    ast.LShift: "ilshift",
    ast.RShift: "irshift",
    ast.BitOr: "ior",
    ast.BitXor: "ixor",
    ast.BitAnd: "iand",
    ast.MatMult: "imatmul",
}

_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


class _Rewriter(TreeRewriter):
    def __init__(self, source: FunctionSource) -> None:
        self.source = source
        self.places: list[StatementPlace] = []
        self._counts = binding_counts(source.node)
        self._loops: list[str] = []  # names of the loop handles around the current statement
        self._handles = 0
        self._placed: set[ast.AST] = set()  # statements below which every node has a place

    # -- statements ---------------------------------------------------------------------------------------------
    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in statements:
            self._reject(statement)
            new = self.visit(statement)
            for part in new if isinstance(new, list) else [new]:
                self._place_at(part, statement)
                out.append(part)
        return out

    def _place_at(self, part: ast.AST, statement: ast.stmt) -> None:
        """New nodes take the place of the statement they came from; those of an inner block have theirs."""
        place = {name: getattr(statement, name) for name in statement._attributes}
        left: list[ast.AST] = [part]
        while left:
            node = left.pop()
            if node in self._placed:
                continue
            if node._attributes and not hasattr(node, "lineno"):
                node.__dict__.update(place)
            for field in node._fields:
                value = getattr(node, field, None)
                if isinstance(value, ast.AST):
                    left.append(value)
                elif isinstance(value, list):
                    left += [item for item in value if isinstance(item, ast.AST)]
        self._placed.add(part)

    def _reject(self, node: ast.AST) -> None:
        entry = _UNSUPPORTED.get(type(node).__name__)
        if entry is not None:
            what, instead = entry
            raise StagingError(f"{what} has no meaning in a kernel", loc=self.source.loc(node), hint=instead)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        self._reject(node)
        return super().generic_visit(node)

    def _at(
        self, node: ast.AST, end: ast.AST | None = None, targets: tuple[str, ...] = (), *, unpacks: bool = False
    ) -> ast.stmt:
        self.places.append(StatementPlace(self.source.loc(node, end), targets, unpacks))
        return ast.Expr(_call("at", ast.Constant(len(self.places) - 1)))

    def visit_Expr(self, node: ast.Expr) -> Sequence[ast.AST]:
        return [self._at(node), self.generic_visit(node)]

    visit_Delete = visit_Raise = visit_Import = visit_ImportFrom = visit_Expr  # type: ignore[assignment]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node  # a plain helper or a macro, staged when it is called

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        at = self._at(node)
        value = self.visit(node.value) if node.value else ast.Constant(None)
        return [at, ast.Return(_call("return_", value))]

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        at = self._at(node)
        text = ast.unparse(node.test)
        message = self.visit(node.msg) if node.msg else ast.Constant(None)
        return [at, ast.Expr(_call("assert_", self.visit(node.test), _thunk(message), ast.Constant(text)))]

    # -- assignments --------------------------------------------------------------------------------------------
    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        only = node.targets[0]
        at = self._at(node)
        value = self._named(only, node.value)
        if len(node.targets) == 1 and isinstance(only, ast.Name | ast.Subscript | ast.Attribute):
            return [at, *self._unpack(only, value)]
        # Several targets: all values are read before the first name changes, so that swaps mean what they say.
        temporary = self._handle()
        parts = parts_of(only) if len(node.targets) == 1 else None
        out = [at, _store(temporary, _call("snapshot", value, ast.Constant(len(parts) if parts else None)))]
        for target in node.targets:
            out.extend(self._unpack(target, _load(temporary)))
        return out

    def _named(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """The value of an assignment, which says first what each of its parts will be called."""
        targets, values = parts_of(target), parts_of(value)
        if targets is not None and values is not None and len(targets) == len(values):
            return ast.Tuple([self._named(*pair) for pair in zip(targets, values, strict=True)], ast.Load())
        visited: ast.expr = self.visit(value)
        names = flat_names(target) or ()
        if not names or len(names) > 1 and not isinstance(value, ast.ListComp | ast.GeneratorExp):
            return visited
        naming = _call("naming", _name_tuple(names), ast.Constant(isinstance(value, _SEVERAL)))
        return ast.Subscript(ast.Tuple([naming, visited], ast.Load()), ast.Constant(1), ast.Load())

    def _unpack(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        if isinstance(target, ast.Name):
            return [self._bind(target, value)]
        parts = parts_of(target)
        if parts is not None:
            out: list[ast.stmt] = []
            for index, element in enumerate(parts):
                out.extend(self._unpack(element, ast.Subscript(value, ast.Constant(index), ast.Load())))
            return out
        return [ast.Assign([self._inside(target)], value)]

    def _inside(self, node: ast.expr) -> ast.expr:
        """An expression with its parts rewritten; what Python stores to stays an element or attribute."""
        rewritten = self.generic_visit(node)
        assert isinstance(rewritten, ast.expr)
        return rewritten

    def _bind(self, name: ast.Name, value: ast.expr) -> ast.stmt:
        arguments = [ast.Constant(name.id), value]
        if self._counts[name.id] > 1:
            arguments.append(_thunk(_load(name.id)))
        return ast.Assign([ast.copy_location(ast.Name(name.id, ast.Store()), name)], _call("assign", *arguments))

    def visit_AugAssign(self, node: ast.AugAssign) -> Sequence[ast.AST]:
        at = self._at(node)
        if not isinstance(node.target, ast.Name):
            return [at, self.generic_visit(node)]
        inplace = _call("inplace", ast.Constant(_INPLACE[type(node.op)]), _load(node.target.id), self.visit(node.value))
        return [at, self._bind(node.target, inplace)]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        names = (node.target.id,) if isinstance(node.target, ast.Name) else ()
        at = self._at(node, targets=names)
        annotation = self.visit(node.annotation)
        if node.value is None:
            if not names:
                return [at]
            name = names[0]
            declared = _call("declare", ast.Constant(name), annotation, _thunk(_load(name)))
            return [at, ast.Assign([ast.Name(name, ast.Store())], declared)]
        value = _call("annotated", annotation, self.visit(node.value))
        if isinstance(node.target, ast.Name):
            return [at, self._bind(node.target, value)]
        return [at, ast.Assign([self._inside(node.target)], value)]

    # -- control flow -------------------------------------------------------------------------------------------
    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        self._no_else(node, "for")
        targets = flat_names(node.target)
        handle = self._handle()
        at = self._at(node, node.iter, targets or ())
        if is_range(node.iter):
            assert isinstance(node.iter, ast.Call)
            arguments = [self.visit(a) for a in node.iter.args]
            iterable = ast.Call(ast.Attribute(_load(FRAME), "range_", ast.Load()), [node.iter.func, *arguments], [])
        else:
            iterable = self.visit(node.iter)
        begin = _store(handle, _call("loop", _name_tuple(targets or ()), iterable))
        body = self._loop_body(handle, node.body)
        loop = ast.For(node.target, _method(handle, "run"), [at, *body], [])
        carried = assigned_names(node.body, loop_targets=False)
        names = assigned_names([node])
        return [at, begin, *self._carry(handle, carried, node.body), loop, at, *self._rebound(handle, "leave", names)]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self._no_else(node, "while")
        handle = self._handle()
        at = self._at(node, node.test)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if endless and not any(isinstance(n, ast.Break) for n in ast.walk(node)):
            raise StagingError(
                f"`while {ast.unparse(node.test)}` without `break` never ends",
                loc=self.source.loc(node, node.test),
                hint="state the condition, or leave the loop with `break`",
            )
        test = _call("forever") if endless else self.visit(node.test)
        begin = _store(handle, _call("while_loop", _thunk(test)))
        body = self._loop_body(handle, node.body)
        unused = ast.Name(self._handle(), ast.Store())
        loop = ast.For(unused, _method(handle, "run"), [at, *body], [])
        carried = assigned_names(node.body, loop_targets=False)
        names = assigned_names(node.body)
        return [at, begin, *self._carry(handle, carried, node.body), loop, at, *self._rebound(handle, "leave", names)]

    def _loop_body(self, handle: str, body: list[ast.stmt]) -> list[ast.stmt]:
        self._loops.append(handle)
        try:
            return self.block(body)
        finally:
            self._loops.pop()

    def _no_else(self, node: ast.For | ast.While, what: str) -> None:
        if node.orelse:
            raise StagingError(
                f"`{what} ... else` has no meaning in a kernel",
                loc=self.source.loc(node.orelse[0]),
                hint="set a T.alloc_var flag before `break` and test it after the loop",
            )

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        return [self._at(node), ast.If(_method(self._loops[-1], "break_"), [ast.Break()], [])]

    def visit_Continue(self, node: ast.Continue) -> list[ast.stmt]:
        return [self._at(node), ast.If(_method(self._loops[-1], "continue_"), [ast.Continue()], [])]

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        handle = self._handle()
        at = self._at(node, node.test)
        begin = _store(handle, _call("branch", self.visit(node.test)))
        then_names = assigned_names(node.body, loop_targets=False)
        else_names = assigned_names(node.orelse, loop_targets=False)
        carried = tuple(dict.fromkeys([*then_names, *else_names]))
        names = assigned_names([*node.body, *node.orelse])
        carry = self._carry(handle, carried, [], set(then_names) & set(else_names))
        then = ast.If(_method(handle, "then"), self.block(node.body), [])
        second = [*self._rebound(handle, "reset", then_names), *self.block(node.orelse)] if node.orelse else []
        orelse = ast.If(_method(handle, "orelse"), second or [ast.Pass()], [])
        end = ast.Expr(_method(handle, "end"))
        return [at, begin, *carry, then, orelse, at, end, *self._rebound(handle, "leave", names)]

    def visit_With(self, node: ast.With) -> list[ast.stmt]:
        targets = tuple(n for item in node.items if item.optional_vars for n in flat_names(item.optional_vars) or ())
        unpacks = any(isinstance(item.optional_vars, ast.Tuple | ast.List) for item in node.items)
        at = self._at(node, node.items[-1].context_expr, targets, unpacks=unpacks)
        items = [ast.withitem(self.visit(i.context_expr), i.optional_vars) for i in node.items]
        construct = next(filter(None, map(_staged_block, node.items)), "")
        if not construct:
            return [at, ast.With(items, self.block(node.body))]
        handle = self._handle()
        begin = _store(handle, _call("named", ast.Constant(construct)))
        carried = assigned_names(node.body, loop_targets=False)
        block = ast.With([*items, ast.withitem(_load(handle))], self.block(node.body))
        carry = self._carry(handle, carried, node.body if construct in LOOPS else [])
        return [at, begin, *carry, block, at, *self._rebound(handle, "leave", assigned_names(node.body))]

    def _carry(
        self, handle: str, names: Sequence[str], body: Sequence[ast.stmt], both: set[str] | None = None
    ) -> list[ast.stmt]:
        """Names that the staged body assigns become mutable scalars before it."""
        reborn = reborn_names(body)
        modes = {name: "both" if both and name in both else "reborn" if name in reborn else "" for name in names}
        return self._rebound(handle, "carry", names, modes)

    def _rebound(
        self, handle: str, method: str, names: Sequence[str], modes: Mapping[str, str] | None = None
    ) -> list[ast.stmt]:
        """Rebinds the names of which a method of the handle says so; it may take a mode for each."""
        out: list[ast.stmt] = []
        for name in names:
            more = () if modes is None else (ast.Constant(modes[name]),)
            test = _method(handle, method, ast.Constant(name), _thunk(_load(name)), *more)
            out.append(ast.If(test, [_store(name, _method_value(handle))], []))
        return out

    def _handle(self) -> str:
        self._handles += 1
        return f"__r{self._handles}"

    # -- expressions --------------------------------------------------------------------------------------------
    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return ast.copy_location(_call(name, *(_thunk(self.visit(v)) for v in node.values)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return ast.copy_location(_call("not_", self.visit(node.operand)), node)
        return self._inside(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test, a, b = self.visit(node.test), self.visit(node.body), self.visit(node.orelse)
        return ast.copy_location(_call("if_exp", test, _thunk(a), _thunk(b)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        same = ast.Is | ast.IsNot
        if len(node.ops) == 1 and isinstance(node.ops[0], same) and isinstance(node.comparators[0], ast.Constant):
            left = _call("known", self.visit(node.left), node.comparators[0])
            return ast.copy_location(ast.Compare(left, node.ops, node.comparators), node)
        if len(node.ops) == 1 or not all(type(op) in _COMPARE for op in node.ops):
            return self._inside(node)
        ops = _name_tuple([_COMPARE[type(op)] for op in node.ops])
        operands = [_thunk(self.visit(c)) for c in node.comparators]
        return ast.copy_location(_call("compare", self.visit(node.left), ops, *operands), node)


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _store(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _call(method: str, *arguments: ast.expr) -> ast.Call:
    return _method(FRAME, method, *arguments)


def _method(receiver: str, method: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(_load(receiver), method, ast.Load()), list(arguments), [])


def _method_value(handle: str) -> ast.expr:
    return ast.Attribute(_load(handle), "value", ast.Load())


def _thunk(value: ast.expr) -> ast.expr:
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(empty, value)


def _name_tuple(names: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(n) for n in names], ast.Load())


def _staged_block(item: ast.withitem) -> str:
    """Which of the blocks that are staged a `with` opens; empty for others, such as `T.Kernel`."""
    match item.context_expr:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in (*LOOPS, "If", "Then", "Else"):
            return name
    return ""
