"""Launches with tensor maps, of clusters and of dependent kernels on a GPU, with and without launch.cpp."""


import pytest
from device_launch import architecture, needs_gpu
from fake_cuda import signature, tensor
from native_calls import choose_way

from tilelang.codegen.source import DeviceLaunch, KernelArgument, Source, TensorMapText
from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import DriverError
from tilelang.ir.expr import Var
from tilelang.isa.intrinsic import ordered_helpers
from tilelang.targets.gpu.runtime.device_call import DeviceCaller
from tilelang.targets.nvidia.isa.cluster import CLUSTER_RANK, CLUSTER_SIZE
from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_LAUNCH, GRID_DEPENDENCY_WAIT
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_ARRIVE_EXPECT_TX, MBARRIER_INIT, MBARRIER_WAIT
from tilelang.targets.nvidia.isa.tma import tma_load
from tilelang.targets.nvidia.isa.types import INTEGERS
from tilelang.targets.nvidia.runtime.cuda_program import CudaProgram
from tilelang.targets.nvidia.runtime.device_code import build
from tilelang.targets.nvidia.runtime.device_runtime import RUNTIME

pytestmark = needs_gpu
torch = pytest.importorskip("torch")
M, K = (Var(name, INT32, index=True) for name in "MK")
ROWS = COLUMNS = 64
BYTES = ROWS * COLUMNS * 2
HALF = as_dtype("float16")


@pytest.fixture(params=["launcher", "python"])
def way(request, monkeypatch):
    """How calls after the first are made."""
    choose_way(request.param, monkeypatch)
    return request.param


@pytest.fixture(autouse=True)
def _hopper():
    if architecture() != "sm_90a":
        pytest.skip("needs a GPU of compute capability 9.0")


def caller_of(s, make):
    """A kernel by its source text; `make` gives that for what is known of calls."""
    variants = []

    def compile_variant(facts):
        variants.append(facts)
        return CudaProgram(s, build(make(facts), architecture(), "nvrtc"), RUNTIME.board)

    caller = DeviceCaller(s, architecture(), compile_variant, RUNTIME.open_driver, RUNTIME.board)
    caller.compiled = variants
    return caller


def text_of(body, *instructions):
    helpers = ordered_helpers([INTEGERS, *(i.helpers["cuda"] for i in instructions if "cuda" in i.helpers)])
    return "\n".join([*(helper.text for helper in helpers), body])


LOAD = tma_load(2)
BOXES = text_of(
    f"""
extern "C" __global__ void boxes(const __grid_constant__ tl_tensor_map map, unsigned short* out, int columns, int rows) {{
    __shared__ __align__(1024) unsigned short tile[{ROWS * COLUMNS}];
    __shared__ unsigned long long bar;
    if (threadIdx.x == 0) {{
        {MBARRIER_INIT.texts["cuda"].format("&bar", "1")};
        {FENCE_PROXY_ASYNC.texts["cuda"]};
        {MBARRIER_ARRIVE_EXPECT_TX.texts["cuda"].format("&bar", str(BYTES))};
        {LOAD.texts["cuda"].format("tile", "map", "&bar", f"blockIdx.x * {COLUMNS}", f"blockIdx.y * {ROWS}")};
    }}
    __syncthreads();
    {MBARRIER_WAIT.texts["cuda"].format("&bar", "0")};
    for (int i = threadIdx.x; i < {ROWS * COLUMNS}; i += 128) {{
        const int row = i / {COLUMNS}, column = i % {COLUMNS};
        const int r = blockIdx.y * {ROWS} + row, c = blockIdx.x * {COLUMNS} + column;
        if (r < rows && c < columns) out[(long long)r * columns + c] = tile[row * {COLUMNS} + (column ^ (row & 7) << 3)];
    }}
}}
""",
    MBARRIER_INIT, FENCE_PROXY_ASYNC, MBARRIER_ARRIVE_EXPECT_TX, MBARRIER_WAIT, LOAD,
)  # fmt: skip
PLAIN = """
extern "C" __global__ void boxes(const unsigned short* in, unsigned short* out, int columns, int rows) {
    for (int i = threadIdx.x; i < 64 * 64; i += 128) {
        const int r = blockIdx.y * 64 + i / 64, c = blockIdx.x * 64 + i % 64;
        if (r < rows && c < columns) out[(long long)r * columns + c] = in[(long long)r * columns + c];
    }
}
"""


@pytest.fixture
def copies():
    """B = A, by boxes where A may have a map."""
    s = signature(tensor("A", M, K, dtype="float16"), tensor("B", M, K, dtype="float16"), symbols=(M, K))
    grid = (f"-(-K // {COLUMNS})", f"-(-M // {ROWS})")
    rest = (KernelArgument("tensor", 1, "void*"), KernelArgument("symbol", 1, "int"), KernelArgument("symbol", 0, "int"))

    def make(facts):
        mapped = dict(facts.multiples).get("K") and "A" not in facts.misaligned
        first = KernelArgument("tensor_map", 0, "tl_tensor_map") if mapped else KernelArgument("tensor", 0, "void*")
        text = TensorMapText(0, HALF, ("K", "M"), ("K * 2",), (COLUMNS, ROWS), 128)
        launch = DeviceLaunch(
            "boxes", grid, (128, 1, 1), 0, (1, 1, 1), (first, *rest), tensor_maps=(text,) if mapped else ()
        )
        return Source("cuda", BOXES if mapped else PLAIN, "boxes", launches=(launch,))

    caller = caller_of(s, make)  # the text is the same whatever is known of sizes, so they keep their names
    caller._names = lambda bound, program, facts: {"M": bound.symbols[0], "K": bound.symbols[1]}
    return caller


def test_boxes_come_from_where_the_tensor_is_at_each_call(way, copies):
    for rows, columns in ((64, 64), (64, 64), (100, 136), (64, 64), (100, 136), (1, 8), (300, 576)):
        for _ in range(2):
            a = torch.randn(rows, columns, device="cuda").half()
            b = torch.zeros_like(a)
            copies.call(a, b)
            assert torch.equal(a, b)


def test_calls_that_can_have_no_map_run_all_the_same(way, copies):
    flat = torch.randn(64 * 64 + 8, device="cuda").half()
    for a in (flat[1 : 1 + 4096].view(64, 64), flat[8 : 8 + 4096].view(64, 64), torch.randn(9, 7, device="cuda").half()):
        for _ in range(2):
            b = torch.zeros(a.shape, dtype=a.dtype, device="cuda")
            copies.call(a, b)
            assert torch.equal(a, b)
    empty = torch.zeros(0, 64, device="cuda").half()
    copies.call(empty, torch.zeros_like(empty))
    assert 3 == len(copies.compiled)  # with a map, without one for 'A' between 16 bytes, for 7 columns


def ranks(cluster, blocks):
    """Every block tells its number in its cluster, and how many the cluster has."""
    body = f"""
extern "C" __global__ void __cluster_dims__{cluster} ranks(int* out) {{
    if (threadIdx.x) return;
    out[2 * blockIdx.x] = {CLUSTER_RANK.texts["cuda"]};
    out[2 * blockIdx.x + 1] = {CLUSTER_SIZE.texts["cuda"]};
}}
"""
    launch = DeviceLaunch(
        "ranks", (str(blocks),), (32, 1, 1), 0, cluster, (KernelArgument("tensor", 0, "void*"),)
    )
    source = Source("cuda", text_of(body, CLUSTER_RANK, CLUSTER_SIZE), "ranks", launches=(launch,))
    return caller_of(signature(tensor("out", blocks, 2, dtype="int32")), lambda facts: source)


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_clusters_run_whether_large_or_small(way, size):
    caller = ranks((size, 1, 1), 32)
    for _ in range(3):
        out = torch.full((32, 2), -1, dtype=torch.int32, device="cuda")
        caller.call(out)
        expected = [[block % size, size] for block in range(32)]
        assert expected == out.tolist()


def test_a_cluster_that_does_not_fit_is_refused_with_advice():
    caller = ranks((16, 1, 1), 32)
    plain = caller._compile
    launch = plain(None).launches[0]
    large = DeviceLaunch(launch.name, launch.grid, (1024, 1, 1), 220000, launch.cluster, launch.arguments)

    def compile_variant(facts):
        source = plain(facts).code.source
        return CudaProgram(
            caller.signature, build(Source("cuda", source.text, "ranks", launches=(large,)), architecture(), "nvrtc"), RUNTIME.board
        )

    caller._compile = compile_variant
    out = torch.zeros(32, 2, dtype=torch.int32, device="cuda")
    try:
        caller.call(out)
        torch.cuda.synchronize()
    except DriverError as error:
        assert "cluster" in error.hint


def test_an_early_launch_waits_by_itself(way):
    body = f"""
extern "C" __global__ void first(int* a, const int* b) {{
    {GRID_DEPENDENCY_LAUNCH.texts["cuda"]};
    for (int i = 0; i < 200; i++) __nanosleep(1000);
    a[threadIdx.x + blockIdx.x * 128] += 1;
}}
extern "C" __global__ void second(const int* a, int* b) {{
    {GRID_DEPENDENCY_WAIT.texts["cuda"]};
    const int i = threadIdx.x + blockIdx.x * 128;
    b[i] = a[i] * 10;
}}
"""
    both = (KernelArgument("tensor", 0, "void*"), KernelArgument("tensor", 1, "void*"))
    launches = tuple(
        DeviceLaunch(name, ("16",), (128, 1, 1), 0, (1, 1, 1), both, early=name == "second") for name in ("first", "second")
    )
    source = Source("cuda", text_of(body, GRID_DEPENDENCY_LAUNCH, GRID_DEPENDENCY_WAIT), "first", launches=launches)
    caller = caller_of(signature(tensor("a", 2048, dtype="int32"), tensor("b", 2048, dtype="int32")), lambda facts: source)
    a, b = (torch.zeros(2048, dtype=torch.int32, device="cuda") for _ in range(2))
    for n in range(1, 8):
        caller.call(a, b)
        assert (b == 10 * n).all()
