"""Identifiers of generated C-like text: the user's names where valid, made unique.

Invariant: two variables or buffers that are visible at the same point never share an identifier, and no identifier
shadows one of an enclosing scope.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var

# Source: ISO C++17 [lex.key] tables 5 and 6, plus names that the headers we include define as macros or functions
_RESERVED = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
    constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
    while xor xor_eq final override import module concept requires char8_t consteval constexpr constinit co_await
    co_return co_yield typeof restrict main errno stdin stdout stderr NAN INFINITY assert offsetof NULL EOF
    printf fflush malloc free memcpy memset abs exp log sqrt sin cos tan floor ceil round trunc pow fma linux unix
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t ptrdiff_t std tl I signbit isnan
    isinf BUFSIZ RAND_MAX SEEK_SET SEEK_CUR SEEK_END EXIT_SUCCESS EXIT_FAILURE HUGE_VAL HUGE_VALF MAXFLOAT alloca
    M_E M_LOG2E M_LOG10E M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 M_1_PI M_2_PI M_2_SQRTPI M_SQRT2 M_SQRT1_2""".split()
)
_LIMITS = re.compile(r"(U?INT\w*|PTRDIFF|SIZE|WCHAR|WINT)_(MIN|MAX|WIDTH|C)|FP_\w+")  # macros of <cstdint> and <cmath>
_FOREIGN = ("tl_", "omp_", "GOMP_")  # our helpers, and an entry of that name would stand in for the OpenMP runtime's
_BAD = re.compile(r"[^A-Za-z0-9_]")


@functools.lru_cache(maxsize=1024)
def identifier(name: str, words: re.Pattern[str] | None = None) -> str:
    """A valid C and C++ identifier close to a name: characters outside ASCII become their code points.

    Args:
        name: The user's name.
        words: Reserved names of a language beyond those of C++.
    """
    text = _BAD.sub(lambda m: "_" if m[0] in ".- " else f"u{ord(m[0]):x}", name) or "v"
    text = re.sub(r"__+", "_", text)  # two underscores in a row are the implementation's
    if text[0].isdigit() or text[0] == "_" or text.startswith(_FOREIGN):
        text = "v" + text if text[0] == "_" else "v_" + text
    taken = text in _RESERVED or _LIMITS.fullmatch(text) or words is not None and words.fullmatch(text)
    return text + "_" if taken else text


class Names:
    """The identifiers in use, by scope.

    Args:
        words: Reserved names of the language beyond those of C++.

    Attributes:
        used: The variables and buffers whose names were used.
    """

    def __init__(self, words: re.Pattern[str] | None = None) -> None:
        self.used: set[Var | Buffer] = set()
        self._words = words
        self._of: dict[Var | Buffer, str] = {}
        self._taken: list[set[str]] = [set()]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Context manager: names declared inside are released at its end."""
        self._taken.append(set())
        try:
            yield
        finally:
            self._taken.pop()

    def declare(self, node: Var | Buffer) -> str:
        """A fresh identifier for a variable or buffer, in the current scope."""
        self._of[node] = name = self.fresh(node.name)
        return name

    def fresh(self, preferred: str) -> str:
        """An unused identifier similar to `preferred`, reserved in the current scope."""
        base = name = identifier(preferred, self._words)
        number = 1
        while any(name in taken for taken in self._taken):
            name = f"{base}_{number}"
            number += 1
        self._taken[-1].add(name)
        return name

    def fresh_everywhere(self, preferred: str) -> str:
        """An unused identifier similar to `preferred`, reserved in all scopes."""
        name = self.fresh(preferred)
        self._taken[0].add(name)
        return name

    def alias(self, node: Var | Buffer, name: str) -> None:
        """Gives a node an existing identifier."""
        self._of[node] = name

    def __getitem__(self, node: Var | Buffer) -> str:
        self.used.add(node)
        return self._of[node]

    def __contains__(self, node: object) -> bool:
        return node in self._of
