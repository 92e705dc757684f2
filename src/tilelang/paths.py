"""The names that programs written for published TileLang import: which module holds which names, as tables.

Knows names only and imports nothing; `finder` turns rows into modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LANGUAGE = "tilelang.language"
NO_SOURCE = ""  # of names that can be imported, and are internal to published TileLang

# the modules into which published TileLang divides its language; each holds the names of `T`
_SUBJECTS = """
allocate annotations atomic builtin common copy_op customize experimental fastmath fill_op frame gemm_op kernel logical
loop math_intrinsics meta proxy reduce_op scan_op symbolics tile_schedule utils
""".split()

_POSTPROCESSING = """
register_c_postproc register_c_postproc_callback register_cuda_postproc register_cuda_postproc_callback
register_hip_postproc register_hip_postproc_callback
"""

# path: {module that defines the names: the names}; "*" for all that module exports, "a=b" for its b under the name a.
# A path with a file of its own has the names of the file, too.
PATHS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "tilelang": {
            "tilelang.jit.compile": "compile lower par_compile",
            "tilelang.jit.kernel_texts": "Lowered",
            "tilelang.jit.kernel": "JITKernel",
            "tilelang.layout": "Fragment Layout",
            "tilelang.math": "cdiv next_power_of_2",
            "tilelang.options": "CompileOptions PassConfigKey disable_cache enable_cache is_cache_enabled",
            "tilelang.profile.inputs": "TensorSupplyType",
            "tilelang.profile.profiler": "Profiler",
            "tilelang.target": "Target",
            "tilelang.tune.autotune": "autotune",
            "tilelang.version": "__version__ build_date deprecated",
        },
        "tilelang._ffi_api": {},
        "tilelang.autotuner": {},
        "tilelang.carver": {},
        "tilelang.cpu": {},
        "tilelang.cpu.language": {LANGUAGE: "*"},
        "tilelang.cuda": {},
        "tilelang.cuda.language": {LANGUAGE: "*"},
        "tilelang.intrinsics": {},
        "tilelang.jit": {},
        LANGUAGE: {},
        **{f"{LANGUAGE}.{subject}": {LANGUAGE: "*"} for subject in _SUBJECTS},
        f"{LANGUAGE}.eager": {LANGUAGE: "*"},
        f"{LANGUAGE}.eager.ast": {LANGUAGE: "*", NO_SOURCE: "mutate"},
        f"{LANGUAGE}.eager.builder": {LANGUAGE: "*"},
        f"{LANGUAGE}.tir": {LANGUAGE: "*"},
        f"{LANGUAGE}.tir.ir": {LANGUAGE: "*"},
        f"{LANGUAGE}.tir.op": {LANGUAGE: "*"},
        "tilelang.layout": {},
        "tilelang.math": {},
        "tilelang.profiler": {},
        "tilelang.profiler.bench": {"tilelang.profile.timer": "do_bench"},
        "tilelang.testing": {},
        "tilelang.cache": {"tilelang.jit.compile": "cached=compile"},
        "tilelang.engine": {"tilelang.jit.compile": "lower"},
        "tilelang.engine.lower": {"tilelang.jit.compile": "lower"},
        "tilelang.transform": {"tilelang.options": "PassConfigKey"},
    }
)

_NOT_OFFERED: tuple[tuple[str, str], ...] = (
    ("write tilelang.lower, or kernel.get_kernel_source()", "tvm tilelang.tvm"),
    (
        "kernel.show_ir() shows the program after each pass",
        "tilelang.transform tilelang.cuda.transform tilelang.rocm tilelang.metal tilelang.webgpu tilelang.ir "
        "tilelang.instrumentation tilelang.backend",
    ),
    ("write the methods of tilelang.layout.Layout", "tilelang._ffi_api"),
    (
        "write tilelang.jit.JITKernel, or tilelang.env",
        "tilelang.jit.adapter tilelang.jit.abi tilelang.jit.diagnostics tilelang.cache",
    ),
    (
        "",
        "tilelang.layout.cute tilelang.tools.cuda.iket tilelang.tools.lower_trace tilelang.tools.pass_visualizer "
        "tilelang.tools.pass_timing tilelang.utils.pass_diff tilelang.language.eager.ast.mutate",
    ),
    (
        "write T.ws, or T.Pipelined",
        " ".join(
            f"{LANGUAGE}.{name}"
            for name in "WSSchedule WSRole WSPipeline WSScope WSSync ws_op annotate_ws_schedule".split()
        ),
    ),
)

# name, or module whose further names are all meant: what to write instead; "" where there is nothing
INTERNAL: Mapping[str, str] = MappingProxyType({name: hint for hint, names in _NOT_OFFERED for name in names.split()})
