"""Which loops of consumers are software-pipelined, and why others are not."""

import dataclasses
import itertools
import re

import pytest
from attention_programs import flash, latent
from compatible_mla import mla_split
from compatible_programs import attention_backward
from examples_of import kernels, load
from loop_optimum import optimum
from specialized import context, launch_of, warp_specialize
from two_gemms import two_gemms

import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import For
from tilelang.ir.visit import walk
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.passes.runner import run_passes
from tilelang.schedule.live_registers import live_registers
from tilelang.schedule.modulo import MIN_GAIN, ModuloSchedule, is_legal, modulo_schedule
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.passes.warp_specialization import loop_schedules
from tilelang.targets.nvidia.schedule import schedule_of


@pytest.mark.parametrize("what", ["", "converts", "stores both", "stores the operand"])
def test_a_loop_is_pipelined_where_that_saves_cycles(what):
    launch = launch_of(warp_specialize(two_gemms(what), stages=3))
    ((_, made),) = schedule_of(launch).loops
    assert 2 == made.stages
    assert [-1] * 3 == [s.wait for s in walk(launch) if isinstance(s, Gemm)]
    assert any(isinstance(s, GemmWait) for s in walk(launch))


def test_a_dependence_of_the_first_part_on_the_last_result_leaves_the_loop_in_order():
    launch = launch_of(warp_specialize(two_gemms("reads the result"), stages=2))
    assert () == schedule_of(launch).loops
    assert [0, 0] == [s.wait for s in walk(launch) if isinstance(s, Gemm)]


@pytest.mark.parametrize("stages", [1, 2])
def test_too_few_versions_of_a_tile_that_both_stages_read_leave_the_loop_in_order(stages):
    assert () == schedule_of(launch_of(warp_specialize(two_gemms(), stages=stages))).loops


def order_notes(launch):
    return [note.text for note in launch.plan.notes if note.text.startswith("T.Pipelined: consumers keep program order: ")]


def test_what_a_faster_order_would_need_is_told():
    (registers,) = order_notes(launch_of(warp_specialize(flash(1, 384, 128, 192, 96, threads=384))))
    assert "cycles by estimate, but hold 142 registers of a thread for tiles, which may take 136" in re.sub(
        "[0-9]+ cycles instead of [0-9]+", "cycles", registers
    )
    (stages,) = order_notes(launch_of(warp_specialize(two_gemms(), stages=2)))
    assert stages.endswith("use tiles in two iterations, for which shared memory would have to hold 3 stages of them")


def test_the_dependence_that_leaves_no_other_order_is_named():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((512, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.copy(A, A_s)
            T.clear(C_l)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, S, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    C_l[i, j] += S[i, j]
            T.copy(C_l, C)

    line = main.loc.line + 10
    notes = [note.text for note in launch_of(warp_specialize(main, stages=2)).plan.notes]
    assert (
        f"T.Pipelined: consumers keep program order: the statement in line {line} waits for the statement in line "
        f"{line + 1} of the iteration before, since both use 'S'; that chain takes 252 of the 252 cycles of an iteration "
        "by estimate"
    ) in notes


def gradients(rows):
    """S = A B; P = exp(S); D = B A; E += D P, whose sums have `rows` rows, and D fewer than the others."""

    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), B: T.Tensor((512, 64), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((128, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            P_s = T.alloc_shared((128, 64), "float16")
            S = T.alloc_fragment((128, 64), "float32")
            D = T.alloc_fragment((rows, 64), "float32")
            C_l = T.alloc_fragment((128, 64), "float32")
            T.copy(A, A_s)
            T.clear(C_l)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, S, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(128, 64):
                    P_s[i, j] = T.exp2(T.min(S[i, j], 0.0))
                T.gemm(P_s, B_s, C_l)
                T.gemm(P_s, A_s, D, transpose_A=True, clear_accum=True)
                for i, j in T.Parallel(rows, 64):
                    T.atomic_add(C[i, j], D[i, j])
            T.copy(C_l, C)

    return main


def test_warpgroups_divide_the_columns_of_a_gemm_that_has_too_few_rows_for_them():
    launch = launch_of(warp_specialize(gradients(64), stages=2))
    assert 2 == schedule_of(launch).consumers


def test_a_loop_of_one_stage_waits_where_a_statement_needs_a_result(monkeypatch):
    def in_order(graph):
        count = len(graph.work)
        return ModuloSchedule((0,) * count, tuple(range(count)), graph.serial_cycles // 2)

    monkeypatch.setattr(loop_schedules, "modulo_schedule", in_order)
    launch = launch_of(warp_specialize(gradients(64), stages=2))
    ((_, made),) = schedule_of(launch).loops
    assert 1 == made.stages
    (loop,) = [s for s in walk(launch) if isinstance(s, For) and any(isinstance(g, Gemm) for g in walk(s))]
    kinds = [type(s) for s in flat_statements(loop.body) if isinstance(s, Gemm | GemmWait)]
    assert [Gemm, GemmWait, Gemm, Gemm, GemmWait] == kinds


@pytest.mark.parametrize("how", ["copied", "copied through a tile", "added"])
def test_a_loop_that_adds_results_asynchronously_is_pipelined_and_one_that_copies_them_is_not(how):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((512, 64), "float16"), C: T.Tensor((512, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            P = T.alloc_fragment((64, 64), "float16")
            D = T.alloc_fragment((64, 64), "float32")
            D_s = T.alloc_shared((64, 64), "float32")
            T.copy(A, A_s)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, S, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    P[i, j] = T.exp2(T.min(S[i, j], 0.0))
                T.gemm(P, B_s, D, clear_accum=True)
                if how == "copied":
                    T.copy(D, C[k * 64, 0])
                elif how == "added":
                    T.atomic_add(C[k * 64, 0], D)
                else:
                    T.copy(D, D_s)
                    T.copy(D_s, C[k * 64, 0])

    launch = launch_of(warp_specialize(main, stages=3))
    assert (how == "added") == len(schedule_of(launch).loops)
    assert (how != "added") == any("it stores results asynchronously" in note.text for note in launch.plan.notes)
    stores = [s for s in walk(launch) if isinstance(s, Copy | AtomicTile) and s.is_async and s.dst.buffer.name == "C"]
    assert (2 if how == "added" else 1) == len(stores)  # in the steady state and behind it
    assert all(store.src.buffer.scope is Scope.SHARED for store in stores)


def test_another_order_may_hold_as_many_registers_as_that_of_the_program(monkeypatch):
    graphs = []
    monkeypatch.setattr(loop_schedules, "modulo_schedule", lambda graph: graphs.append(graph) or modulo_schedule(graph))
    passes = [*itertools.takewhile(lambda step: step.name != "persist_grid", BACKEND.passes)]
    launch = launch_of(run_passes(LOOPS["latent attention in registers"](), passes, context()))
    ((_, made),) = schedule_of(launch).loops
    in_order = range(len(made.order))
    assert 1 == made.stages
    assert [*in_order] != list(made.order)
    graph = graphs[-1]
    most, others = (live_registers(graph, made.stage, order) for order in (in_order, made.order))
    assert graph.registers < others <= most


LOOPS = {
    "attention": lambda: flash(8, 1024, 128, 128, 128),
    "causal attention": lambda: flash(8, 1024, 64, 128, 64, causal=True),
    "attention backward": lambda: attention_backward(1, 4, 256, 64, 64, 64, 128, "float16", True),
    "attention in float8": lambda: flash(8, 1024, 128, 128, 128, dtype="float8_e4m3fn"),
    "attention with shorter values": lambda: flash(8, 1024, 192, 128, 128, dim_v=128),
    **{
        f"attention with {name}": lambda options=options: load("03_attention/attention_variants.py").attention.get_tir(
            1, 2, 4, 1024, 128, block_M=128, block_N=128, threads=256, **options
        )
        for name, options in {
            "a window and sinks": {"window": 256, "sinks": True},
            "a soft cap": {"softcap": 30.0},
            "linear biases": {"alibi": True},
        }.items()
    },
    "attention of several sequences": lambda: load("03_attention/varlen_attention.py").varlen_attention.get_tir(
        4, 8, 1024, 128, block_M=128, block_N=128, threads=256
    ),
    "decoding in splits": lambda: load("03_attention/flash_decoding.py").flash_decoding.get_tir(
        2, 2, 64, 4096, 128, 4, block_H=64
    ),
    "decoding from pages": lambda: kernels("03_attention/paged_decoding.py")["paged_decoding"],
    "latent attention": lambda: latent(128, 1024, 256, 64, 64),
    "latent attention in registers": lambda: mla_split(1, 64, 1024, 512, 64, 2),
    "latent attention in splits": lambda: load("04_mla_decoding/mla_absorbed.py").mla_absorbed.get_tir(
        4, 128, 2048, 512, 64, 2
    ),
    "latent attention from pages": lambda: load("04_mla_decoding/mla_paged.py").mla_paged.get_tir(
        4, 128, 64, 16, 512, 64, 2
    ),
    "latent attention over a prompt": lambda: load("04_mla_decoding/mla_prefill.py").mla_prefill.get_tir(
        1, 4, 1024, 128, 64
    ),
    "gemms that share an operand": lambda: kernels("02_gemm/gated_mlp.py")["gated_mlp"],
    # so many tiles that no block shares a tile's sums with another one
    "dequantized gemm": lambda: load("05_quantized_gemm/w4a16_gemm.py").w4a16_gemm.get_tir(2048, 8192, 1024, 64, 256, 128, 64),
    "retention in chunks": lambda: kernels("06_linear_attention/retention.py")["retention"],
    "Mamba 2 in chunks": lambda: kernels("06_linear_attention/mamba2.py")["mamba2"],
    "the gated delta rule in chunks": lambda: kernels("06_linear_attention/gated_delta_rule.py")["gated_delta_rule"],
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_of_known_kernels_are_scheduled_as_well_as_by_the_optimum(name, monkeypatch):
    graphs = []
    monkeypatch.setattr(loop_schedules, "modulo_schedule", lambda graph: graphs.append(graph) or modulo_schedule(graph))
    passes = [*itertools.takewhile(lambda step: step.name != "persist_grid", BACKEND.passes)]
    run_passes(LOOPS[name](), passes, context(staged=False))
    assert graphs
    for graph in graphs:
        # the optimum counts no registers, and does not know that gemms hinder threads
        work = tuple(dataclasses.replace(each, hinders=False) for each in graph.work)
        unlimited = dataclasses.replace(graph, registers=None, work=work)
        made = modulo_schedule(unlimited)
        assert is_legal(graph, made.stage, made.order)
        assert made.cycles <= optimum(graph) / (1 - MIN_GAIN)


def test_a_mask_before_a_gemm_costs_nothing_since_few_iterations_have_it():
    launch = launch_of(warp_specialize(flash(1, 384, 64, 128, 64, causal=True, threads=256), stages=2))
    ((_, made),) = schedule_of(launch).loops
    first_gemm, second_gemm = 1, len(made.order) - 1
    assert [0, first_gemm, second_gemm] == list(made.order[:3])  # else the second one, under which the mask is written


@pytest.mark.parametrize("causal", [False, True])
def test_a_mask_of_elements_costs_nothing_since_few_iterations_have_it(causal, monkeypatch):
    graphs = []
    monkeypatch.setattr(loop_schedules, "modulo_schedule", lambda graph: graphs.append(graph) or modulo_schedule(graph))
    program = load("03_attention/attention_backward.py").attention_backward.get_tir(
        1, 1, 1024, 64, block_M=64, block_N=128, causal=causal, threads=256
    )
    warp_specialize(program, stages=2)
    (work,) = {graph.work for graph in graphs}
    exponentials, gradients = (each.cycles for each in work if not each.asynchronous and each.cycles > 128)
    elements = 128 * 64 // 128  # per lane
    assert (11 * elements, 4 * elements) == (exponentials, gradients)


@pytest.mark.parametrize(("dim", "apart"), [(64, True), (128, False)])
def test_conversions_are_statements_of_their_own_where_that_saves_cycles(dim, apart):
    func = attention_backward(1, 1, 256, dim, 64, 128, 256, "float16", False)
    launch = launch_of(warp_specialize(func))
    assert apart == any(isinstance(s, Copy) and s.dst.buffer.name == "ds_cast" for s in walk(launch))
