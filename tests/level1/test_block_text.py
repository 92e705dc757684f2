"""Tiles and loops over them."""

import re

import numpy as np
from array_functions import trace

import tilelang.numpy as tnp
from tilelang.level1.lower import lower
from tilelang.targets.target import parse_target


def text_of(function: object, *shapes: tuple[int, ...]) -> str:
    arrays = [np.zeros(shape, np.float16) for shape in shapes]
    return lower(trace(function, *arrays), parse_target("cpu")).text  # type: ignore[arg-type]


def test_what_several_statements_compute_from_memory_is_held() -> None:
    def add_norm(x: object, r: object) -> object:
        h = x + r  # type: ignore[operator]
        return h / tnp.sqrt(tnp.mean(h * h, axis=-1, keepdims=True)), h

    text = text_of(add_norm, (9, 100), (9, 100))
    assert 1 == text.count("x0[")
    assert "T.copy(value, h[bx * block_i, 0])" in text


def test_tiles_that_are_not_at_the_end_of_an_index_are_slices() -> None:
    text = text_of(lambda q, k: tnp.einsum("bqhd,bkhd->bhqk", q, k), (2, 40, 3, 32), (2, 50, 3, 32))
    assert re.search(r"T.copy\(x0\[\w+, by \* (\w+):\(by \+ 1\) \* \1, \w+, \w+ \* \w+:.*\], x0_shared\)", text)
