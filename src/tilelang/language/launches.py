"""The statements of a function as a sequence of launches.

Takes what was recorded outside and inside of `T.Kernel`, gives the body of the function. Invariant: after it, only
launches and workspaces stand at the level of the function; names of memory stand in the kernels that use them.
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import INT32
from tilelang.errors import Loc
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Var
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, Bind, Launch, Seq, Stmt
from tilelang.ir.visit import accessed_buffers, expressions, substitute, substitute_stmt, variables_of, walk


def with_launches(statements: list[Stmt], loc: Loc) -> Stmt:
    """The body of a function: statements outside of any kernel run as a grid of one block, in order with the kernels.

    What gives memory a name (`T.make_tensor`, `T.reshape`, `T.Tensor(shape, dtype, buf.data)`) is repeated in each
    kernel that uses the name.
    """
    body: list[Stmt] = []
    loose: list[Stmt] = []
    names: list[Stmt] = []

    repeated: set[Stmt] = set()  # the declarations that stand in a kernel already

    def add(launch: Launch) -> None:
        used = _used(names, launch.body)
        if used:
            own = statements_of(launch.body)
            launch = dataclasses.replace(launch, body=Seq((*used, *own), loc=launch.loc))
            launch = _renamed(launch, [stmt for stmt in used if stmt in repeated])
            repeated.update(used)
        body.append(launch)

    def flush() -> None:
        if all(isinstance(stmt, Bind) for stmt in loose):
            loose.clear()  # values under names, which have no effect
        else:
            block = Var("bx", INT32, index=True)
            add(Launch((block,), (Const(1, INT32),), (128, 1, 1), as_body(list(loose), loc), loc=loose[0].loc))
            loose.clear()

    for statement in statements:
        if isinstance(statement, Launch):
            flush()
            add(statement)
        elif isinstance(statement, Alloc) and _names_memory(statement.buffer):
            names.append(statement)
        elif isinstance(statement, Alloc) and statement.buffer.scope is Scope.GLOBAL:
            flush()
            body.append(statement)
        elif isinstance(statement, Bind):
            names.append(statement)
            loose.append(statement)
        else:
            loose.append(statement)
    if any(isinstance(s, Launch) for s in body) and all(isinstance(s, Alloc | Bind) for s in loose):
        loose.clear()  # nothing there has an effect
    flush()
    return Seq(tuple(body), loc=loc)


def _names_memory(buffer: Buffer) -> bool:
    """Whether a buffer is a name of memory that exists without it, on or off the chip."""
    return buffer.address is not None or buffer.view_of is not None and not buffer.scope.on_chip


def _renamed(launch: Launch, declarations: list[Stmt]) -> Launch:
    """The launch with variables and buffers of its own in the place of those that another one declares, too."""
    if not declarations:
        return launch
    values: dict[Var, Var] = {}
    buffers: dict[Buffer, Buffer] = {}
    for stmt in declarations:
        if isinstance(stmt, Bind):
            values[stmt.var] = Var(stmt.var.name, stmt.var.dtype, stmt.var.index)
        elif isinstance(stmt, Alloc):
            old = stmt.buffer
            strides = None if old.strides is None else tuple(substitute(e, values) for e in old.strides)
            buffers[old] = dataclasses.replace(
                old,
                shape=tuple(substitute(extent, values) for extent in old.shape),
                strides=strides,
                view_of=old.view_of and buffers.get(old.view_of, old.view_of),
                address=None if old.address is None else substitute(old.address, values),
            )
    body = substitute_stmt(launch.body, values, buffers)
    assert isinstance(body, Seq)
    own = (
        dataclasses.replace(s, var=values[s.var]) if isinstance(s, Bind) and s.var in values else s for s in body.body
    )
    hints = launch.hints
    hints = dataclasses.replace(
        hints,
        layouts=tuple((buffers.get(buffer, buffer), layout) for buffer, layout in hints.layouts),
        safe_values=tuple((buffers.get(buffer, buffer), value) for buffer, value in hints.safe_values),
        l2_hit_ratios=tuple((buffers.get(buffer, buffer), ratio) for buffer, ratio in hints.l2_hit_ratios),
    )
    return dataclasses.replace(launch, body=Seq(tuple(own), loc=body.loc), hints=hints)


def _used(names: list[Stmt], body: Stmt) -> list[Stmt]:
    """Those of the declarations that a kernel's body uses, in order."""
    if not names:
        return []
    buffers: set[Buffer] = set()
    variables: set[Var] = set()

    def use(stmt: Stmt) -> None:
        for buffer in accessed_buffers(stmt):
            buffers.add(buffer)
        for root in expressions(stmt):
            variables.update(variables_of(root))
        if isinstance(stmt, Alloc) and stmt.buffer.view_of is not None:
            buffers.add(stmt.buffer.view_of)

    bound = {stmt.var for stmt in walk(body) if isinstance(stmt, Bind)}
    for stmt in walk(body):
        use(stmt)
    found: list[Stmt] = []
    for stmt in reversed(names):
        if isinstance(stmt, Alloc) and stmt.buffer in buffers:
            found.append(stmt)
            use(stmt)
        elif isinstance(stmt, Bind) and stmt.var in variables - bound:
            found.append(stmt)
            use(stmt)
    return found[::-1]
