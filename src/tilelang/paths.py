"""The names that programs written for published TileLang import: which module holds which names, as tables.

Has names only and imports nothing; `finder` turns rows into modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LANGUAGE = "tilelang.language"
_OF_NVIDIA = "tilelang.targets.nvidia.language"
NO_SOURCE = ""  # of names that can be imported, and are internal to published TileLang

# the modules into which published TileLang divides its language; each holds the names of `T`
_SUBJECTS = """
allocate annotations atomic builtin common copy_op customize experimental fastmath fill_op frame gemm_op logical
loop math_intrinsics meta proxy reduce_op scan_op symbolics tile_schedule utils
""".split()

_POSTPROCESSING = """
register_c_postproc register_c_postproc_callback register_cuda_postproc register_cuda_postproc_callback
register_hip_postproc register_hip_postproc_callback
"""
_TRANSFORM = {
    "tilelang.jit.pass_context": "PassContext get_pass_context simplify_prim_func",
    "tilelang.options": "PassConfigKey",
}
_TORCH_NAMES = {"tilelang.runtime.torch_names": "_TORCH_DTYPE_TO_STR=TORCH_DTYPE_TO_STR"}
_MMA = {
    f"{_OF_NVIDIA}.mma_emitter": "* INT4TensorCoreIntrinEmitter",
    f"{_OF_NVIDIA}.mma_index": "* shared_16x8_to_mma_32x4_layout_sr_a shared_16x8_to_mma_32x4_layout_sr_b "
    "shared_16x16_to_mma_32x8_layout_sr_a shared_16x16_to_mma_32x8_layout_sr_b "
    "shared_16x32_to_mma_32x16_layout_sr_a shared_16x32_to_mma_32x16_layout_sr_b",
    "tilelang.layout.swizzle": "make_mma_swizzle_layout",
}
_TENSORS = {
    "tilelang.profile.float8": "fp8_remove_negative_zeros_ is_float8_dtype",
    "tilelang.profile.inputs": "TensorSupplyType get_tensor_supply",
    "tilelang.testing": "torch_assert_close",
}

_EAGER = {LANGUAGE: "*", "tilelang.ir.func": "PrimFunc", "tilelang.jit.signature": "JITFunc"}
_TIR = {
    LANGUAGE: "*",
    f"{LANGUAGE}.tir_functions": "Let all any const",
    "tilelang.ir.expr": "PrimExpr=Expr",
    "tilelang.ir.func": "PrimFunc",
}
_STATEMENTS = """
AllocBuffer AssertStmt AttrStmt Bind Block BlockRealize BufferRegion BufferStore DeclBuffer Evaluate For IfThenElse
LetStmt SBlock SBlockRealize SeqStmt Stmt
"""
_STATEMENT_FUNCTIONS = """
PyStmtExprMutator PyStmtExprVisitor StmtExprMutator StmtExprVisitor StmtMutator StmtVisitor ir_transform
post_order_visit pre_order_visit substitute
"""

# path: {module that defines the names: the names}; "*" for all that module exports, "a=b" for its b under the name a.
# A path with a file of its own has the names of the file, too.
PATHS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "tilelang": {
            "tilelang.codegen.postprocess": _POSTPROCESSING,
            "tilelang.environment": "disable_cache enable_cache is_cache_enabled set_log_level",
            "tilelang.jit.compile": "compile lower par_compile",
            "tilelang.jit.kernel_inspection": "Lowered",
            "tilelang.jit.kernel": "JITKernel",
            "tilelang.language.dtypes": "DataType",
            "tilelang.layout": "Fragment Layout",
            "tilelang.level1.compute": "compute",
            "tilelang.math": "cdiv next_power_of_2",
            "tilelang.options": "CompileOptions PassConfigKey",
            "tilelang.profile.inputs": "TensorSupplyType",
            "tilelang.profile.profiler": "Profiler",
            "tilelang.targets.target": "Target",
            "tilelang.tune.autotune": "autotune",
            "tilelang.version": "__version__ build_date deprecated",
        },
        "tilelang._ffi_api": {},
        "tilelang.autotuner": {},
        "tilelang.autotuner.param": {
            "tilelang.tune.result": "AutotuneResult=TuningResult",
            "tilelang.tune.published_arguments": "CompileArgs ProfileArgs",
        },
        "tilelang.autotuner.tuner": {
            "tilelang.tune.autotune": "AutoTuneImpl=TunedFunction autotune",
            "tilelang.tune.tuner": "AutoTuner",
        },
        "tilelang.backend": {},
        "tilelang.backend.target": {},
        "tilelang.carver": {},
        "tilelang.contrib": {},
        "tilelang.contrib.nvcc": {},
        "tilelang.cpu": {},
        "tilelang.cpu.language": {LANGUAGE: "*"},
        "tilelang.cuda": {},
        "tilelang.cuda.language": {LANGUAGE: "*"},
        "tilelang.cuda.language.tir": {LANGUAGE: "*"},
        "tilelang.cuda.language.intrinsics": {LANGUAGE: "*"},
        "tilelang.cuda.intrinsics": _MMA,
        "tilelang.cuda.intrinsics.layout": _MMA,
        "tilelang.cuda.intrinsics.layout.mma_layout": _MMA,
        "tilelang.cuda.intrinsics.layout.utils": _MMA,
        "tilelang.cuda.intrinsics.macro": _MMA,
        "tilelang.cuda.intrinsics.macro.mma_macro_generator": _MMA,
        "tilelang.cuda.intrinsics.macro.wgmma_macro_generator": {
            f"{_OF_NVIDIA}.mma_index": "compute_gmma_descriptor",
            f"{_OF_NVIDIA}.mma_emitter": "WGMMATensorCoreIntrinEmitter "
            "TensorCoreIntrinEmitter=WGMMATensorCoreIntrinEmitter",
        },
        "tilelang.cuda.intrinsics.sparse_layout": {
            f"{_OF_NVIDIA}.mma_index": "GROUP_CONFIG get_e_factor get_e_replicate_factor"
        },
        "tilelang.dtypes": {f"{LANGUAGE}.dtypes": "* _all_dtypes", **_TORCH_NAMES},
        "tilelang.env": {},
        "tilelang.intrinsics": {},
        "tilelang.jit": {"tilelang.jit.jit_impl": "JITImpl"},
        "tilelang.jit.exceptions": {"tilelang.errors": "JITNoBuilderError"},
        LANGUAGE: {
            "tilelang.ir.func": "PrimFunc",
            "tilelang.jit.signature": "JITFunc",
            f"{LANGUAGE}.dtypes": "AnyDType get_tvm_dtype is_float4 is_float4_e2m1_unpacked is_float4_e2m1fn",
            f"{LANGUAGE}.kernel": "KernelLaunchFrame=Kernel",
        },
        **{f"{LANGUAGE}.{subject}": {LANGUAGE: "*"} for subject in _SUBJECTS},
        f"{LANGUAGE}.dtypes": _TORCH_NAMES,
        f"{LANGUAGE}.eager": _EAGER,
        f"{LANGUAGE}.eager.ast": {**_EAGER, NO_SOURCE: "mutate"},
        f"{LANGUAGE}.eager.builder": _EAGER,
        f"{LANGUAGE}.fp8": {},
        f"{LANGUAGE}.kernel": {LANGUAGE: "*", f"{LANGUAGE}.kernel": "KernelLaunchFrame=Kernel"},
        f"{LANGUAGE}.tir": {LANGUAGE: "*"},
        f"{LANGUAGE}.tir.ir": {LANGUAGE: "*", "tilelang.ir.conversion": "_VALID_CAST_ROUNDING_MODES=ROUNDING_MODES"},
        f"{LANGUAGE}.tir.op": {LANGUAGE: "*"},
        "tilelang.jit.adapter": {NO_SOURCE: ""},
        "tilelang.jit.adapter.base": {"tilelang.jit.jit_impl": "BaseKernelAdapter"},
        "tilelang.jit.adapter.tvm_ffi": {NO_SOURCE: "TVMFFIKernelAdapter"},
        "tilelang.layout": {},
        "tilelang.math": {},
        "tilelang.profiler": {},
        "tilelang.profiler.bench": {"tilelang.profile.timer": "do_bench"},
        "tilelang.quantize": {},
        "tilelang.testing": {},
        "tilelang.tileop.base": {"tilelang.ops.gemm": "GemmWarpPolicy"},
        "tilelang.tools": {},
        "tilelang.cache": {"tilelang.jit.compile": "cached=compile"},
        "tilelang.engine": {
            "tilelang.codegen.postprocess": _POSTPROCESSING,
            "tilelang.jit.compile": "lower",
            "tilelang.runtime.kernel_param": "KernelParam",
        },
        "tilelang.engine.callback": {"tilelang.codegen.postprocess": _POSTPROCESSING},
        "tilelang.engine.lower": {"tilelang.jit.compile": "lower"},
        "tilelang.engine.param": {"tilelang.runtime.kernel_param": "KernelParam"},
        "tilelang.transform": _TRANSFORM,
        "tilelang.transform.pass_config": _TRANSFORM,
        "tilelang.transform.simplify": {"tilelang.jit.pass_context": "simplify_prim_func"},
        "tilelang.utils": {**_TENSORS, f"{LANGUAGE}.operands": "*", "tilelang.version": "build_date deprecated"},
        "tilelang.utils.device": {"tilelang.profile.current_device": "get_current_device"},
        "tilelang.utils.language": {f"{LANGUAGE}.operands": "*"},
        "tilelang.utils.target": {"tilelang.backend.target": "*"},
        "tilelang.utils.tensor": _TENSORS,
        # a module that comes with published TileLang; a real one that is installed comes first
        "tvm": {f"{LANGUAGE}.dtypes": "DataType", "tilelang.errors": "TVMError=TileLangError"},
        "tvm.error": {"tilelang.errors": "InternalError=TileLangError TVMError=TileLangError"},
        "tvm.ir": {"tilelang.ir.expr": "PrimExpr=Expr", f"{LANGUAGE}.legacy_calls": "Op"},
        "tvm.target": {"tilelang.targets.target": "Target"},
        "tvm.testing": {"tilelang.testing": "main requires_cuda requires_package requires_rocm"},
        "tvm.tir": {**_TIR, f"{LANGUAGE}.legacy_calls": "IndexMap", NO_SOURCE: _STATEMENTS},
        "tvm.tir.op": {**_TIR, f"{LANGUAGE}.legacy_calls": "Op"},
        "tvm.tir.stmt_functor": {NO_SOURCE: _STATEMENT_FUNCTIONS},
        "tvm.tirx": {**_TIR, f"{LANGUAGE}.legacy_calls": "IndexMap", NO_SOURCE: _STATEMENTS},
        "tvm.tirx.op": {**_TIR, f"{LANGUAGE}.legacy_calls": "Op"},
        "tvm.tirx.stmt_functor": {NO_SOURCE: _STATEMENT_FUNCTIONS},
    }
)

# modules that are imported under another name, too, by `from tilelang import`
ALIASES: Mapping[str, str] = MappingProxyType({"tilelang.tvm": "tvm"})

_NOT_OFFERED: tuple[tuple[str, str], ...] = (
    ("write tilelang.lower, or kernel.get_kernel_source()", "tvm tilelang.tvm"),
    (
        "kernel.show_ir() shows the program after each pass",
        "tilelang.transform tilelang.cuda.backend tilelang.cuda.debug tilelang.cuda.op tilelang.cuda.pipeline "
        "tilelang.cuda.target tilelang.cuda.transform tilelang.tileop tilelang.rocm tilelang.metal "
        "tilelang.webgpu tilelang.ir tilelang.instrumentation tilelang.backend",
    ),
    ("write the methods of tilelang.layout.Layout", "tilelang._ffi_api"),
    (
        "write tilelang.jit.JITKernel, or tilelang.env",
        "tilelang.jit.adapter tilelang.jit.abi tilelang.jit.diagnostics tilelang.cache",
    ),
    (
        "",
        "tilelang.layout.cute tilelang.tools.cuda tilelang.tools.lower_trace tilelang.tools.pass_visualizer "
        "tilelang.tools.pass_timing tilelang.utils.pass_diff "
        "tilelang.utils.pass_diff_hook tilelang.language.eager.ast tilelang.language.tir.exports",
    ),
)

# name, or module whose further names are all meant: what to write instead; "" where there is nothing
INTERNAL: Mapping[str, str] = MappingProxyType({name: hint for hint, names in _NOT_OFFERED for name in names.split()})
