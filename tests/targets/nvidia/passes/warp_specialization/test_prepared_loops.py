"""Loops that are prepared for software pipelining have all tiles that they need, and leave none that nothing uses."""

from attention_programs import flash
from specialized import launch_of, warp_specialize
from two_gemms import two_gemms

from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import Alloc, If, ParallelLoop
from tilelang.ir.visit import accessed_buffers, walk
from tilelang.ops.gemm import Gemm
from tilelang.ops.reduce import Reduce, ReduceOp


def test_an_operand_of_another_dtype_is_converted_into_a_fragment_outside_of_the_loop():
    launch = launch_of(warp_specialize(two_gemms("converts"), stages=3))
    (operand,) = [s.buffer for s in walk(launch) if isinstance(s, Alloc) and s.buffer.dtype == "float16" and s.buffer.name == "S"]
    assert {operand, "A_s"} == {s.a.buffer if s.a.buffer is operand else s.a.buffer.name for s in walk(launch) if isinstance(s, Gemm)}


def test_a_softmax_of_plain_loops_rescales_rarely_and_adds_to_its_running_sum():
    launch = launch_of(warp_specialize(flash(1, 256, 64, 64, 64), stages=2))
    loops = [s for s in walk(launch) if isinstance(s, ParallelLoop)]
    assert any(isinstance(each.body, If) and "!= 1.0" in str(each.body.condition) for each in loops)
    assert not any(isinstance(s, Reduce) and s.op is ReduceOp.SUM for s in walk(launch))
    allocated = {s.buffer.storage for s in walk(launch) if isinstance(s, Alloc)}
    assert allocated >= {buffer.storage for s in walk(launch) for buffer in accessed_buffers(s) if buffer.scope is Scope.FRAGMENT}
    assert "part" not in {buffer.name for buffer in allocated}
