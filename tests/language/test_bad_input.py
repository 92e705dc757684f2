"""Every function of the language, called wrongly in each way there is: one error that names the user's line."""

import itertools
import re
from collections.abc import Iterator
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


def operands() -> dict[str, Any]:
    """What wrong calls are given: nothing of the right type, rank or scope for all functions."""
    tensor = T.Tensor((8, 8), "float32")
    A = BufferProxy(Buffer("A", tensor.shape, tensor.dtype, Scope.GLOBAL, tensor.strides))
    known = {
        "tensor": A,
        "shared tile": T.alloc_shared((8, 8), "float32"),
        "deep tile": T.alloc_shared((2, 4, 8), "float16"),
        "fragment": T.alloc_fragment((8,), "int32"),
        "barrier": T.alloc_barrier(1),
    }
    return {key: known[key] if key in known else VALUES[key](known) for key in OPERANDS}


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
    given: dict[str, Any] = {}
    try:
        with staging(Stager(LINE)), T.Kernel(1, threads=32):
            given = operands()
            getattr(T, name)(*(given[a] for a in args), **{key: given[a] for key, a in keywords.items()})
    except TileLangError as error:
        assert given, error
        return error
    return None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("initial", sorted({name[0].lower() for name in NAMES}))
def test_a_wrong_call_is_one_error_in_words_of_the_language(initial: str) -> None:
    wrong: list[str] = []
    for name in (name for name in NAMES if name[0].lower() == initial):
        for args, keywords in wrong_calls(3):
            error = outcome(name, args, keywords)
            if error is None:
                continue
            call = f"T.{name}({', '.join([*args, *(f'{k}={v}' for k, v in keywords.items())])}): {error.message}"
            if isinstance(error, CompilerBug):
                wrong.append(f"a bug: {call}")
            elif error.loc is None or error.loc.file != __file__:
                wrong.append(f"no line of the user: {call}")
            elif LEAKED.search(error.message) and not ARITY.search(error.message):
                wrong.append(f"leaked: {call}")
            elif "unexpected keyword" in error.message and not isinstance(error, TypeError):
                wrong.append(f"no TypeError: {call}")
    assert [] == wrong


def tile(*shape: int, dtype: str = "float32") -> Any:
    """A fragment of the kernel being staged."""
    return T.alloc_fragment(shape, dtype)


MISTAKES: list[tuple[Any, tuple[type[Exception], ...], str]] = [
    (lambda: T.Kernel(4, threads=0), (ValueError,), "threads must be positive"),
    (lambda: T.alloc_var("float32", init=1e300), (ValueError,), "exceeds maximum of float32"),
    (lambda: T.alloc_var("int32", 1, init=2), (TypeError,), ""),
    (lambda: T.reshape(tile(8, 8), (3, 3)), (AssertionError, ValueError), ""),
    (lambda: T.view(tile(8, 8), (3, 3)), (AssertionError, ValueError), ""),
    (lambda: T.gemm(tile(8, 8), tile(16, 8), tile(8, 8)), (AssertionError,), ""),
    (lambda: T.copy(tile(8, 8), tile(4, 4)), (ValueError,), ""),
    (lambda: T.alloc_reducer((8,), "float32", op="bitand"), (AssertionError,), "integer dtype"),
    (lambda: T.reduce_sum(tile(8, 8), tile(8), dim=5), (ValueError,), ""),
    (lambda: T.reduce_sum(tile(8, 8), tile(8), batch=0), (ValueError,), "batch must be >= 1"),
    (lambda: T.reduce_bitand(tile(8, 8), tile(8)), (ValueError,), ""),
    (lambda: T.serial(0, 8, 0), (ValueError,), ""),
    (lambda: T.unroll(8, explicit=True, unroll_factor=2), (ValueError,), ""),
    (lambda: T.cast(1.5, "float16", round="up"), (ValueError,), "Invalid round"),
    (lambda: T.dp4a(1.5, 2.5, 3.5), (ValueError,), "dp4a requires"),
    (lambda: tile(8, 8)[0:8:2, 0], (RuntimeError, ValueError), ""),
]


@pytest.mark.parametrize(("mistake", "kinds", "text"), MISTAKES)
def test_a_mistake_is_caught_as_programs_catch_it(mistake: Any, kinds: tuple[type[Exception], ...], text: str) -> None:
    with pytest.raises(TileLangError, match=text or ".") as caught, staging(Stager(LINE)), T.Kernel(1, threads=32):
        mistake()
    assert [] == [kind for kind in kinds if not isinstance(caught.value, kind)]
