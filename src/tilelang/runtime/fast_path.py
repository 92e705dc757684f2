"""The fast path of calls: a call whose key has a plan skips `bind`.

The arguments are checked by `call_checker.cpp` if it is loaded, otherwise in Python. Invariant: calls that the fast
checks do not accept take the slow path.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from tilelang.runtime.argument_table import ArgumentTable, Key, Match
from tilelang.runtime.arguments import Bound
from tilelang.runtime.checker import Checker
from tilelang.runtime.native_call import NativeCall, NativePlan, NotNative

MISSED: Final = object()  # result of an attempt whose arguments were not recognized

_MAX_PLANS = 1024  # per kernel
_CALLS_BEFORE_BUILDING = 8  # of a kernel, in Python, before the checker is built: few kernels are called often


class Plan(Protocol):
    """Executes calls with one key."""

    def start(self, match: Match) -> Any:
        """Allocates the outputs and starts the kernel; returns the result of the call, or `MISSED`."""

    def native(self, checker: Checker) -> NativePlan:
        """The same as data for `call_checker.cpp`.

        Raises:
            NotNative: It cannot be started from machine code.
        """


class Builder(Protocol):
    """Builds the checker in the background."""

    def get(self) -> Checker | None:
        """The checker, if it is built."""

    def start(self) -> None:
        """Starts the build, once."""

    def when_ready(self, action: Callable[[], None]) -> None:
        """Calls a function when the checker is built."""


class FastPath:
    """The fast path of one kernel.

    Calls that pass the outputs, too, have a fast path of their own, to which this one hands them.

    Args:
        table: The fast checks of its arguments.
        slow_path: Executes a call, or raises.
        builder: Builds the checker.
        on_change: Called with `call` and `attempt` whenever they change: `call` executes a call, and `attempt` does the
            same but returns `MISSED` where `call` would take the slow path; it is None while all calls do.
    """

    def __init__(
        self,
        table: ArgumentTable,
        slow_path: Callable[[Any], Any],
        builder: Builder,
        on_change: Callable[[Callable[..., Any], Callable[..., Any] | None], None],
    ) -> None:
        self._table, self._slow_path, self._builder, self._on_change = table, slow_path, builder, on_change
        self._plans: dict[Key, Plan] = {}
        self._native: NativeCall | None = None
        self._can_be_native = True
        self._calls = 0
        self._lock = threading.Lock()
        self._outputs, self._parameters = table.signature.outputs, len(table.signature.params)
        self._outputs_given: FastPath | None = None
        self._attempt_with_outputs: Callable[..., Any] | None = None
        if self._outputs:
            self._outputs_given = FastPath(table.with_outputs_given(), slow_path, builder, self._use_with_outputs)

    def add_plan(self, bound: Bound, plan: Plan) -> None:
        """Adds a plan for calls with the key of a bound call; it makes no outputs if that call has passed them."""
        if bound.outputs_given and self._outputs_given is not None:
            self._outputs_given.add_plan(bound, plan)
            return
        key = self._table.key(bound) if self._table.is_possible else None
        if key is None:
            return
        with self._lock:
            native = self._add_native_plan(key, plan)
            if native is not None:
                self._on_change(native.call, native.attempt)
                return
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[key] = plan
            if self._native is None:
                self._on_change(self.call, self.attempt)

    def call(self, *args: Any) -> Any:
        """A call, checked in Python."""
        return self._call(args)

    def attempt(self, *args: Any) -> Any:
        """Like `call`, but returns `MISSED` instead of taking the slow path."""
        return self._attempt(args)

    def _call(self, args: Any) -> Any:
        result = self._attempt(args)
        return self._slow_path(args) if result is MISSED else result

    def _attempt(self, args: Any) -> Any:
        if self._attempt_with_outputs is not None and len(args) == self._parameters:
            result = self._attempt_with_outputs(*args)
            given = [args[index] for index in self._outputs]
            return result if result is MISSED else given[0] if len(given) == 1 else given
        match = self._table.match(args) if self._plans else None
        plan = None if match is None else self._plans.get(match.key)
        if match is None or plan is None:
            return MISSED
        self._calls += 1
        if self._calls == _CALLS_BEFORE_BUILDING and self._can_be_native:
            self._builder.start()
            self._builder.when_ready(self._drop_plans)
        return plan.start(match)

    def _use_with_outputs(self, _: Callable[..., Any], attempt: Callable[..., Any] | None) -> None:
        self._attempt_with_outputs = attempt
        if self._native is None:  # which hands on what it does not recognize
            self._on_change(self.call, self.attempt)

    def _drop_plans(self) -> None:
        """Drops the plans once the checker is built: later calls take the slow path, which adds native plans."""
        with self._lock:
            self._plans = {}
            self._on_change(lambda *args: self._slow_path(args), None)

    def _add_native_plan(self, key: Key, plan: Plan) -> NativeCall | None:
        """Adds a plan to the checker and gives the calls of it; None if it does not support the key or the plan."""
        checker = self._builder.get() if self._can_be_native else None
        if checker is None:
            return None
        try:
            native = self._native
            if native is None or not native.supports(key):  # the first plan, or torch was imported since
                native = NativeCall(self._table, checker, (self._call, self._attempt))
            if not native.supports(key):
                return None
            if not native.add_plan(key, plan):  # the table is full
                native = NativeCall(self._table, checker, (self._call, self._attempt))
                native.add_plan(key, plan)
        except NotNative:
            self._can_be_native = False
            return None
        self._native = native
        return native
