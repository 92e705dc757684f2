"""Random numbers: `T.rng_init`, `T.rng_rand` and `T.rng_rand_float`, with the sequences of cuRAND.

Emits scalars that hold a thread's state, and plain statements that advance it. Invariant: a draw is the next number of
the executing thread's own state wherever it stands; in `T.Parallel` a thread draws for its own elements in increasing
order. Where a block is one sequential program, as on a CPU, that program is its one thread.
"""

from __future__ import annotations

import math
from typing import Any

from tilelang.dtypes import BOOL, FLOAT32, FLOAT64, DType, as_dtype
from tilelang.errors import ProgramAssertionError, ProgramError, ProgramValueError, warn
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Expr, ExprLike, Load, as_expr, binary, cast, const, select
from tilelang.ir.func import ScalarParam
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import If
from tilelang.ir.visit import loads_of, variables_of
from tilelang.isa.catalogue import INTRINSICS
from tilelang.language.api import api
from tilelang.language.calls import inside_kernel
from tilelang.language.math import apply, is_number
from tilelang.language.stage import Hints, Stager
from tilelang.language.threads import linear_thread
from tilelang.records import record

__all__ = ["rng_init", "rng_rand", "rng_rand_float"]

SEQUENCE_OF_THREAD = "rng_of_thread"  # what programs call the sequence that is the thread's number in the grid
_UINT32, UINT64 = as_dtype("uint32"), as_dtype("uint64")
_PHILOX, _MRG, _XORWOW = "curandStatePhilox4_32_10_t", "curandStateMRG32k3a_t", "curandStateXORWOW_t"
# the words of a thread's state
_WORDS = {
    _PHILOX: (("rng_seed", UINT64), ("rng_sequence", UINT64), ("rng_position", UINT64)),
    _MRG: tuple((f"rng_{part}", UINT64) for part in ("x0", "x1", "x2", "y0", "y1", "y2")),
    _XORWOW: tuple((f"rng_{word}", _UINT32) for word in ("v0", "v1", "v2", "v3", "v4", "sum")),
}
_DISTRIBUTIONS = ("uniform", "normal")
_MRG_UNIFORM = 2.3283065498378288e-10  # Source: cuRAND, curand_kernel.h, MRG32K3A_NORM: 1 / 4294967086
_MRG_BITS = 1.000000048662  # Source: cuRAND, curand_kernel.h, MRG32K3A_BITS_NORM: (2^32 - 1) / 4294967087


@record(slots=True, eq=False, frozen=False)
class _Numbers:
    """The state of a thread's generator, as scalars of the kernel.

    Attributes:
        generator: Which one.
        words: Its state.
        spare: For float32 and float64, whether a normal number is left over from the pair before, and that number.
        alike: Whether the last `T.rng_init` gave all threads of a block the same state, outside of `T.Parallel`.
    """

    generator: str
    words: tuple[Load, ...]
    spare: dict[DType, tuple[Load, Load]]
    alike: bool = False


@api
def rng_init(
    seed: ExprLike, seq: ExprLike | None = None, off: ExprLike = 0, generator: str = "curandStatePhilox4_32_10_t"
) -> None:
    """Starts the random numbers of each thread, as `curand_init(seed, seq, off)` does.

    The same arguments give the same numbers on every target; where a block is one
    sequential program, that program is its one thread.

    Args:
        seed: Chooses the family of sequences.
        seq: Chooses one of them; the number of the thread in the grid along x by default, which needs a GPU if blocks
            have more threads than one.
        off: How many numbers to skip.
        generator: "curandStatePhilox4_32_10_t", "curandStateMRG32k3a_t" or "curandStateXORWOW_t".

    Raises:
        ProgramAssertionError: There is no such generator.
        ProgramValueError: The kernel has started another generator before.
        ProgramError: It stands outside of a kernel.

    Example:
        `T.rng_init(42, 0, bx * 128)`
    """
    what = "T.rng_init"
    stager, hints = inside_kernel(what)
    if generator not in _WORDS:
        raise ProgramAssertionError(
            f"{what}: there is no generator {generator!r:.60}", hint=f"write {', '.join(map(repr, _WORDS))}"
        )
    numbers = hints.numbers
    if numbers is None:
        numbers = hints.numbers = _allocate(generator, stager, hints)
    assert isinstance(numbers, _Numbers)
    if numbers.generator != generator:
        raise ProgramValueError(
            f"{what}: the numbers of this kernel come from '{numbers.generator}' already, not from '{generator}'",
            hint="name the same generator in every T.rng_init of a kernel",
        )
    name = SEQUENCE_OF_THREAD if seq is None else "rng"
    if seq is None:
        seq = _thread_in_grid(what, hints)
    chosen = [stager.bind(name if value is seq else "rng", _wide(value)) for value in (seed, seq, off)]
    if generator == _PHILOX:
        start = chosen
    else:
        from tilelang.isa.common.random import MRG32K3A_START, XORWOW_START  # noqa: PLC0415  their tables take long

        function = XORWOW_START if generator == _XORWOW else MRG32K3A_START
        pairs = [stager.bind("rng", apply(function, *chosen, const(pair, UINT64))) for pair in range(3)]
        start = [part for pair in pairs for part in (pair & 0xFFFFFFFF, pair >> 32)]
    for word, value in zip(numbers.words, start, strict=True):
        stager.assign_mutable(word, value)
    for left, _ in numbers.spare.values():
        stager.assign_mutable(left, const(False, BOOL))
    numbers.alike = "Parallel" not in stager.loops and all(_is_of_block(value, stager, hints) for value in chosen)


@api
def rng_rand() -> Expr:
    """The next random number of the executing thread: a uint32, uniform over all values, as `curand()` gives it.

    Raises:
        ProgramError: `T.rng_init` does not stand before it in the kernel.

    Example:
        `A[i] = T.rng_rand()`
    """
    stager, numbers = _started("T.rng_rand")
    return _next(stager, numbers)


@api
def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Expr:
    """The next random number of the executing thread as a float, as cuRAND's device functions give it.

    Args:
        bit: 32 for a float32, 64 for a float64.
        dist: "uniform" between 0, which is left out, and 1; or "normal" with mean 0 and variance 1, of which every
            other one comes from the pair that the one before made.

    Raises:
        ProgramAssertionError: There is no such width or distribution.
        ProgramError: `T.rng_init` does not stand before it in the kernel.

    Example:
        `A[i] = T.rng_rand_float(dist="normal")`
    """
    what = "T.rng_rand_float"
    if bit not in (32, 64):
        raise ProgramAssertionError(f"{what}: bit is {bit!r:.40}", hint="write bit=32 or bit=64")
    if dist not in _DISTRIBUTIONS:
        raise ProgramAssertionError(
            f"{what}: there is no distribution {dist!r:.40}", hint="write 'uniform' or 'normal'"
        )
    stager, numbers = _started(what)
    dtype = FLOAT32 if bit == 32 else FLOAT64
    return _uniform(stager, numbers, dtype) if dist == "uniform" else _normal(stager, numbers, dtype)


# -- state ---------------------------------------------------------------------------------------------------------
def _allocate(generator: str, stager: Stager, hints: Hints) -> _Numbers:
    """The state, where every statement of the kernel finds it, whatever encloses the first `T.rng_init`."""

    def scalar(name: str, dtype: DType) -> Load:
        return stager.mutable(name, dtype, 0, hints.body, sequential=True)

    words = tuple(scalar(name, dtype) for name, dtype in _WORDS[generator])
    spare = {
        dtype: (scalar(f"rng_has_{dtype!s}", BOOL), scalar(f"rng_spare_{dtype!s}", dtype))
        for dtype in (FLOAT32, FLOAT64)
    }
    return _Numbers(generator, words, spare)


def _started(what: str) -> tuple[Stager, _Numbers]:
    stager, hints = inside_kernel(what)
    if not isinstance(hints.numbers, _Numbers):
        raise ProgramError(f"{what}: no generator was started", hint="call T.rng_init(seed) earlier in this kernel")
    threads = math.prod(hints.threads)
    if hints.numbers.alike and threads > 1 and "Parallel" in stager.loops:
        warn(
            f"{what}: draws in a T.Parallel loop from the sequence that T.rng_init chose outside of it: on a GPU all "
            f"{threads} threads draw the same numbers",
            stager.loc,
            hint="write T.rng_init(seed, i) in the T.Parallel loop over i",
        )
    return stager, hints.numbers


def _is_of_block(value: Expr, stager: Stager, hints: Hints) -> bool:
    """Whether a value follows from the indices of the block and from scalar parameters alone."""
    known = {*hints.block_vars, *(p.var for p in stager.params.values() if isinstance(p, ScalarParam))}
    return not loads_of(value) and all(
        var in known or var in stager.definitions and _is_of_block(stager.definitions[var], stager, hints)
        for var in variables_of(value)
    )


def _thread_in_grid(what: str, hints: Hints) -> Expr:
    threads = hints.threads[0]
    block = hints.block_vars[0] if hints.block_vars else as_expr(0)
    if math.prod(hints.threads) == 1:
        return block
    thread = linear_thread(what)
    return block * threads + (thread if math.prod(hints.threads) == threads else thread % threads)


def _wide(value: ExprLike) -> Expr:
    """A seed as 64 unsigned bits."""
    return const(int(value) & (1 << 64) - 1, UINT64) if is_number(value) else cast(value, UINT64)


# -- draws ---------------------------------------------------------------------------------------------------------
def _next(stager: Stager, numbers: _Numbers) -> Expr:
    """Advances the state; the number is fixed under a name."""

    def hold(value: Expr) -> Expr:
        return stager.bind("random", value)

    if numbers.generator == _MRG:
        scaled = cast(_mrg_step(stager, numbers), FLOAT64) * const(_MRG_BITS, FLOAT64)
        return hold(cast(binary(BinaryOp.MIN, scaled, const(4294967295.0, FLOAT64)), _UINT32))
    if numbers.generator == _PHILOX:
        from tilelang.isa.common.random import PHILOX  # noqa: PLC0415  as above

        seed, sequence, position = numbers.words
        number = hold(cast(apply(PHILOX, seed, sequence, position), _UINT32))
        stager.assign_mutable(position, position + 1)
        return number
    *register, total = numbers.words
    first, last = hold(register[0]), register[4]
    first = hold(first ^ first >> 2)
    newest = hold(last ^ last << 4 ^ (first ^ first << 1))
    for word, value in zip(register, (*register[1:], newest), strict=True):
        stager.assign_mutable(word, value)
    stager.assign_mutable(total, total + 362437)
    return hold(newest + total)


def _mrg_step(stager: Stager, numbers: _Numbers) -> Expr:
    """The next value of MRG32k3a: a uint64 from 1 to its first modulus."""
    from tilelang.isa.common.random_jumps import MRG_FACTORS, MRG_MODULI  # noqa: PLC0415  as above

    newest = []
    for part, (factors, modulus) in enumerate(zip(MRG_FACTORS, MRG_MODULI, strict=True)):
        words = numbers.words[3 * part : 3 * part + 3]
        # a product of two words has 64 bits, so that each is reduced before they are added
        terms = [w * const(f, UINT64) % const(modulus, UINT64) for w, f in zip(words, factors, strict=True) if f]
        total = stager.bind("random", sum(terms[1:], terms[0]) % const(modulus, UINT64))
        for word, value in zip(words, (*words[1:], total), strict=True):
            stager.assign_mutable(word, value)
        newest.append(total)
    x, y = newest
    return stager.bind("random", select(x > y, x - y, x + const(MRG_MODULI[0], UINT64) - y))


def _uniform(stager: Stager, numbers: _Numbers, dtype: DType) -> Expr:
    if numbers.generator == _MRG:
        scaled = cast(_mrg_step(stager, numbers), FLOAT64) * const(_MRG_UNIFORM, FLOAT64)
        return stager.bind("uniform", cast(scaled, dtype))
    if dtype == FLOAT32:
        return stager.bind("uniform", _between(_next(stager, numbers), 32, dtype))
    if numbers.generator == _PHILOX:
        step = const(2.0**-32, dtype)
        return stager.bind("uniform", cast(_next(stager, numbers), dtype) * step + step)
    return stager.bind("uniform", _between(_joined(stager, numbers), 53, dtype))


def _between(number: Expr, bits: int, dtype: DType) -> Expr:
    """The middle of the interval that a number of `bits` bits stands for, in (0, 1]."""
    return cast(number, dtype) * const(2.0**-bits, dtype) + const(2.0 ** -(bits + 1), dtype)


def _joined(stager: Stager, numbers: _Numbers) -> Expr:
    """A number of 53 bits, made of two."""
    low, high = (cast(_next(stager, numbers), UINT64) for _ in range(2))
    return stager.bind("random", low ^ high << 21)


def _normal(stager: Stager, numbers: _Numbers, dtype: DType) -> Expr:
    left, spare = numbers.spare[dtype]
    result = stager.mutable("normal", dtype, 0)
    with stager.block() as again:
        stager.assign_mutable(result, spare)
        stager.assign_mutable(left, const(False, BOOL))
    with stager.block() as anew:
        one, other = _pair(stager, numbers, dtype)
        stager.assign_mutable(result, one)
        stager.assign_mutable(spare, other)
        stager.assign_mutable(left, const(True, BOOL))
    stager.emit(If(left, as_body(again, stager.loc), as_body(anew, stager.loc)))
    return stager.bind("normal", result)


def _pair(stager: Stager, numbers: _Numbers, dtype: DType) -> tuple[Expr, Expr]:
    """Two normal numbers, after Box and Muller."""
    two_pi = const(2 * math.pi, dtype)
    if numbers.generator == _MRG:
        radius, part = (_uniform(stager, numbers, dtype) for _ in range(2))
        angle = part * two_pi
    elif dtype == FLOAT32:
        radius, part = (_next(stager, numbers) for _ in range(2))
        step = const(float(_float32(2.0**-32 * float(_float32(2 * math.pi)))), dtype)
        radius, angle = _between(radius, 32, dtype), cast(part, dtype) * step + step * const(0.5, dtype)
    else:
        radius, part = (_between(_joined(stager, numbers), 53, dtype) for _ in range(2))
        angle = part * two_pi
    length = stager.bind("normal", apply(INTRINSICS["sqrt"], apply(INTRINSICS["log"], radius) * const(-2.0, dtype)))
    angle = stager.bind("normal", angle)
    one, other = (apply(INTRINSICS[name], angle) * length for name in ("sin", "cos"))
    return stager.bind("normal", one), stager.bind("normal", other)


def _float32(value: float) -> Any:
    return FLOAT32.numpy.type(value)
