"""Every error a user can meet, and the source positions that errors carry.

Takes positions in the user's program, gives exceptions that render themselves with file, line and caret.
Invariant: whatever goes wrong because of a user's program or call leaves the package as one
`TileLangError`; a `CompilerBug` says that the fault is ours.

Programs also catch Python's own exceptions around mistakes. A class here therefore derives from the built-in exceptions
that fit every raise of it (`ProgramError` is a `ValueError`, `ArgumentError` is a `RuntimeError`, a `ValueError` and a
`TypeError`); where only some raises of `StagingError`, `ProgramError` or `OptionError` fit one, the subclass named
after it is raised instead (`ProgramTypeError`). What derives from `AttributeError` cannot derive from `ImportError`, so
`UnknownName` has two subclasses.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import sys
import warnings
from collections.abc import Iterable
from types import CodeType, FrameType, TracebackType

from tilelang.records import record

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STANDARD_LIBRARY = os.path.dirname(functools.__file__) + os.sep
_LIBRARIES = tuple(os.path.join("site-packages", name, "") for name in ("numpy", "torch"))


@record(slots=True)
class Loc:
    """A place in the user's program; used as a context manager it marks errors that pass through.

    Python's own error for recursion becomes a `ProgramError`: everything that treats a statement recurses over its
    expressions.

    Lines count from 1 and columns from 0, in characters; `end_col` is exclusive.
    `caller` is the place from which the surrounding macro was called.
    """

    file: str
    line: int
    col: int = 0
    end_line: int = 0
    end_col: int = 0
    function: str = ""
    caller: Loc | None = None

    def __enter__(self) -> Loc:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is not None:
            self.mark(error)

    def mark(self, error: BaseException) -> None:
        """Gives an error this place if it has none.

        Raises:
            ProgramError: In place of an error for recursion.
        """
        if isinstance(error, TileLangError) and error.loc is None and self.file:
            error.loc = self
        if isinstance(error, RecursionError) and self.file:
            raise ProgramError(
                "an expression of this statement is nested too deeply",
                loc=self,
                hint="give names to its parts, as in `part = a + b`, or write a sum of many terms as a loop",
            ) from None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "<unknown>"

    def is_same_place(self, other: Loc) -> bool:
        """Whether both are the same text of a program, wherever it was called from."""
        return (self.file, self.line, self.col) == (other.file, other.line, other.col)

    def render(self) -> str:
        """The source line with a caret under the place, and the chain of macro calls below it."""
        if not self.file:
            return ""
        gutter = " " * len(str(self.line))
        lines = [f"{gutter}--> {self.file}:{self.line}:{self.col + 1}"]
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if text:
            last = self.end_col if self.end_line in (0, self.line) else len(text)
            width = max(1, min(last, len(text)) - self.col)
            lines.append(f"{self.line} | {text}")
            lines.append(f"{gutter} | {' ' * self.col}{'^' * width}")
        caller, times = self.caller, 1
        while caller is not None and caller.caller is not None and caller.is_same_place(caller.caller):
            caller, times = caller.caller, times + 1
        if caller is not None:
            lines.append(f"{gutter} called from" + (f", {times} times" if times > 1 else ""))
            lines.append(caller.render())
        return "\n".join(lines)


NOWHERE = Loc("", 0)


@record(slots=True)
class Note:
    """A further remark on an error, with a place of its own where it has one."""

    text: str
    loc: Loc | None = None


class TileLangError(Exception):
    """The root of all errors of this package.

    Args:
        message: What was found and what is needed, starting with the construct at fault.
        loc: The place in the user's program; filled in by the innermost `with loc:` otherwise.
        notes: Further places that take part in the error.
        hint: What to write instead, where we know it.
    """

    def __init__(self, message: str, *, loc: Loc | None = None, notes: tuple[Note, ...] = (), hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.loc = loc
        self.notes = notes
        self.hint = hint
        self._calling_line = calling_line()

    def __str__(self) -> str:
        parts = [self.message]
        place = self.loc if self.loc is not None and self.loc.file else self._calling_line
        if place is not None:
            parts.append(place.render())
        for note in self.notes:
            parts.append(f"note: {note.text}")
            if note.loc is not None and note.loc.file:
                parts.append(note.loc.render())
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


def calling_line() -> Loc | None:
    """The line of the user's program that called into this package: the place of what has no better one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else _place_in(frame.f_code, frame.f_lasti, frame.f_lineno)


def raising_line(error: BaseException) -> Loc | None:
    """The innermost line of the user's program among those through which an exception came."""
    place, frames = None, error.__traceback__
    while frames is not None:
        code = frames.tb_frame.f_code
        if is_user_code(code.co_filename):
            place = _place_in(code, frames.tb_lasti, frames.tb_lineno)
        frames = frames.tb_next
    return place


def _place_in(code: CodeType, instruction: int, line: int) -> Loc:
    """The place of an instruction of a function."""
    end_line, column, end_column = line, 0, 0
    if hasattr(code, "co_positions"):  # from Python 3.11 on, code objects have the columns of instructions
        place = next(itertools.islice(code.co_positions(), instruction // 2, None), (None, None, None, None))
        if None not in place:
            line, end_line, column, end_column = place  # type: ignore[assignment]
    return Loc(code.co_filename, line, column, end_line, end_column, code.co_name)


def is_user_code(file: str) -> bool:
    """Whether a file is neither this package, nor code it generated, nor the standard library, NumPy or torch."""
    if file.startswith(("<tilelang", "<frozen ", _PACKAGE)) or any(folder in file for folder in _LIBRARIES):
        return False
    return not file.startswith(_STANDARD_LIBRARY) or "site-packages" in file


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known name that is most like one that is not known; empty if none is like it.

    Args:
        name: The one that is not known.
        known: The others.
        cutoff: How much like it they must be, from 0 to 1.
    """
    import difflib  # noqa: PLC0415  most programs are free of mistakes

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), "")


class ProgramWarning(UserWarning):
    """A legal program that costs more, or does something else, than its text suggests."""


def warn(message: str, loc: Loc, *, notes: tuple[Note, ...] = (), hint: str = "") -> None:
    """Issues a `ProgramWarning` at a place of the user's program; by default Python shows it once for each place.

    Args:
        message: What was found, starting with the construct it is about.
        loc: The place.
        notes: Further places that take part.
        hint: What to write instead.
    """
    text = str(TileLangError(message, loc=loc, notes=notes, hint=hint))
    warnings.warn_explicit(text, ProgramWarning, loc.file or "<unknown>", loc.line, registry=_SHOWN)


_SHOWN: dict[str | tuple[str, type[Warning], int], int] = {}  # what Python has shown already, as it notes it


class StagingError(TileLangError):
    """Python that cannot be turned into a kernel."""


class StagingTypeError(StagingError, TypeError):
    """A call with missing, surplus or unknown arguments, or with arguments of the wrong type."""


ARRAY_HINT = (
    "make the array a parameter of the kernel, `W: T.Tensor(shape, dtype)`, and pass it in the call; "
    "one number of it, known now, is float(W[3])"
)


NONE_HINT = "what changes memory gives no value; T.atomic_add(..., return_prev=True) gives the one before"


class OperandError(StagingTypeError):
    """Something other than a number or an expression, where one is needed.

    Attributes:
        operand: What was given, and `shown` is its text.
        parameter: The parameter that it was given for, where a function of the language says so.
    """

    def __init__(self, operand: object) -> None:
        shown, hint = f"{type(operand).__name__} {operand!r:.60}", ""
        if operand is None:
            shown, hint = "None", NONE_HINT
        elif hasattr(operand, "shape") and hasattr(operand, "dtype"):
            shown, hint = f"an array of shape {tuple(operand.shape)}", ARRAY_HINT
        super().__init__(f"expected a number or an expression, got {shown}", hint=hint)
        self.operand = operand
        self.shown = shown
        self.parameter = ""


class StagingValueError(StagingError, ValueError):
    """A call with an argument of the right type and a value that is not accepted."""


class StagingRuntimeError(StagingError, RuntimeError):
    """A construct that does not fit the rest of the function that is being staged."""


class StagingAssertionError(StagingError, AssertionError):
    """An `assert` of the function that failed while it was staged."""


class TuningSubjectError(StagingAssertionError, StagingValueError):
    """A function to be tuned that makes no kernels."""


def staging_error_kind(error: Exception) -> type[StagingError]:
    """The kind of `StagingError` that stands for another exception; it is caught where that would have been caught."""
    kinds = (StagingTypeError, StagingValueError, StagingAssertionError, StagingRuntimeError)
    return next((kind for kind in kinds if isinstance(error, kind.__bases__[1])), StagingError)


class JITNoBuilderError(StagingRuntimeError):
    """A name of the language that is used where no kernel is being staged."""


class ProgramError(TileLangError, ValueError):
    """A kernel that breaks a rule of the language: shapes, dtypes, scopes, bounds, dependences."""


class ProgramValueError(ProgramError):
    """A value that a rule of the language excludes."""


class ProgramTypeError(ProgramError, TypeError):
    """An operand of a kind that an operation does not take."""


class ProgramAssertionError(ProgramError, AssertionError):
    """Operands that do not fit each other."""


class ProgramRuntimeError(ProgramError, RuntimeError):
    """A rule about the program as a whole that is broken."""


class ProgramIndexError(ProgramError, IndexError):
    """An index that is provably out of range."""


class ProgramNotImplementedError(ProgramError, NotImplementedError):
    """A combination of options that the language does not define."""


class ProgramSizeError(ProgramAssertionError, ProgramValueError):
    """Another view of a buffer with another size in bytes."""


class ProgramSliceError(ProgramRuntimeError, ProgramValueError):
    """A slice that is no contiguous range."""


class ProgramFileError(ProgramError, FileNotFoundError):
    """A file that a program names and that does not exist."""


class ProgramLaneError(ProgramIndexError, ProgramTypeError, ProgramValueError):
    """A lane that cannot be taken out of a vector."""


class UnknownName(ProgramError):
    """A name that the language, a module of it, or an object of it, does not have."""


class UnknownAttribute(UnknownName, AttributeError):
    """An `UnknownName` asked for by attribute access; `hasattr` and `getattr` with a default take it as absent."""


class UnknownModule(UnknownName, ModuleNotFoundError):
    """An `UnknownName` asked for by an import statement."""


class NoLowering(TileLangError, RuntimeError):
    """An operator or name that has no meaning on the chosen target; notes hold every refusal."""


class LayoutConflict(TileLangError, ValueError):
    """Two uses of a fragment need different layouts, and none of them can be given another one."""


class ResourceError(TileLangError, RuntimeError):
    """More of something than the target has."""


class ArgumentError(TileLangError, RuntimeError, ValueError, TypeError):
    """A call with arguments that do not fit the kernel's signature; nothing was launched."""


class OptionError(TileLangError, ValueError):
    """An unknown or ill-formed target, option, environment variable or dtype name."""


class DTypeError(OptionError, TypeError):
    """A value that is no dtype."""


class TargetError(OptionError, AssertionError):
    """A target that is unknown, or not written in a form that is accepted."""


class SimulationError(TileLangError):
    """A kernel that went wrong while an interpreter ran it."""


class OutOfBounds(SimulationError):
    """An access outside a shared, fragment or local buffer."""


class ReadBeforeWrite(SimulationError):
    """A read of memory whose contents are undefined, because nothing was written there."""


class DataRace(SimulationError):
    """Two blocks, or two threads of a block that nothing orders, touched an element, one writing without an atomic."""


class MissingProxyFence(SimulationError):
    """An engine beside the threads touches what a thread wrote, with no proxy fence of the writer between the two."""


class MisalignedAccess(SimulationError):
    """A vector access at an address that is no multiple of its width."""


class BarrierDivergence(SimulationError):
    """A barrier that only some of its threads reach, or reach with different ideas of who takes part."""


class Deadlock(SimulationError):
    """All warps that have not ended wait, and nothing that they wait for can happen."""


class FalseAssumption(SimulationError, RuntimeError):
    """A condition of `T.assume` that does not hold where it stands."""


class DeviceAssertError(TileLangError, RuntimeError):
    """A `T.device_assert` or staged `assert` of a running kernel failed."""


class ToolchainError(TileLangError, RuntimeError):
    """No usable compiler was found, or the compiler rejected our source or crashed."""


class DriverError(TileLangError, RuntimeError):
    """No usable GPU or driver was found, or the driver refused to do something."""


class TuningError(TileLangError, RuntimeError):
    """A search for the fastest configuration that found none; notes hold what happened to the configurations."""


class CacheError(TileLangError):
    """The compile cache's folder cannot be used."""


class CompilerBug(TileLangError):
    """A fault of this package, not of the user's program."""
