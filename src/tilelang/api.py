"""The wrapper of all public functions: it words wrong calls, and shortens tracebacks to the user's frames.

Takes a function or class, gives the same one. Invariants: a call with missing, surplus or unknown arguments, or with an
argument of the wrong type, is one error of `errors` that shows the form of the call; an error leaves a public function
without the frames of this package.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, cast, get_args, get_origin

from tilelang.errors import ArgumentError, CompilerBug, OperandError, TileLangError, is_user_code, nearest

F = TypeVar("F", bound=Callable[..., Any])
Test = Callable[[object], bool]

# What Python raises where an operand is of the wrong kind.
_PYTHON_ERRORS = (TypeError, ValueError, AttributeError, LookupError, OverflowError)
_LIBRARIES = tuple(f"{os.sep}{name}{os.sep}" for name in ("numpy", "torch", "ml_dtypes"))


class Words:
    """The words in which the public functions of a part of the package describe a wrong call.

    Args:
        prefix: What stands before a function's name, as in `T.copy`.
        owners: Names of classes as users write them; a class that is missing here is written as it is.
        mismatch: The error for arguments that do not fit.
        unexplained: Makes the error for anything else that Python raised: of the function's name, the arguments as
            text, the form of the call, and that exception.
        kinds: Types besides those of plain Python that arguments are compared with, by name: what is one, and what it
            is called.
    """

    def __init__(
        self,
        prefix: str,
        owners: Mapping[str, str],
        mismatch: type[TileLangError],
        unexplained: Callable[[str, str, str, Exception], TileLangError],
        kinds: Mapping[str, tuple[Test, str]] = MappingProxyType({}),
    ) -> None:
        self.prefix = prefix
        self.owners = owners
        self.mismatch = mismatch
        self.unexplained = unexplained
        self.kinds = kinds

    def name(self, function: Callable[..., object]) -> str:
        """The function as the user writes it."""
        owner, _, name = function.__qualname__.rpartition(".")
        owner = owner.rpartition(".")[2]
        if not owner or owner == "<locals>":
            return f"{self.prefix}{name}"
        shown = self.owners.get(owner, f"{self.prefix}{owner}")
        if name in ("__init__", "__new__", "__call__", "__getitem__"):
            return shown
        return f"{shown}.{name}" if shown else name


def _bug(what: str, arguments: str, form: str, error: Exception) -> TileLangError:
    return CompilerBug(f"{what}({arguments}): {type(error).__name__}: {error}")


PLAIN = Words(
    "",
    {"JITKernel": "kernel", "KernelInspection": "kernel", "Profiler": "profiler", "Layout": "T.Layout",
     "Fragment": "T.Fragment", "PartialFragment": "T.PartialFragment"},
    ArgumentError,
    _bug,
)  # fmt: skip


def public(target: F, words: Words = PLAIN) -> F:
    """A public function, or a class whose public methods are meant, as `@public`.

    Arguments that the function has not refused are compared with their annotations, where these are plain Python types;
    others are for the function to check.
    """
    if not isinstance(target, type):
        return cast(F, _guarded(target, words))
    for name, member in list(vars(target).items()):
        if isinstance(member, types.FunctionType) and (name == "__init__" or not name.startswith("_")):
            setattr(target, name, _guarded(member, words))
    return target


def _guarded(function: Callable[..., Any], words: Words) -> Callable[..., Any]:
    tests: dict[str, Test] | None = None
    names: tuple[str, ...] = ()

    def misfit(args: tuple[Any, ...], keywords: dict[str, Any]) -> TileLangError | None:
        assert tests is not None
        for name, value in (*zip(names, args, strict=False), *keywords.items()):
            if name in tests and not tests[name](value):
                return _mismatch(function, words, args, keywords, name, value)
        return None

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        nonlocal tests, names
        if tests is None:  # not before: most functions are never called
            names, tests = _tests_of(function, words)
        try:
            result = function(*args, **keywords)
            wrong = misfit(args, keywords) if tests else None  # only now: what the function says of them is better
            if wrong is None:
                return result
        except CompilerBug:
            raise
        except TileLangError as error:
            if isinstance(error, OperandError):
                _name_operand(error, function, words, args, keywords)
            error.__traceback__ = None
            if sys.version_info >= (3, 11):
                raise  # which adds no frame
            raise error.with_traceback(None) from error.__cause__
        except _PYTHON_ERRORS as error:
            if _of_user(error, function):
                error.__traceback__ = user_frames(error.__traceback__)
                raise
            wrong = misfit(args, keywords) or _explained(function, words, args, keywords, error)
            if isinstance(wrong, CompilerBug):
                raise wrong from error
        except Exception as error:
            if _of_user(error, function):
                error.__traceback__ = user_frames(error.__traceback__)
            raise
        try:
            raise wrong
        except TileLangError:
            wrong.__traceback__ = None
            raise

    return call


def caller() -> types.FrameType:
    """The frame that called the public function which asks."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    assert frame is not None  # a public function is called from somewhere
    return frame


# -- messages of wrong calls ---------------------------------------------------------------------------------
def _form(function: Callable[..., Any], words: Words) -> str:
    parameters = [p.replace(annotation=p.empty) for p in _parameters(function)]
    import re  # noqa: PLC0415  only wrong calls need it

    form = re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", str(inspect.Signature(parameters)))  # members of enums by name
    return f"the form is {words.name(function)}{form}"


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that users give."""
    parameters = list(inspect.signature(function).parameters.values())
    return parameters[1:] if parameters and parameters[0].name in ("self", "cls") else parameters


def _mismatch(
    function: Callable[..., Any],
    words: Words,
    args: Sequence[object],
    keywords: Mapping[str, object],
    name: str,
    value: object,
) -> TileLangError:
    """The error of an argument whose type its annotation excludes, unless the call as a whole has another form."""
    try:
        inspect.signature(function).bind(*args, **keywords)
    except TypeError as error:
        return _explained(function, words, args, keywords, error)
    needed = _in_words(_annotation(function, inspect.signature(function).parameters[name]), words)
    return words.mismatch(
        f"{words.name(function)}: {name} is {value!r:.40}, not {needed}", hint=_form(function, words)
    )


def _explained(
    function: Callable[..., Any],
    words: Words,
    args: Sequence[object],
    keywords: Mapping[str, object],
    error: Exception,
) -> TileLangError:
    signature = inspect.signature(function)
    what, form = words.name(function), _form(function, words)
    try:
        signature.bind(*args, **keywords)
    except TypeError as mismatch:
        for given in keywords:
            same = [name for name in _SYNONYMS.get(given, "").split() if name in signature.parameters]
            near = same[0] if same else nearest(given, signature.parameters)
            if given not in signature.parameters and near:
                form = f"did you mean {near!r}? {form}"
        return words.mismatch(f"{what}: {mismatch}", hint=form)
    given_args = args[len(signature.parameters) - len(_parameters(function)) :]
    shown = [f"{a!r:.40}" for a in given_args] + [f"{k}={v!r:.40}" for k, v in keywords.items()]
    return words.unexplained(what, ", ".join(shown), form, error)


# keywords that other libraries have for the same thing
_SYNONYMS: Mapping[str, str] = MappingProxyType(
    {
        "axis": "dim", "stages": "num_stages", "num_threads": "threads", "block_size": "threads", "grid": "blocks",
        "trans_a": "transpose_A", "trans_b": "transpose_B", "trans_A": "transpose_A", "trans_B": "transpose_B",
        "outputs": "out_idx", "device": "target", "arch": "target", "backend": "execution_backend",
        "message": "msg", "fill_value": "value",
    }
)  # fmt: skip


def _name_operand(
    error: OperandError,
    function: Callable[..., Any],
    words: Words,
    args: Sequence[object],
    keywords: Mapping[str, object],
) -> None:
    """Says which argument of a call it is that is no number; the innermost function that was given it says so."""
    if "Expr" not in words.kinds or error.parameter:
        return
    try:
        given = inspect.signature(function).bind(*args, **keywords).arguments
    except TypeError:  # there are more arguments than parameters, of which the function says nothing
        return
    for name, value in given.items():
        if value is error.operand:
            error.parameter = name
        elif isinstance(value, tuple) and any(part is error.operand for part in value):
            error.parameter = f"one of {name}"
    if not error.parameter:
        return
    if isinstance(error.operand, tuple | list) and error.parameter.startswith("one of"):
        shown = ", ".join(str(part) for part in error.operand)
        error.hint = f"write the parts as arguments of their own: {words.name(function)}({shown})"
    elif error.operand is None:
        error.hint = _form(function, words)
    error.message = f"{words.name(function)}: {error.parameter} is {error.shown}, not a number or an expression"
    error.args = (error.message,)
    error.hint = error.hint or _form(function, words)


# -- whose error it is ---------------------------------------------------------------------------------------
def _of_user(error: Exception, function: Callable[..., Any]) -> bool:
    """Whether code of the user raised it, which `function` had called."""
    by_user = False
    frame = error.__traceback__
    while frame is not None:
        code = frame.tb_frame.f_code
        if not any(library in code.co_filename for library in _LIBRARIES):
            ours = code is getattr(function, "__code__", None) or code.co_filename.startswith(_PACKAGE)
            by_user = not ours and (by_user or is_user_code(code.co_filename))
        frame = frame.tb_next
    return by_user


def user_frames(frames: types.TracebackType | None) -> types.TracebackType | None:
    """The frames of a traceback that are the user's, not of this package."""
    if frames is None:
        return None
    rest = user_frames(frames.tb_next)
    if not is_user_code(frames.tb_frame.f_code.co_filename):
        return rest
    return types.TracebackType(rest, frames.tb_frame, frames.tb_lasti, frames.tb_lineno)


def strip_frames(error: Exception) -> None:
    """Takes the frames of this package out of an error that is about to leave it.

    For functions that catch what they call, where `public` would cost too much; a bare `raise` follows, which adds no
    frame from Python 3.11 on. A fault of this package keeps its frames, which say where it is.
    """
    if isinstance(error, TileLangError):
        if not isinstance(error, CompilerBug):
            error.__traceback__ = None
    elif _of_user(error, strip_frames):
        error.__traceback__ = user_frames(error.__traceback__)


def without_frames(method: F) -> F:
    """A method of an operator, from which errors leave without frames of this package, outside of kernels too."""

    @functools.wraps(method)
    def call(*operands: Any) -> Any:
        try:
            return method(*operands)
        except TileLangError as error:
            strip_frames(error)
            raise

    return cast(F, call)


_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


# -- annotations ---------------------------------------------------------------------------------------------
def _tests_of(function: Callable[..., Any], words: Words) -> tuple[tuple[str, ...], dict[str, Test]]:
    """The names of positional parameters, and a test for each parameter whose annotation has one."""
    parameters = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = tuple(p.name for p in parameters if p.kind in positional)
    tests = {}
    for parameter in parameters:
        if parameter.kind in (*positional, inspect.Parameter.KEYWORD_ONLY):
            test = _test(_annotation(function, parameter), words)
            if test is not None:
                tests[parameter.name] = test
    return names, tests


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The annotation of a parameter as an object; `Any` where it names what is only known to type checkers."""
    found = parameter.annotation
    if isinstance(found, str):
        try:
            found = eval(found, inspect.unwrap(function).__globals__)
        except (NameError, TypeError, AttributeError):
            return Any
    return found


@functools.cache
def _test(annotation: Any, words: Words) -> Test | None:
    """Whether a value is of a type; None for types other than those of plain Python.

    Numbers of NumPy and torch are numbers, and None is a bool. What has a dtype passes for a number: where an
    expression of a kernel has to be known already, the function says so.
    """
    kind = _kind(annotation, words)
    if kind is not None:
        return kind[0]
    origin = get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        tests = [_test(part, words) for part in get_args(annotation)]
        if None in tests:
            return None
        return lambda value: any(test(value) for test in tests if test is not None)
    if origin is typing.Literal:
        return lambda value: value in get_args(annotation)
    return None


def _kind(annotation: Any, words: Words) -> tuple[Test, str] | None:
    is_text = isinstance(annotation, typing.ForwardRef)
    name = annotation.__forward_arg__ if is_text else getattr(annotation, "__name__", "")
    if name in words.kinds:
        return words.kinds[name]
    origin = get_origin(annotation) or annotation
    if origin is not None and not isinstance(origin, type):
        return None
    if origin not in _KINDS and origin is not None and issubclass(origin, os.PathLike):  # which takes long to answer
        origin = os.PathLike
    return _KINDS.get(origin)


def _has(value: object, *conversions: str) -> bool:
    return any(hasattr(type(value), name) for name in (*conversions, "dtype"))


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


# a type: what is one, and what it is called
_KINDS: Mapping[Any, tuple[Test, str]] = {
    None: (lambda value: value is None, "None"),
    type(None): (lambda value: value is None, "None"),
    bool: (
        lambda value: value is None or _has(value, "__index__") or type(value).__name__ in ("bool", "bool_"),
        "True or False",
    ),
    int: (lambda value: _has(value, "__index__"), "an int"),
    float: (lambda value: _has(value, "__float__", "__index__"), "a number"),
    str: (lambda value: isinstance(value, str), "a string"),
    os.PathLike: (lambda value: isinstance(value, os.PathLike), "a path"),
    list: (_is_list, "a list"),
    tuple: (_is_list, "a tuple"),
    Sequence: (_is_list, "a list"),
    Iterable: (_is_list, "a list"),
    dict: (lambda value: isinstance(value, Mapping), "a dict"),
    Mapping: (lambda value: isinstance(value, Mapping), "a dict"),
    Callable: (callable, "a function"),
}


def _in_words(annotation: Any, words: Words) -> str:
    origin = get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_in_words(part, words) for part in get_args(annotation)))
    if origin is typing.Literal:
        return " or ".join(repr(value) for value in get_args(annotation))
    kind = _kind(annotation, words)
    assert kind is not None  # it had a test
    return kind[1]
