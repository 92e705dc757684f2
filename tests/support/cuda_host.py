"""Runs printed CUDA on the host, one thread per block, so that tests can compare what it computes.

The text is compiled as C++ with a few words of CUDA defined away, and watched for undefined arithmetic: a signed
overflow, which wrong widths of indices lead to, is reported on the standard error. Programs come from the CPU's passes,
which make one sequential program of each block; only shared memory and registers have to be told apart.
"""

import ctypes
import dataclasses
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tilelang.codegen.source import Source
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import PrimFunc, ScalarParam
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Alloc, Launch, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.isa.intrinsic import Helper, ordered_helpers
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.thread import predicate_bounds, simplify_body
from tilelang.passes.tile import check_program, inline_bindings
from tilelang.passes.tile.choose_lowerings import choose_lowerings
from tilelang.passes.tile.lower_tile_ops import lower_tile_ops
from tilelang.targets.cpu.backend import LOWERINGS
from tilelang.targets.cpu.lowerings import gemm
from tilelang.targets.nvidia.codegen.cuda import emit

COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

_WORDS = """\
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__
struct tl_point { int x, y, z; };
static tl_point blockIdx, threadIdx;
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
extern "C" { alignas(1024) unsigned char tl_shared[1 << 20]; }
extern "C" void tl_enter(int x, int y, int z) { blockIdx = {x, y, z}; }
struct tl_trap {};
static void __threadfence() {}
static void __threadfence_system() {}
[[noreturn]] static void __trap() { throw tl_trap(); }
template <typename T, typename F> static T tl_change(T* at, F change) { T old = *at; *at = change(old); return old; }
static int atomicAdd(int* at, int x) { return tl_change(at, [=](int y) { return int(unsigned(x) + unsigned(y)); }); }
static int atomicMin(int* at, int x) { return tl_change(at, [=](int y) { return x < y ? x : y; }); }
static int atomicMax(int* at, int x) { return tl_change(at, [=](int y) { return x > y ? x : y; }); }
static int atomicAnd(int* at, int x) { return tl_change(at, [=](int y) { return x & y; }); }
static int atomicOr(int* at, int x) { return tl_change(at, [=](int y) { return x | y; }); }
static int atomicXor(int* at, int x) { return tl_change(at, [=](int y) { return x ^ y; }); }
static int atomicExch(int* at, int x) { return tl_change(at, [=](int) { return x; }); }
static int atomicCAS_system(int* at, int x, int z) { return tl_change(at, [=](int y) { return y == x ? z : y; }); }
static float __int_as_float(int x) { float y; std::memcpy(&y, &x, 4); return y; }
static double __longlong_as_double(long long x) { double y; std::memcpy(&y, &x, 8); return y; }
"""
_CHECKED = ("-O0", "-fsanitize=signed-integer-overflow,shift,alignment,bounds", "-fno-strict-aliasing", "-w")


class _Placed(Rewriter):
    """Gives shared buffers places, one after another, and makes fragments arrays of the thread."""

    def __init__(self) -> None:
        self._new: dict[Buffer, Buffer] = {}

    def buffer(self, node: Buffer) -> Buffer:
        if node.scope is not Scope.FRAGMENT and node.view_of is None:
            return node
        if node not in self._new:
            scope = Scope.LOCAL if node.scope is Scope.FRAGMENT else node.scope
            base = None if node.view_of is None else self.buffer(node.view_of)
            self._new[node] = dataclasses.replace(node, scope=scope, view_of=base)
        return self._new[node]

    def stmt(self, node: Stmt) -> Stmt | None:
        new = self.rebuild_stmt(node)
        if not isinstance(new, Launch):
            return new
        offsets, top = [], 0
        for stmt in walk(new.body):
            if isinstance(stmt, Alloc) and stmt.buffer.scope is Scope.SHARED and stmt.buffer.view_of is None:
                offsets.append((stmt.buffer, top))
                top += -(-(stmt.buffer.bytes or 0) // 16) * 16
        return dataclasses.replace(new, plan=LaunchPlan(shared_offsets=tuple(offsets), shared_bytes=top))


_PASSES = (
    check_program.PASS,
    inline_bindings.PASS,
    choose_lowerings(LOWERINGS),
    lower_tile_ops(LOWERINGS),
    predicate_bounds.PASS,
    simplify_body.PASS,
)


def sequential_source(func: PrimFunc) -> Source:
    """CUDA for a tile-level function in which one thread does the work of each block."""
    with mock.patch.object(gemm, "gemm_routine", lambda *_: None):  # products as loops, not as calls of C++
        lowered = run_passes(func, _PASSES, PassContext())
    body = _Placed().visit(lowered.body)
    assert body is not None
    return emit(dataclasses.replace(lowered, body=body))


def _compiled(text: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
        source.write_text(_WORDS + text)
        command = [str(COMPILER), "-std=c++17", *_CHECKED, "-shared", "-fPIC", str(source), "-o", str(library)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr[:4000]
        return ctypes.CDLL(str(library))


def compile_checked(helpers: Iterable[Helper], functions: str) -> ctypes.CDLL:
    """The library of functions that stand after the helpers they use."""
    return _compiled("\n".join([*(helper.text for helper in ordered_helpers(helpers)), functions]))


def run_source(func: PrimFunc, source: Source, arguments: Sequence[Any], symbols: dict[str, int] | None = None) -> int:
    """Runs the kernels over their grids on arrays in place; gives the number of a failed assertion."""
    loaded = _compiled(source.text)
    values = {symbol.name: (symbols or {})[symbol.name] for symbol in func.symbols}
    values |= {p.name: a for p, a in zip(func.params, arguments, strict=True) if isinstance(p, ScalarParam)}
    workspaces = [ctypes.create_string_buffer(eval(size, values)) for size in source.workspaces]
    failure = ctypes.c_int32(0)
    for launch in source.launches:
        passed: list[Any] = []
        for argument in launch.arguments:
            match argument.kind:
                case "tensor":
                    passed.append(ctypes.c_void_p(arguments[argument.index].ctypes.data))
                case "scalar":
                    passed.append(_C_TYPES[argument.ctype](arguments[argument.index]))
                case "symbol":
                    passed.append(_C_TYPES[argument.ctype](values[func.symbols[argument.index].name]))
                case "workspace":
                    passed.append(workspaces[argument.index])
                case "failure":
                    passed.append(ctypes.byref(failure))
        x, y, z = (*(max(0, eval(extent, dict(values))) for extent in launch.grid), 1, 1)[:3]
        for bz, by, bx in np.ndindex(z, y, x):
            loaded.tl_enter(bx, by, bz)
            getattr(loaded, launch.name)(*passed)
    return failure.value


_C_TYPES = {
    "int8_t": ctypes.c_int8,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint8_t": ctypes.c_uint8,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "bool": ctypes.c_bool,
}
