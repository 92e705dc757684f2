"""Which loops visit only listed tiles, and that skipped tiles change no result."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.level1 import tile_list_text, tiles, visited_tiles
from tilelang.level1.lower import Lowered

N = 1100  # of which no tile is a divisor


def attention_with(mask: Callable[..., Any]) -> Any:
    """Attention in which `mask(xp, *arrays)` says which scores count."""

    @tilelang.compute
    def attention(q, k, v, *arrays):  # type: ignore[no-untyped-def]
        scores = tnp.einsum("bqd,bkd->bqk", q, k)
        return tnp.einsum("bqk,bkd->bqd", tnp.softmax(tnp.where(mask(tnp, *arrays), scores, -tnp.inf)), v)

    return attention


def expected(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = np.where(mask, np.einsum("bqd,bkd->bqk", q.astype(float), k), -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v


def operands(batch: int = 2, n: int = N, d: int = 16, dtype: str = "float32") -> list[Any]:
    return list(np.random.default_rng(0).standard_normal((3, batch, n, d)).astype(dtype) / 2)


def is_listed(lowered: Lowered) -> bool:
    return any(found is not None for found in lowered.visited)


rng = np.random.default_rng(1)
DOCUMENTS = np.sort(rng.integers(0, 6, N)).astype(np.int32)
SHUFFLED = rng.integers(-2, 2, N).astype(np.int32)
VALID = rng.random(N) < 0.5
VALID[:400] = False
KEPT = np.kron(rng.random((11, 11)) < 0.4, np.ones((100, 100))).astype(bool)
KEPT[128:256, 256:384] = True  # a whole tile
MASKS = {
    "documents": (lambda _, d: (d[:, None] == d[None, :])[None], DOCUMENTS),
    "documents, not in order": (lambda _, d: (d[:, None] == d[None, :])[None], SHUFFLED),
    "causal documents": (
        lambda xp, d: ((d[:, None] == d[None, :]) & (xp.arange(N)[:, None] >= xp.arange(N)[None, :]))[None], DOCUMENTS,
    ),
    "documents of 64 bits": (lambda _, d: (d[:, None] == d[None, :])[None], DOCUMENTS.astype(np.int64) << 40),
    "documents of each of a batch": (
        lambda _, d: d[:, :, None] == d[:, None, :], np.sort(rng.integers(0, 4, (2, N))).astype(np.int32),
    ),
    "rows without keys": (lambda _, d: ((d[:, None] == d[None, :]) & (d[:, None] > 1))[None], DOCUMENTS),
    "lengths": (lambda xp, n: xp.arange(N)[None, None, :] < n[:, None, None], np.array([0, 700], np.int32)),
    "keys in use": (lambda _, valid: valid[None, None, :], VALID),
    "not the same": (lambda _, d: ~(d[:, None] != d[None, :])[None], DOCUMENTS),
    "a prefix, or causal": (
        lambda xp, n: (xp.arange(N)[:, None] >= xp.arange(N)[None, :])[None] | (xp.arange(N) < n[:, None, None]),
        np.array([0, 500], np.int32),
    ),
    "a matrix of bools": (lambda _, keep: keep[None], KEPT),
    "a matrix of numbers, and causal": (
        lambda xp, kind: (kind > 0)[None] & (xp.arange(N)[:, None] >= xp.arange(N)[None, :]), KEPT * np.int64(7) - 3,
    ),
    "chunks": (lambda xp: ((xp.arange(N) // 300)[:, None] == (xp.arange(N) // 300)[None, :])[None],),
}  # fmt: skip


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("name", MASKS)
def test_skipped_tiles_change_no_result(name: str) -> None:
    mask, *arrays = MASKS[name]
    attention, (q, k, v) = attention_with(mask), operands()
    assert is_listed(attention.lower(q, k, v, *arrays))
    found, wanted = attention(q, k, v, *arrays), expected(q, k, v, mask(np, *arrays))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("name", MASKS)
def test_the_text_of_the_program_computes_the_same(name: str) -> None:
    mask, *arrays = MASKS[name]
    attention, (q, k, v) = attention_with(mask), operands()
    names: dict[str, Any] = {}
    program = attention.program(q, k, v, *arrays)
    exec(program, names)
    np.testing.assert_array_equal(attention(q, k, v, *arrays), names["attention"]()(q, k, v, *arrays))


def test_on_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "multiprocessors", lambda _: 1)  # so that the keys are not split
    monkeypatch.setattr(visited_tiles, "_MIN_TILES", 3)
    documents, (q, k, v) = np.arange(520, dtype=np.int32) // 150, operands(1, 520, dtype="float16")

    def mask(xp: Any, d: Any) -> Any:
        return ((d[:, None] == d[None, :]) & (xp.arange(520)[:, None] >= xp.arange(520)[None, :]))[None]

    attention = tilelang.compute(target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")(
        attention_with(mask).function
    )
    assert is_listed(attention.lower(q, k, v, documents))
    wanted = expected(q, k, v, mask(np, documents))
    np.testing.assert_allclose(attention(q, k, v, documents), wanted, rtol=1e-2, atol=2e-3)


def test_a_matrix_on_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "multiprocessors", lambda _: 1)  # as above
    monkeypatch.setattr(tile_list_text, "_CHUNK", 4)  # so that there is less to simulate
    kept = KEPT[120:150, :520].copy()

    @tilelang.compute(target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")
    def attention(q, k, v, kept):  # type: ignore[no-untyped-def]
        scores = tnp.einsum("bqd,bkd->bqk", q, k)
        return tnp.einsum("bqk,bkd->bqd", tnp.softmax(tnp.where(kept, scores, -tnp.inf)), v)

    monkeypatch.setattr(visited_tiles, "_MIN_TILES", 3)
    q, k, v = operands(2, 520, dtype="float16")
    q = q[:, :30].copy()
    assert is_listed(attention.lower(q, k, v, kept))
    np.testing.assert_allclose(attention(q, k, v, kept), expected(q, k, v, kept), rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize("n", [0, 1, 5, 1100])
def test_a_symbolic_length(n: int) -> None:
    size = T.dynamic("n")
    tensor, numbers = T.Tensor((2, size, 16), "float32"), T.Tensor((size,), "int32")

    @tilelang.compute
    def attention(q: tensor, k: tensor, v: tensor, documents: numbers):  # type: ignore[no-untyped-def, valid-type]
        scores = tnp.einsum("bqd,bkd->bqk", q, k)
        same = documents[:, None] == documents[None, :]
        return tnp.einsum("bqk,bkd->bqd", tnp.softmax(tnp.where(same, scores, -tnp.inf)), v)

    assert is_listed(attention.lower(tensor, tensor, tensor, numbers))
    (q, k, v), documents = operands(n=n), np.arange(n, dtype=np.int32) // 300
    wanted = expected(q, k, v, documents[:, None] == documents) if n else np.zeros((2, 0, 16))
    np.testing.assert_allclose(attention(q, k, v, documents), wanted, rtol=1e-4, atol=1e-5)


def listed(mask: Callable[..., Any], *arrays: Any, n: int = N) -> bool:
    return is_listed(attention_with(mask).lower(*operands(n=n), *arrays))


def test_what_a_loop_says_by_its_bounds_is_not_listed() -> None:
    assert not listed(lambda xp: (xp.arange(N)[:, None] >= xp.arange(N)[None, :])[None])
    distance = lambda xp: xp.arange(N)[:, None] - xp.arange(N)[None, :]  # noqa: E731
    assert not listed(lambda xp: ((distance(xp) >= 0) & (distance(xp) < 100))[None])


def test_nothing_is_listed_where_nothing_is_known_of_a_tile() -> None:
    assert not listed(lambda _, x: x, np.ones((2, N, N), np.bool_))  # read by one block alone
    assert not listed(lambda _, x: (x > 0.5)[None], np.ones((N, N), np.float32))
    assert not listed(lambda _, x: (x[None, :] > 0.5)[None], np.ones(N, np.float32))


def test_few_tiles_are_not_listed() -> None:
    assert not listed(lambda _, d: (d[:, None] == d[None, :])[None], np.zeros(200, np.int32), n=200)


def test_masked_values_that_count_are_not_skipped() -> None:
    @tilelang.compute
    def attention(q, k, v, d):  # type: ignore[no-untyped-def]
        scores = tnp.where(d[:, None] == d[None, :], tnp.einsum("bqd,bkd->bqk", q, k), -5.0)
        return tnp.einsum("bqk,bkd->bqd", tnp.softmax(scores), v)

    assert not is_listed(attention.lower(*operands(), DOCUMENTS))


def test_a_mask_may_say_what_does_not_count() -> None:
    @tilelang.compute
    def attention(q, k, v, d):  # type: ignore[no-untyped-def]
        scores = tnp.where(d[:, None] != d[None, :], -tnp.inf, tnp.einsum("bqd,bkd->bqk", q, k))
        return tnp.einsum("bqk,bkd->bqd", tnp.softmax(scores), v)

    q, k, v = operands()
    assert is_listed(attention.lower(q, k, v, DOCUMENTS))
    wanted = expected(q, k, v, DOCUMENTS[:, None] == DOCUMENTS)
    np.testing.assert_allclose(attention(q, k, v, DOCUMENTS), wanted, rtol=1e-4, atol=1e-5)


def test_a_mask_of_products_that_are_summed() -> None:
    @tilelang.compute
    def sums(q, k, d):  # type: ignore[no-untyped-def]
        return tnp.sum(tnp.where(d[:, None] == d[None, :], tnp.einsum("bqd,bkd->bqk", q, k), 0), axis=-1)

    q, k, _ = operands()
    assert is_listed(sums.lower(q, k, DOCUMENTS))
    wanted = np.where(DOCUMENTS[:, None] == DOCUMENTS, np.einsum("bqd,bkd->bqk", q.astype(float), k), 0).sum(-1)
    np.testing.assert_allclose(sums(q, k, DOCUMENTS), wanted, rtol=1e-4, atol=1e-3)


def test_sums_of_what_is_read_are_not_listed() -> None:
    @tilelang.compute
    def sums(x, d, e):  # type: ignore[no-untyped-def]
        return tnp.sum(tnp.where(d[:, None] == e[None, :], x[None, :], 0), axis=1)

    arrays = np.zeros(70000, np.float32), np.zeros(90, np.int32), np.zeros(70000, np.int32)
    assert not is_listed(sums.lower(*arrays))
