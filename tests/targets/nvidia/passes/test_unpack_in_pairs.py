"""Float16 that are made of bit fields are computed in pairs, with the values of single ones."""

import re

import numpy as np
import pytest
from gpu import lower_func
from harness import run_reference_on_copies, simulate_on_copies

import tilelang
import tilelang.language as T
from tilelang.ir.expr import Call
from tilelang.ir.visit import expressions, walk, walk_expr


def unpacking(element, packed="uint8", per_word=2, dtype="float16"):
    """Elements of 16 rows: `element(words, zeros, scales, row, column)`."""

    @T.prim_func
    def main(
        W: T.Tensor((16, 64 // per_word), packed), Z: T.Tensor((16,), dtype), S: T.Tensor((16,), dtype),
        O: T.Tensor((16, 64), dtype),
    ):
        with T.Kernel(1, threads=32) as _:
            w, o = T.alloc_shared((16, 64 // per_word), packed), T.alloc_shared((16, 64), dtype)
            z, s = T.alloc_shared((16,), dtype), T.alloc_shared((16,), dtype)
            T.copy(W, w)
            T.copy(Z, z)
            T.copy(S, s)
            for i, j in T.Parallel(16, 64):
                o[i, j] = element(w, z, s, i, j)
            T.copy(o, O)

    return main


def half(x):
    return T.cast(x, "float16")


ELEMENTS = {
    "low nibble first": (lambda w, z, s, i, j: (half((w[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & 15) - 8) * s[i], {}),
    "high nibble first": (lambda w, z, s, i, j: (half((w[i, j // 2] >> T.cast(4 - j % 2 * 4, "uint8")) & 15) - 8) * s[i], {}),
    "zero points": (lambda w, z, s, i, j: (half((w[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & 15) - z[i]) * s[i], {}),
    "no zero point": (lambda w, z, s, i, j: half((w[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & 15) * s[i] + z[i], {}),
    "two bits": (lambda w, z, s, i, j: half((w[i, j // 4] >> T.cast(j % 4 * 2, "uint8")) & 3) + 1, {"per_word": 4}),
    "words": (
        lambda w, z, s, i, j: (half((w[i, j // 8] >> T.cast(j % 8 * 4, "uint32")) & 15) - 8) * s[i],
        {"packed": "uint32", "per_word": 8},
    ),
    "signed words": (
        lambda w, z, s, i, j: half((w[i, j // 8] >> (j % 8 * 4)) & 15) - s[i], {"packed": "int32", "per_word": 8},
    ),
    "interleaved words": (
        lambda w, z, s, i, j: half((w[i, j // 8] >> T.cast(j % 8 // 2 * 4 + j % 2 * 16, "uint32")) & 15) * s[i],
        {"packed": "uint32", "per_word": 8},
    ),
    "words that threads shift by different amounts": (
        lambda w, z, s, i, j: half(w[i, j // 2] >> T.cast(i % 4 * 4, "uint32") >> T.cast(j % 2 * 16, "uint32") & 15) * s[i],
        {"packed": "uint32"},
    ),
    "the whole byte of a word": (
        lambda w, z, s, i, j: half((w[i, j // 4] >> T.cast(j % 4 * 8, "uint32")) & 255) - 128,
        {"packed": "uint32", "per_word": 4},
    ),
}  # fmt: skip
SINGLE = {
    "a sign": (lambda w, z, s, i, j: half(T.cast(w[i, j // 2], "int8") >> T.cast(j % 2 * 4, "int8")) * s[i], {}),
    "fields across bytes": (
        lambda w, z, s, i, j: half((w[i, j // 4] >> T.cast(j % 4 * 6, "uint32")) & 63),
        {"packed": "uint32", "per_word": 4},
    ),
    "another word": (lambda w, z, s, i, j: half(w[i, j] & 15) * s[i], {"per_word": 1}),
    "more than float16 holds exactly": (
        lambda w, z, s, i, j: half((w[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & 15) - 2048 + s[i], {},
    ),
}  # fmt: skip


def unpacks(func):
    body = lower_func(func, "sm_90a").body
    found = (e for s in walk(body) for value in expressions(s) for e in walk_expr(value) if isinstance(e, Call))
    return any(e.callee.name == "half2_of_fields" for e in found)


def assert_same_bits(func):
    rng = np.random.default_rng(0)
    w, z, s, o = (np.zeros(p.buffer.static_shape, p.buffer.dtype.numpy) for p in func.params)
    w.ravel()[:] = np.frombuffer(rng.bytes(w.nbytes), w.dtype)
    z[:], s[:] = rng.integers(0, 16, 16), rng.standard_normal(16)
    expected = run_reference_on_copies(func, [w, z, s, o])[3]
    assert expected.tobytes() == simulate_on_copies(func, [w, z, s, o], "sm_90a")[3].tobytes()


@pytest.mark.parametrize("name", ELEMENTS)
def test_fields_of_one_word_are_unpacked_in_pairs(name):
    element, options = ELEMENTS[name]
    func = unpacking(element, **options)
    assert unpacks(func)
    assert_same_bits(func)


@pytest.mark.parametrize("name", SINGLE)
def test_other_values_are_converted_one_by_one(name):
    element, options = SINGLE[name]
    func = unpacking(element, **options)
    if name == "more than float16 holds exactly":
        assert unpacks(func)  # but the subtraction is one of its own
    else:
        assert not unpacks(func)
    assert_same_bits(func)


def test_an_integer_that_is_added_needs_no_instruction():
    element, options = ELEMENTS["low nibble first"]
    kernel = tilelang.compile(unpacking(element, **options), target={"kind": "cuda", "arch": "sm_90a"})
    (line,) = [s for s in kernel.get_kernel_source().splitlines() if "= tl_bits<uint32_t>(tl_mul" in s or "tl_half2_of_fields((" in s]
    assert re.search(r"tl_mul_f16x2\(tl_half2_of_fields\(", line)
    assert "sub_f16x2" not in line


@T.prim_func
def in_matrix_order(W: T.Tensor((32, 2), "uint32"), O: T.Tensor((32, 16), "float16")):
    with T.Kernel(1, threads=32):
        thread = T.get_thread_binding()
        w, o = T.alloc_local((2,), "uint32"), T.alloc_local((16,), "float16")
        for i in T.serial(2):
            w[i] = W[thread, i]
        for i in T.unroll(8):
            for j in T.unroll(2):
                o[i * 2 + j] = T.cast((w[i // 4] >> T.cast(i % 4 * 4 + j * 16, "uint32")) & 15, "float16") - 8
        for i in T.serial(16):
            O[thread, i] = o[i]


def test_an_outer_loop_says_where_in_a_word_fields_are():
    assert unpacks(in_matrix_order)
    words = np.random.default_rng(0).integers(0, 2**32, (32, 2), np.uint32)
    nibbles = words[..., None, None] >> np.array([[0, 16], [4, 20], [8, 24], [12, 28]], np.uint32) & 15
    got = simulate_on_copies(in_matrix_order, [words, np.full((32, 16), np.nan, np.float16)], "sm_90a")[1]
    np.testing.assert_array_equal(nibbles.reshape(32, 16).astype(np.float16) - 8, got)


def test_fields_are_moved_only_to_where_a_pair_needs_them():
    kernel = tilelang.compile(in_matrix_order, target={"kind": "cuda", "arch": "sm_90a"})
    selectors = re.findall(r"tl_half2_of_fields\(.*?, (\d+)u, ", kernel.get_kernel_source())
    assert [0x3210, 0x3210, 0x4341, 0x4341] * 2 == list(map(int, selectors))
    ptx = kernel.get_ptx()
    assert 2 == ptx.count("prmt.b32")  # one a word, since the fields of a pair at other bits share it
    assert f", {0x4341};" in ptx
    assert f"{0x3210}" not in ptx
