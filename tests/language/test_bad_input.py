"""Every function of the language, called wrongly in each way there is: one error that names the user's line.

What is called is read from `T.__all__` and the signatures, so that a new name is tried as soon as it exists.
"""

import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from wrong_calls import ARITY, NAMES, VALUES

import tilelang.language as T
from tilelang.errors import CompilerBug, Loc, TileLangError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager, staging

LINE = Loc(__file__, 1)
LEAKED = re.compile(
    r"while the kernel was staged|object has no attribute|'NoneType'|object is not (iterable|callable|subscriptable)"
)
OPERANDS = ("nothing", "object", "text", "list", "deep tile", "tensor", "shared tile", "fragment", "barrier", "int")


def tensor() -> BufferProxy:
    annotation = T.Tensor((8, 8), "float32")
    return BufferProxy(Buffer("A", annotation.shape, annotation.dtype, Scope.GLOBAL, annotation.strides))


TILES: dict[str, Callable[[], Any]] = {
    "tensor": tensor,
    "shared tile": lambda: T.alloc_shared((8, 8), "float32"),
    "deep tile": lambda: T.alloc_shared((2, 4, 8), "float16"),
    "fragment": lambda: T.alloc_fragment((8,), "int32"),
    "barrier": lambda: T.alloc_barrier(1),
}


def operand(kind: str, bx: Any) -> Any:
    """What a wrong call is given: nothing of the right type, rank or scope for all functions."""
    if kind in TILES:
        return TILES[kind]()
    known = {"A": tensor, "S": TILES["shared tile"], "bx": lambda: bx}
    return VALUES[kind](_Made(known))


class _Made(dict[str, Callable[[], Any]]):
    """Values that are made when they are asked for."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)()


def wrong_calls(most: int) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """Arguments by name: unknown keywords, too many, none, and for each count of operands each kind of operand."""
    yield (), {}
    yield (), {"no_such_keyword": "int"}
    yield ("int",) * 40, {}
    for kind, count in itertools.product(OPERANDS, range(1, most + 1)):
        yield (kind,) * count, {}
    for kind, other in itertools.permutations(("tensor", "shared tile", "barrier", "int"), 2):
        yield (kind, other), {}


def outcome(name: str, args: tuple[str, ...], keywords: dict[str, str]) -> TileLangError | None:
    """The error of one call in a kernel, or None where the call is legal."""
    try:
        with staging(Stager(LINE)), T.Kernel(1, threads=32) as bx:
            made = {kind: operand(kind, bx) for kind in {*args, *keywords.values()}}
            getattr(T, name)(*(made[kind] for kind in args), **{key: made[kind] for key, kind in keywords.items()})
    except TileLangError as error:
        return error
    return None


def fault(error: TileLangError | None, call: str, *, legal: bool) -> str:
    """What is wrong with the answer to a wrong call; "" for nothing."""
    if error is None:
        return "" if legal else f"accepted: {call}"
    if isinstance(error, CompilerBug):
        return f"a bug: {call}: {error.message}"
    if error.loc is None or error.loc.file != __file__:
        return f"no line of the user: {call}: {error.message}"
    if LEAKED.search(error.message):
        return f"leaked: {call}: {error.message}"
    if not isinstance(error, TypeError | ValueError | RuntimeError | AssertionError | NotImplementedError):
        return f"of no builtin kind: {call}: {error.message}"
    return ""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("initial", sorted({name[0].lower() for name in NAMES}))
def test_a_wrong_call_is_one_error_in_words_of_the_language(initial: str) -> None:
    wrong: list[str] = []
    for name in (name for name in NAMES if name[0].lower() == initial):
        for args, keywords in wrong_calls(2):
            error = outcome(name, args, keywords)
            if error is None:
                continue
            call = f"T.{name}({', '.join([*args, *(f'{k}={v}' for k, v in keywords.items())])})"
            wrong.append(fault(error, call, legal=True))
            if ARITY.search(error.message) and not isinstance(error, TypeError):
                wrong.append(f"no TypeError: {call}")
    assert [] == [found for found in wrong if found]


# what each parameter of a call is given besides the one that is wrong, by the first word of its annotation
FITTING = {
    "Barrier": "barrier",
    "BufferProxy": "shared tile",
    "DTypeLike": "name of a dtype",
    "Expr": "block index",
    "ExprLike": "int",
    "GemmWarpPolicy": "policy",
    "Load": "element",
    "Operand": "shared tile",
    "Place": "element",
    "Sequence[ExprLike]": "list",
    "Sequence[int]": "list",
    "ShapeLike": "list",
    "TileProxy": "shared tile",
    "Value": "int",
    "bool": "bool",
    "float": "float",
    "int": "int",
    "str": "text",
}
BUFFERS = ("BufferProxy", "TileProxy", "Operand", "Place", "Load", "Barrier")
ANYTHING = ("object", "Any", "AnyDType", "Value")  # annotations of parameters that take, or ignore, what there is


def first_word(parameter: inspect.Parameter) -> str:
    return str(parameter.annotation).split("|")[0].strip()


def parameters_of(name: str) -> list[inspect.Parameter]:
    function = getattr(T, name)
    parameters = [] if not callable(function) else list(inspect.signature(function).parameters.values())
    return [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]


def staged(name: str, at: str, wrong: str) -> TileLangError | None:
    """The error of a call that fits as far as annotations tell, but for the parameter `at`; None where it is legal."""
    try:
        with staging(Stager(LINE)), T.Kernel(1, threads=128) as bx:
            args, keywords = [], {}
            for parameter in parameters_of(name):
                if parameter.name != at and parameter.default is not parameter.empty:
                    continue
                if parameter.name != at and parameter.kind is parameter.VAR_POSITIONAL:
                    continue
                value = operand(wrong if parameter.name == at else FITTING.get(first_word(parameter), "nothing"), bx)
                if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                    args.append(value)
                elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD and len(args) == len(keywords) == 0:
                    args.append(value)
                elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD and not keywords:
                    args.append(value) if parameter.default is parameter.empty else keywords.update({parameter.name: value})
                else:
                    keywords[parameter.name] = value
            getattr(T, name)(*args, **keywords)
    except TileLangError as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("initial", sorted({name[0].lower() for name in NAMES}))
def test_a_parameter_of_a_wrong_type_rank_or_scope_is_refused(initial: str) -> None:
    faults: list[str] = []
    for name in (name for name in NAMES if name[0].lower() == initial):
        for parameter in parameters_of(name):
            word = first_word(parameter)
            others = ("tensor", "shared tile", "deep tile", "fragment", "barrier") if word in BUFFERS else ()
            for wrong in ("object", "complex", *others):
                legal = wrong in others or word in ANYTHING
                faults.append(fault(staged(name, parameter.name, wrong), f"T.{name}({parameter.name}={wrong})", legal=legal))
    assert [] == [found for found in faults if found]
