import ast
import importlib
import inspect
from pathlib import Path

import pytest

import tilelang.language as T
from tilelang.paths import PATHS

# What programs import from where, and who of `T` must be the same object.
PUBLISHED = {
    "tilelang": """autotune autotuner build_date carver cdiv compile deprecated disable_cache enable_cache engine
        Fragment is_cache_enabled jit JITKernel language layout Layout lower math next_power_of_2 par_compile
        PassConfigKey profiler Profiler TensorSupplyType testing transform set_log_level env DataType dtypes contrib
        register_cuda_postproc register_c_postproc register_hip_postproc __version__ backend utils""",
    "tilelang._ffi_api": "",
    "tilelang.language.eager": "prim_func macro const JITFunc Ref",
    "tilelang.language.eager.ast": "mutate",
    "tilelang.language.eager.builder": "prim_func macro const JITFunc Ref",
    "tilelang.language.kernel": "Kernel KernelLaunchFrame get_thread_binding _normalize_threads",
    "tilelang.language.loop": "Parallel Persistent Pipelined serial unroll vectorized",
    "tilelang.language.proxy": "Tensor StridedTensor ptr",
    "tilelang.language.allocate": "alloc_shared alloc_local alloc_fragment alloc_var alloc_global alloc_barrier empty",
    "tilelang.language.annotations": "use_swizzle annotate_layout annotate_safe_value annotate_l2_hit_ratio",
    "tilelang.language.copy_op": "copy async_copy tma_copy transpose c2d_im2col im2col",
    "tilelang.language.gemm_op": "gemm wgmma_gemm",
    "tilelang.language.fill_op": "fill clear",
    "tilelang.language.reduce_op": "reduce reduce_sum reduce_max finalize_reducer warp_reduce_sum",
    "tilelang.language.scan_op": "cumsum cummax",
    "tilelang.language.atomic": "atomic_add atomic_max atomic_min atomic_addx2 atomic_addx4 atomic_load atomic_store",
    "tilelang.language.builtin": "access_ptr sync_threads mbarrier_arrive shfl_xor shuffle_elect",
    "tilelang.language.customize": "dp4a clamp reshape view",
    "tilelang.language.symbolics": "dynamic symbolic",
    "tilelang.language.frame": "",
    "tilelang.language.logical": "any_of all_of",
    "tilelang.language.common": "copy import_source",
    "tilelang.language.meta": "",
    "tilelang.language.tile_schedule": "",
    "tilelang.language.fastmath": "__exp",
    "tilelang.language.math_intrinsics": "",
    "tilelang.language.utils": "",
    "tilelang.language.experimental": "",
    "tilelang.language.tir": "exp sqrt if_then_else",
    "tilelang.language.tir.ir": "exp _VALID_CAST_ROUNDING_MODES",
    "tilelang.language.tir.op": "exp",
    "tilelang.layout": "Layout Fragment make_swizzled_layout make_linear_layout",
    "tilelang.layout.layout": "Layout",
    "tilelang.layout.fragment": "Fragment",
    "tilelang.layout.swizzle": "make_swizzled_layout",
    "tilelang.transform": "PassConfigKey PassContext get_pass_context simplify_prim_func",
    "tilelang.cuda.language": "gemm copy",
    "tilelang.cpu.language": "gemm copy",
    "tilelang.cuda.language.tir": "exp",
    "tilelang.tileop.base": "GemmWarpPolicy",
    "tilelang.engine": "lower KernelParam register_cuda_postproc register_c_postproc register_hip_postproc",
    "tilelang.engine.lower": "lower",
    "tilelang.autotuner": "autotune AutoTuner set_autotune_inputs get_autotune_inputs",
    "tilelang.cache": "cached",
    "tilelang.profiler": "do_bench Profiler TensorSupplyType",
    "tilelang.profiler.bench": "do_bench",
    "tilelang.testing": "main requires_cuda set_random_seed torch_assert_close",
    "tilelang.jit": "jit JITImpl JITKernel compile par_compile",
    "tilelang.jit.kernel": "JITKernel",
    "tilelang.jit.exceptions": "JITNoBuilderError",
    "tilelang.engine.param": "KernelParam",
    "tilelang.engine.callback": "register_cuda_postproc register_cuda_postproc_callback register_c_postproc register_c_postproc_callback",
    "tilelang.backend.target": "determine_target auto_detect_target",
    "tilelang.utils": "TensorSupplyType torch_assert_close is_global is_shared is_local is_fragment retrieve_shape",
    "tilelang.utils.tensor": "TensorSupplyType get_tensor_supply torch_assert_close is_float8_dtype fp8_remove_negative_zeros_",
    "tilelang.utils.device": "get_current_device",
    "tilelang.utils.language": "is_global is_shared is_local is_fragment retrieve_shape retrieve_stride to_buffer_region",
    "tilelang.utils.target": "determine_target",
    "tilelang.contrib": "nvcc",
    "tilelang.contrib.nvcc": """get_cuda_version get_target_compute_version parse_compute_version get_target_arch have_fp8
        have_bf16 have_int8 have_tensorcore have_tma have_pdl is_hopper find_cuda_path get_nvcc_compiler
        compile_cuda""",
    "tilelang.env": "env enable_cache disable_cache is_cache_enabled CacheState",
    "tilelang.dtypes": "float16 int8x4 dtype AnyDType get_tvm_dtype _all_dtypes",
    "tilelang.language.dtypes": """float16 bool dtype AnyDType get_tvm_dtype resolve_torch_storage_dtype is_float4
        is_float4_e2m1fn is_float4_e2m1_unpacked _all_dtypes""",
    "tilelang.language.fp8": "determine_fp8_type determine_torch_fp8_type",
    "tilelang.jit.adapter.base": "BaseKernelAdapter",
    "tilelang.autotuner.param": "CompileArgs ProfileArgs AutotuneResult",
    "tilelang.autotuner.tuner": "AutoTuner AutoTuneImpl",
    "tvm": "tirx tir DataType TVMError error ir target testing",
    "tvm.error": "InternalError TVMError",
    "tvm.testing": "main requires_package",
    "tvm.ir": "PrimExpr Op",
    "tvm.tirx": "PrimExpr PrimFunc IntImm FloatImm StringImm Min Max exp if_then_else Select Cast Var call_extern const all any Let For IndexMap",
    "tvm.tirx.op": "Op exp call_intrin",
    "tvm.tir": "const Select",
    "tvm.tir.op": "Op",
    "tvm.target": "Target",
    "tvm.tirx.stmt_functor": "post_order_visit StmtVisitor",
    "tilelang.quantize": """_tir_packed_int_to_int_convert _tir_packed_to_fp4_to_f16 _tir_packed_to_signed_convert
        _tir_packed_to_unsigned_convert get_lop3_intrin_group""",
    "tilelang.cuda.intrinsics.macro.wgmma_macro_generator": "compute_gmma_descriptor TensorCoreIntrinEmitter",
    "tilelang.carver.arch": "CUDA driver",
}


@pytest.mark.parametrize("path", PUBLISHED)
def test_the_published_path_holds_its_names(path: str) -> None:
    module = importlib.import_module(path)
    for name in PUBLISHED[path].split():
        scope: dict[str, object] = {}
        exec(f"from {path} import {name}", scope)
        assert getattr(module, name) is scope[name]
        if path.startswith("tilelang.language.") and hasattr(T, name):
            assert getattr(T, name) is scope[name]


@pytest.mark.parametrize("path", PATHS)
def test_every_name_of_every_row_exists(path: str) -> None:
    module = importlib.import_module(path)
    absent = [name for name in dir(module) if not hasattr(module, name)]
    assert [] == absent
    assert inspect.ismodule(module) or callable(module)


@pytest.mark.parametrize("path", sorted({path.rpartition(".")[0] for path in PATHS} - {""}))
def test_no_file_has_a_variable_that_a_module_below_it_would_replace(path: str) -> None:
    file = getattr(importlib.import_module(path), "__file__", None)
    if file is None:
        return
    below = {name.rpartition(".")[2] for name in PATHS if name.rpartition(".")[0] == path}
    tree = ast.parse(Path(file).read_text())
    imports = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    names = [alias for node in imports if getattr(node, "module", "") not in (path, "__future__") for alias in node.names]
    bound = {(alias.asname or alias.name).partition(".")[0] for alias in names}
    assert set() == below & bound
