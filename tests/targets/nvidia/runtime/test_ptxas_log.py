from tilelang.targets.gpu.runtime.resources import Resources
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


def test_advice_and_warnings_are_told_once() -> None:
    advice = "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to a call"
    log = f"ptxas info    : {advice} in the function 'k'\n" * 2 + "ptxas warning : Stack size cannot be determined\n"
    assert (f"{advice} in the function 'k'", "Stack size cannot be determined") == warnings_of(LOG + log)
