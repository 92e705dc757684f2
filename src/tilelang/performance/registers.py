"""Registers of threads: how many blocks a multiprocessor holds with so many, and what the machine's compiler may give.

The warps of a block are spread over the register files of a multiprocessor. Of 5 warps with 184 registers of 32 lanes
each, a multiprocessor with 4 files of 16384 registers holds one block: a file has room for 2 of them.
"""

from __future__ import annotations

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import Alloc, Atomic, CallStmt, For, Launch, Stmt, Store, While
from tilelang.ir.visit import expressions, loads_of, sub_statements
from tilelang.targets.machine import Machine, Rates

_ADDRESS_REGISTERS = 20  # for addresses, counters and parts of expressions
_REGISTER_BYTES = 4
_REGISTER_STEP = 8  # threads get multiples of it


def registers_for_blocks(blocks: int, threads: int, machine: Machine) -> int:
    """The most registers of a thread with which so many blocks of `threads` threads fit on a multiprocessor."""
    warps = -(-blocks * -(-threads // machine.warp_size) // machine.register_files)  # of a register file
    registers = machine.registers_per_multiprocessor // machine.register_files
    return registers // (warps * machine.warp_size) // _REGISTER_STEP * _REGISTER_STEP


def blocks_for_registers(registers: int, threads: int, machine: Machine) -> int:
    """The blocks of `threads` threads with so many registers each that fit on a multiprocessor."""
    of_warp = -(-max(registers, 1) // _REGISTER_STEP) * _REGISTER_STEP * machine.warp_size
    warps = machine.registers_per_multiprocessor // machine.register_files // of_warp * machine.register_files
    return warps // -(-threads // machine.warp_size)


def blocks_at_once(threads: int, shared_bytes: int, registers: int, machine: Machine) -> int:
    """The blocks of `threads` threads with so much shared memory and so many registers that a multiprocessor holds."""
    warps = -(-threads // machine.warp_size)
    limits = [
        machine.blocks_per_multiprocessor,
        machine.threads_per_multiprocessor // (warps * machine.warp_size),
        blocks_for_registers(registers, threads, machine),
        machine.shared_per_multiprocessor // max(1, shared_bytes + machine.reserved_shared),
    ]
    return max(1, min(limits))


def array_registers(launch: Launch) -> int:
    """The registers of a thread for the arrays that are live at the same time."""
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
    return most


def expected_registers(launch: Launch, machine: Machine, rates: Rates) -> int:
    """The registers of a thread: those of the arrays that are live at the same time, and some more."""
    limit = registers_for_blocks(launch.hints.min_blocks_per_sm or 1, launch.num_threads, machine)
    return min(rates.most_registers, limit, max(rates.least_registers, array_registers(launch) + _ADDRESS_REGISTERS))


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
