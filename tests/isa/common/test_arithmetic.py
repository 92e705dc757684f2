"""Remainders and quotients in every dialect; their results are tested with the operators."""

import subprocess
from pathlib import Path

import pytest

from tilelang.isa.common.arithmetic import divisions_and_shifts, remainders
from tilelang.isa.intrinsic import ordered_helpers

NAMES = ["tl_truncmod", "tl_floormod", "tl_floormod_float", "tl_floordiv_float"]


@pytest.mark.parametrize(
    ("function", "library", "headers"),
    [("static inline", "std::", ("<cmath>",)), ("__device__ __forceinline__", "", ())],
)
def test_all_are_written_in_the_dialect(function: str, library: str, headers: tuple[str, ...]) -> None:
    helpers = remainders(function, library, headers)
    assert NAMES == [helper.name for helper in helpers]
    for helper in helpers:
        assert f"template <typename T> {function} T {helper.name}(T a, T b) {{\n" in helper.text
        assert f" {library}fmod(" in helper.text or "float" not in helper.name
        assert headers == helper.headers or "float" not in helper.name
    assert NAMES[:2] == [helper.name for helper in ordered_helpers([helpers[1]])]


def test_the_text_is_cpp(tmp_path: Path) -> None:
    truncmod, *others = remainders("static inline", "std::")
    helpers = [truncmod, *others, *divisions_and_shifts("inline", truncmod)]
    results = (
        "tl_floormod(-7, 3) == 2 && tl_floordiv_float(-7.0, 3.0) == -3.0 && tl_floordiv(-7, 3) == -3 && "
        "tl_truncdiv(-7, 3) == -2 && tl_truncdiv(-7, 0) == 0 && tl_truncdiv(INT32_MIN, -1) == INT32_MIN && "
        "tl_shl(1, 33) == 0 && tl_shr(-8, 1) == -4 && tl_shr(-8, 33) == -1"
    )
    source = tmp_path / "remainders.cpp"
    texts = [helper.text for helper in helpers]
    source.write_text("\n".join(["#include <cmath>", "#include <cstdint>", *texts, f"int main() {{ return !({results}); }}\n"]))
    program = tmp_path / "remainders"
    subprocess.run(["c++", "-std=c++17", "-O1", str(source), "-o", str(program)], check=True)
    subprocess.run([str(program)], check=True)
