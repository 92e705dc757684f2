"""What a user sets of a schedule and what cannot be: whole messages, with numbers and the nearest that can be."""

import pytest
from compatible_programs import sparse_mla
from examples_of import benchmark_programs
from specialized import gemm_kernel
from two_gemms import two_gemms

import tilelang
import tilelang.language as T
from tilelang.errors import Loc, ProgramError, ResourceError
from tilelang.ir.stmt import Stmt
from tilelang.schedule.override_errors import nearest_fitting, statement_at

HOPPER = {"kind": "cuda", "arch": "sm_90a"}
AMPERE = {"kind": "cuda", "arch": "sm_80"}
CDNA = {"kind": "hip", "arch": "gfx942"}
LOOP = "for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):"
LAUNCH = "with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128, cluster_dims=cluster) as (bx, by):"


def message(func, target=HOPPER, kind=ProgramError, **configs):
    """The first line, the line of the program and the hint of the error that a kernel gives."""
    configs = {f"tl.{key}": value for key, value in configs.items()}
    with pytest.raises(kind) as caught:
        tilelang.compile(func, target=target, execution_backend="simulator", pass_configs=configs)
    lines = str(caught.value).splitlines()
    place = [line.partition(" | ")[2].strip() for line in lines if " | " in line and "^" not in line]
    return [lines[0], *place, *(line for line in lines if line.startswith("hint: "))]


PIPELINED = "for k in T.Pipelined(8, num_stages=2):"


def compiled(func, target=HOPPER, schedule=None):
    configs = {} if schedule is None else {"tl.schedule": schedule}
    return tilelang.compile(func, target=target, execution_backend="simulator", pass_configs=configs)


def saved(kernel):
    (line,) = [line for line in kernel.explain().splitlines() if line.startswith("schedule: ")]
    return line.removeprefix("schedule: ")


PROGRAMS = {
    "a gemm in ping-pong": lambda: gemm_kernel(8192, 8192, 1024),
    "two gemms": two_gemms,
    "copies of rows by an index": lambda: sparse_mla(64, 512, 64, 512, 64, 256, 64, 64, 2, 256),
    "three warp groups that take turns": lambda: benchmark_programs().attention_online_program(2, 8, 1024, 128),
}


@pytest.mark.slow(every=16)
@pytest.mark.parametrize(
    ("name", "target"),
    [*((name, HOPPER) for name in PROGRAMS), ("two gemms", AMPERE), ("copies of rows by an index", AMPERE)],
)
def test_a_schedule_that_explain_prints_gives_the_same_kernel(name, target):
    func = PROGRAMS[name]()
    kernel = compiled(func, target)
    again = compiled(func, target, saved(kernel))
    assert saved(kernel) == saved(again)
    assert kernel.get_kernel_source() == again.get_kernel_source()


def test_a_saved_schedule_beats_the_choice_of_the_compiler():
    kernel = compiled(two_gemms())
    assert '"loops": [{"order": [0, 2, 3, 1], "stage": [0, 0, 0, 1]}]' in saved(kernel)
    for order, stage in (("[0, 1, 2, 3]", "[0, 0, 0, 0]"), ("[1, 2, 3, 0]", "[0, 0, 0, 1]")):
        loops = f'"loops": [{{"order": {order}, "stage": {stage}}}]'
        assert loops in saved(compiled(two_gemms(), schedule=f"[{{{loops}}}]"))
    in_order = compiled(two_gemms(), schedule='[{"loops": [null]}]')
    assert "software-pipelined" in kernel.explain() and "software-pipelined" not in in_order.explain()
    assert '"loops": [null]' in saved(compiled(two_gemms(), AMPERE, '[{"loops": [null]}]'))


def test_stages_that_do_not_fit_into_shared_memory():
    assert message(gemm_kernel(4096, 4096, 4096), kind=ResourceError, stages=9) == [
        "pass_configs: 9 stages of 32768 bytes take 294912 bytes of shared memory, and a block has 232448 for them and all else",
        LOOP,
        "hint: 'tl.stages': 6 fits",
    ]


def test_warp_groups_that_do_not_divide_the_threads():
    @T.prim_func
    def main(A: T.Tensor((256, 256), "float16"), C: T.Tensor((256, 256), "float32")):
        with T.Kernel(2, 2, threads=256) as (bx, by):
            A_s, B_s = T.alloc_shared((128, 64), "float16"), T.alloc_shared((128, 64), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            T.annotate_layout({C_l: T.Fragment((128, 128), forward_fn=lambda i, j: (i * 2 + j // 64, j % 64))})
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[by * 128, k * 64], A_s)
                T.copy(A[bx * 128, k * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            T.copy(C_l, C[by * 128, bx * 128])

    assert message(main, consumers=3) == [
        "pass_configs: 3 consumer warp groups cannot share the work: layouts in the kernel divide tiles among 256 threads",
        "with T.Kernel(2, 2, threads=256) as (bx, by):",
        "hint: 'tl.consumers': 2 fits",
    ]


def test_a_warp_group_whose_registers_do_not_hold_the_tiles():
    assert message(gemm_kernel(4096, 4096, 4096, 256, 128), consumers=1) == [
        "pass_configs: 1 consumer warp group cannot share the work: tiles take 256 registers of a thread, which has 216 for them",
        LAUNCH,
        "hint: 'tl.consumers': 2 fits",
    ]


def test_registers_that_a_thread_cannot_have():
    assert message(gemm_kernel(4096, 4096, 4096), schedule='[{"consumers": 2, "registers": [260, 25]}]') == [
        "pass_configs: 'registers' is [260, 25], but threads have multiples of 8 from 24 to 256",
        LAUNCH,
        "hint: 'registers': [256, 24] is possible",
    ]


def test_more_registers_than_a_multiprocessor_has():
    assert message(
        gemm_kernel(4096, 4096, 4096), kind=ResourceError, schedule='[{"consumers": 2, "registers": [240, 40]}]'
    ) == [
        "pass_configs: 256 threads with 240 registers and 128 with 40 take 66560, and a multiprocessor has 65536",
        LAUNCH,
        "hint: 'registers': [240, 24] fits",
    ]


def test_a_saved_placement_against_a_dependence():
    given = '[{"loops": [{"order": [0, 1, 2, 3], "stage": [0, 0, 0, 1]}]}]'
    first, line, hint = message(two_gemms(), schedule=given)
    assert first.startswith("pass_configs: 'tl.schedule' gives this loop order=[0, 1, 2, 3], stage=[0, 0, 0, 1], but the statement in line ")
    assert first.endswith(
        "of the iteration before, on which it depends; order=[0, 1, 3, 2], stage=[0, 0, 0, 1] is the nearest that keeps it"
    )
    assert line == PIPELINED
    assert hint == (
        "hint: write null for the loop to let it run as it is written, or leave 'loops' out for the compiler's choice"
    )


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        ({"order": "[0, 1]", "stage": "[0, 1]"}, "the loop has 4 statements without the loads of the producer, not 2"),
        (
            {"order": "[3, 2, 1, 0]", "stage": "[0, 1, 1, 2]"},
            "statements of 3 stages would run at once, and at most 2 can",
        ),
    ],
)
def test_a_saved_placement_of_another_loop(loop, reason):
    given = f'[{{"loops": [{{"order": {loop["order"]}, "stage": {loop["stage"]}}}]}}]'
    first, *_ = message(two_gemms(), schedule=given)
    assert f"pass_configs: 'tl.schedule' gives this loop order={loop['order']}, stage={loop['stage']}, but {reason}" == first


@pytest.mark.parametrize(
    ("order", "stage", "reason"),
    [
        ("[0, 1]", "[0, 1]", "the loop has 3 statements, not 2"),
        ("[0, 1, 2]", "[1, 0, 0]", "'A_s' would be used before it is filled"),
        ("[0, 1, 2]", "[0, 0, 0]", "all stages are equal"),
    ],
)
def test_a_saved_placement_that_copies_cannot_have(order, stage, reason):
    first, line, _ = message(gemm_kernel(512, 512, 512), AMPERE, schedule=f'[{{"loops": [{{"order": {order}, "stage": {stage}}}]}}]')
    nearest = "order=[0, 1, 2], stage=[0, 0, 2] is the nearest that can be"
    assert f"pass_configs: 'tl.schedule' gives this loop order={order}, stage={stage}, but {reason}; {nearest}" == first
    assert line == LOOP


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [("consumers", "2", "2"), ("persistent", "true", "True"), ("cluster", "[2, 1]", "(2, 1, 1)"), ("stages", "4", "4")],
)
def test_a_saved_schedule_of_what_a_machine_does_not_have(key, value, shown):
    assert message(two_gemms(), CDNA, schedule=f'[{{"{key}": {value}}}]') == [
        f"pass_configs: 'tl.schedule' sets '{key}' to {shown}, which kernels for gfx942 do not have",
        "with T.Kernel(1, threads=128):",
        f"hint: leave '{key}' out, or save the schedule of the kernel for gfx942: kernel.explain() prints it",
    ]


def test_a_saved_schedule_that_says_that_there_is_none_of_it():
    without = '[{"specialized": true, "persistent": false, "consumers": 1, "cluster": [1, 1, 1], "split_k": 1}]'
    assert saved(compiled(two_gemms(), CDNA)) == saved(compiled(two_gemms(), CDNA, without))


@pytest.mark.parametrize("target", [HOPPER, AMPERE, CDNA])
def test_a_saved_schedule_of_another_program(target):
    func = gemm_kernel(512, 512, 512)
    assert message(func, target, schedule="[{}, {}]") == [
        "pass_configs: 'tl.schedule' is that of a program of 2 kernels, but this one has 1",
        'def gemm(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), out)):',
        "hint: save the schedule of this program: kernel.explain() prints it",
    ]
    assert message(func, target, schedule='[{"loops": []}]') == [
        "pass_configs: 'tl.schedule' places 0 loops, but the kernel has 1 pipelined loop",
        LAUNCH,
        "hint: give each pipelined loop an entry, null for one that shall run as it is written",
    ]


def test_statements_have_their_lines_where_these_are_known():
    assert "a Stmt" == statement_at(Stmt())
    assert "the statement in line 7" == statement_at(Stmt(loc=Loc("program.py", 7)))


def test_the_nearest_number_that_fits_is_the_smaller_of_two():
    fits = {2, 6}.__contains__
    assert [2, 6] == [nearest_fitting(wanted, 8, fits) for wanted in (4, 5)]
    assert nearest_fitting(4, 1, fits) is None
