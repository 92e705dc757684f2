"""Estimates of the registers that the machine's compiler gives a thread, where no machine code says it."""

from __future__ import annotations

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import Alloc, Atomic, CallStmt, For, Launch, Stmt, Store, While
from tilelang.ir.visit import expressions, loads_of, sub_statements
from tilelang.targets.machine import Machine, Rates

_ADDRESS_REGISTERS = 20  # for addresses, counters and parts of expressions
_REGISTER_BYTES = 4


def expected_registers(launch: Launch, machine: Machine, rates: Rates) -> int:
    """The registers of a thread: those of the arrays that are live at the same time, and some more."""
    ranges = _LiveRanges()
    ranges.visit(launch.body)
    changes: dict[int, int] = {}
    for buffer, (first, last) in ranges.of.items():
        size = -(-(buffer.bytes or 0) // _REGISTER_BYTES)
        changes[first] = changes.get(first, 0) + size
        changes[last + 1] = changes.get(last + 1, 0) - size
    live = most = 0
    for place in sorted(changes):
        live += changes[place]
        most = max(most, live)
    limit = machine.registers_per_multiprocessor // max(launch.num_threads, 1)
    return min(rates.most_registers, limit, max(rates.least_registers, most + _ADDRESS_REGISTERS))


class _LiveRanges:
    """From where to where in the program each array of a thread is used.

    Attributes:
        of: The numbers of the first and the last statement, by array.
    """

    def __init__(self) -> None:
        self.of: dict[Buffer, tuple[int, int]] = {}
        self._number = 0
        self._loops: list[tuple[int, set[Buffer]]] = []  # where they begin, and the arrays that are made inside

    def visit(self, stmt: Stmt) -> None:
        """Numbers a statement and all below it."""
        self._number += 1
        if isinstance(stmt, Alloc):
            if self._loops:
                self._loops[-1][1].add(stmt.buffer.storage)
            return
        for buffer in _touched(stmt):
            storage = buffer.storage
            if storage.scope in (Scope.LOCAL, Scope.VAR):
                first, _ = self.of.get(storage, (self._number, self._number))
                self.of[storage] = (first, self._number)
        if isinstance(stmt, For | While):
            start = self._number
            self._loops.append((start, set()))
            for child in sub_statements(stmt):
                self.visit(child)
            _, own = self._loops.pop()
            if self._loops:
                self._loops[-1][1].update(own)
            for buffer, (first, last) in self.of.items():
                if last >= start and buffer not in own:  # its value passes from iteration to iteration
                    self.of[buffer] = (min(first, start), self._number)
            return
        for child in sub_statements(stmt):
            self.visit(child)


def _touched(stmt: Stmt) -> list[Buffer]:
    """The buffers that a statement itself reads or writes."""
    found = [load.buffer for root in expressions(stmt) for load in loads_of(root)]
    match stmt:
        case Store(buffer=buffer) | Atomic(buffer=buffer):
            found.append(buffer)
        case CallStmt(args=args):
            found += [arg.buffer for arg in args if hasattr(arg, "buffer")]
    return found
