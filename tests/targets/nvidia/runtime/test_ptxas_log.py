import pytest
from fake_cuda import needs_nvrtc

from tilelang.targets.gpu.runtime.resources import Resources
from tilelang.targets.nvidia.runtime.nvrtc import open_nvrtc
from tilelang.targets.nvidia.runtime.ptxas_log import resources_of, warnings_of

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
ptxas         .     2376 bytes stack frame, 3336 bytes spill stores, 4852 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 2376 bytes cumulative stack size, 49152 bytes smem
ptxas info    : Compile time = 165.280 ms
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for helper
ptxas         .     16 bytes stack frame, 16 bytes spill stores, 16 bytes spill loads
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]
"""


def test_the_figures_of_every_kernel_are_found() -> None:
    expected = {"first": Resources(64, 49152, 3336 + 4852, 2376), "second": Resources(8, 0, 0, 0)}
    assert expected == resources_of(LOG)


def test_a_log_without_figures_has_none() -> None:
    assert {} == resources_of("")
    assert () == warnings_of(LOG)


def test_a_kernel_whose_products_wait_for_each_other_is_known() -> None:
    advice = (
        "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
        "non wgmma instructions defining accumulator registers of a wgmma between start and end of the pipeline stage "
        "in the function '{}'\n"
    )
    assert [False, True] == [used.serialized for used in resources_of(LOG + advice.format("second")).values()]
    assert [False, False] == [used.serialized for used in resources_of(LOG + advice.format("another")).values()]


REMARKS = {
    509: "the presence of Extern calls in the function '{}'",
    510: "wgmma pipeline crossing function boundary at a function call in the function '{}' in line 3",
    511: "insufficient register resources for the wgmma pipeline in the function '{}'",
    512: "insufficient register resources for the function '{}'",
    513: "non wgmma instructions defining input registers of a wgmma between start and end of the pipeline stage in the "
    "function '{}' in line 0",
    516: "ill formed pipeline stage in the function '{}'",
    518: "program dependence on compiler-inserted WG.DP in divergent path in the function '{}' in line 7",
    520: "program dependence on compiler-inserted WG.AR in divergent path in the function '{}'",
}
INJECTED = {
    517: "wgmma.wait_group is injected in around line 12 by compiler to allow use of registers defined by GMMA in function '{}'",
    519: "warpgroup.arrive is injected in around line 12 by compiler to allow use of registers in GMMA in function '{}'",
}


@pytest.mark.parametrize("number", [*REMARKS, *INJECTED])
def test_what_the_compiler_adds_to_the_waits_of_a_kernel_is_known(number: int) -> None:
    loss = "Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    remark = INJECTED.get(number) or loss + REMARKS[number]
    log = LOG + f"ptxas info    : (C7{number}) {remark}\n"
    assert [True, False] == [used.serialized for used in resources_of(log.format("first")).values()]
    assert [True, True] == [used.serialized for used in resources_of(log.format("helper")).values()]
    assert (f"(C7{number}) {remark.format('first')}",) == warnings_of(log.format("first"))


WGMMA = """
__device__ __forceinline__ void multiply(float (&c)[4], unsigned (&a)[4], unsigned long long b) {
    asm volatile("wgmma.fence.sync.aligned;\\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;\\n"
        "wgmma.commit_group.sync.aligned;"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
template <int N> __device__ __forceinline__ void wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N)); }
__device__ NOINLINE void step(float (&c)[4], unsigned (&a)[4], unsigned long long b) { multiply(c, a, b); wait<0>(); }
extern "C" __global__ void __launch_bounds__(128, 1) kernel(float* out, int n, unsigned long long b) {
    float c[4] = {0, 0, 0, 0};
    unsigned a[4] = {1, 2, 3, 4};
    int i = 0;
#pragma unroll 1
    LOOP
    wait<0>();
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = c[i];
}
"""
LOOPS = {  # and the number of what ptxas 13.0 and 13.5 say of them
    "do { step(c, a, b); } while (++i < n);": "",
    "do { multiply(c, a, b); wait<1>(); for (int j = 0; j < 4; ++j) c[j] *= 0.5f; } while (++i < n);": "C7514",
    "do { multiply(c, a, b); for (int j = 0; j < 4; ++j) a[j] += n; wait<0>(); } while (++i < n);": "C7513",
    "do { multiply(c, a, b); if (c[0] > 3) out[1] = 1; wait<0>(); } while (++i < n);": "C7517",
    "do { if (threadIdx.x / 64 == n) multiply(c, a, b); c[1] += 1; } while (++i < n);": "C7518",
}


@needs_nvrtc
@pytest.mark.parametrize("loop", LOOPS)
def test_what_the_compiler_says_of_matrix_instructions_is_found(loop: str) -> None:
    made = open_nvrtc().compile(WGMMA, "sm_90a", ("-Xptxas=-v", f"-DLOOP={loop}", "-DNOINLINE=__forceinline__"))
    assert {"kernel": bool(LOOPS[loop])} == {name: used.serialized for name, used in resources_of(made.log).items()}
    assert LOOPS[loop] == "".join(text[1:6] for text in warnings_of(made.log))


@needs_nvrtc
def test_a_function_that_is_not_inlined_serializes_its_callers() -> None:
    flags = ("-Xptxas=-v", f"-DLOOP={next(iter(LOOPS))}", "-DNOINLINE=__noinline__")
    made = open_nvrtc().compile(WGMMA, "sm_90a", flags)
    assert resources_of(made.log)["kernel"].serialized
    assert "C7510" in {text[1:6] for text in warnings_of(made.log)}


def test_advice_and_warnings_are_told_once() -> None:
    advice = "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to a call"
    log = f"ptxas info    : {advice} in the function 'k'\n" * 2 + "ptxas warning : Stack size cannot be determined\n"
    assert (f"{advice} in the function 'k'", "Stack size cannot be determined") == warnings_of(LOG + log)
