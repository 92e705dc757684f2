"""Compiles C++ helper texts of `tilelang.isa` into a library, so that tests can call them on NumPy arrays."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from tilelang.isa.intrinsic import Helper, ordered_helpers
from tilelang.runtime import cache

NATIVE = ("-O3", "-march=native", "-fwrapv", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
PLAIN = ("-O0",)  # whatever the compiler's default processor is: the portable paths
COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


def compile_functions(helpers: Iterable[Helper | None], functions: Iterable[str], flags: tuple[str, ...]) -> ctypes.CDLL:
    """The library of `extern "C"` functions that stand after the helpers they use."""
    ordered = ordered_helpers(helper for helper in helpers if helper is not None)
    headers = sorted({"<cstdint>"}.union(*(helper.headers for helper in ordered)))
    lines = [*(f"#include {header}" for header in headers), *(helper.text for helper in ordered), 'extern "C" {']
    text = "\n".join([*lines, *functions, "}"])

    def compiled() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "functions.cpp"), Path(folder, "functions.so")
            source.write_text(text)
            command = [str(COMPILER), "-std=c++17", *flags, "-fopenmp-simd", "-shared", "-fPIC", str(source), "-o", str(library)]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            assert result.returncode == 0, result.stderr[:4000]
            return library.read_bytes()

    # tests of one file run in several processes, which share the session's cache
    return cache.open_or_make(cache.key_of("tests", text, *flags), ".so", compiled, lambda path: ctypes.CDLL(str(path)))


def call(function: object, *arguments: object) -> None:
    """Calls a compiled function; arrays go as addresses, truth values and integers by value."""

    def passed(argument: object) -> object:
        if isinstance(argument, np.ndarray):
            return ctypes.c_void_p(argument.ctypes.data)
        return ctypes.c_bool(argument) if isinstance(argument, bool) else ctypes.c_int64(argument)

    function(*(passed(argument) for argument in arguments))
