"""The fast path of calls: those whose key was seen before skip `bind`.

Takes an `ArgumentTable`, the long way, and plans that it made; gives functions of a call's arguments. The machine code
of `call_checker.cpp` looks at them where it is loaded, the walk in Python elsewhere. Invariant: whatever a glance does
not recognize goes the long way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from tilelang.runtime.argument_table import ArgumentTable, Key, Match
from tilelang.runtime.arguments import Bound
from tilelang.runtime.checker import Checker
from tilelang.runtime.native_call import NativeCall, NativePlan, NotNative

MISSED: Final = object()  # the result of an attempt that did not recognize the arguments; nothing has run

_MAX_PLANS = 1024  # per kernel
_CALLS_BEFORE_BUILDING = 8  # of a kernel, in Python: machine code is for calls that go on


class Plan(Protocol):
    """What is known of calls with one key."""

    def start(self, match: Match) -> Any:
        """Makes the outputs and starts the kernel; gives what the call returns, or `MISSED`."""

    def native(self, checker: Checker) -> NativePlan:
        """The same for machine code.

        Raises:
            NotNative: That cannot do it.
        """


class Builder(Protocol):
    """Makes the checker in the background."""

    def get(self) -> Checker | None:
        """The checker, if it is there by now."""

    def start(self) -> None:
        """Begins, if nobody has begun."""

    def when_ready(self, action: Callable[[], None]) -> None:
        """Does something once there is a checker."""


class FastPath:
    """The fast path of one kernel.

    Args:
        table: Of its arguments.
        long_way: Takes the arguments of a call; does everything, or raises.
        builder: Gives the checker.
        use: Gets `call` and `attempt` whenever they change: `call` takes the arguments of a call, and `attempt` does
            the same but answers `MISSED` where `call` would go the long way; None while all calls go it.
    """

    def __init__(
        self,
        table: ArgumentTable,
        long_way: Callable[[Any], Any],
        builder: Builder,
        use: Callable[[Callable[..., Any], Callable[..., Any] | None], None],
    ) -> None:
        self._table, self._long_way, self._builder, self._use = table, long_way, builder, use
        self._plans: dict[Key, Plan] = {}
        self._native: NativeCall | None = None
        self._can_be_native = True
        self._calls = 0
        self._lock = threading.Lock()

    def learn(self, bound: Bound, plan: Plan) -> None:
        """Lets calls like one that was bound take the fast path."""
        key = self._table.key(bound) if self._table.is_possible else None
        if key is None:
            return
        with self._lock:
            native = self._learn_natively(key, plan)
            if native is not None:
                self._use(native.call, native.attempt)
                return
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[key] = plan
            if self._native is None:
                self._use(self.call, self.attempt)

    def call(self, *args: Any) -> Any:
        """A call, looked at in Python."""
        return self._call(args)

    def attempt(self, *args: Any) -> Any:
        """The same, but `MISSED` where that would go the long way."""
        return self._attempt(args)

    def _call(self, args: Any) -> Any:
        result = self._attempt(args)
        return self._long_way(args) if result is MISSED else result

    def _attempt(self, args: Any) -> Any:
        match = self._table.match(args) if self._plans else None
        plan = None if match is None else self._plans.get(match.key)
        if match is None or plan is None:
            return MISSED
        self._calls += 1
        if self._calls == _CALLS_BEFORE_BUILDING and self._can_be_native:
            self._builder.start()
            self._builder.when_ready(self._forget)
        return plan.start(match)

    def _forget(self) -> None:
        """Sends the next calls the long way, which then teaches the checker."""
        with self._lock:
            self._plans = {}
            self._use(lambda *args: self._long_way(args), None)

    def _learn_natively(self, key: Key, plan: Plan) -> NativeCall | None:
        """The calls in machine code, if they can take calls with this key from now on."""
        checker = self._builder.get() if self._can_be_native else None
        if checker is None:
            return None
        try:
            native = self._native
            if native is None or not native.takes(key):  # the first; or torch was imported since
                native = NativeCall(self._table, checker, (self._call, self._attempt))
            if not native.takes(key):
                return None
            if not native.learn(key, plan):  # no room
                native = NativeCall(self._table, checker, (self._call, self._attempt))
                native.learn(key, plan)
        except NotNative:
            self._can_be_native = False
            return None
        self._native = native
        return native
