"""Launches that begin while those in front of them end see what these wrote, and write behind what these read."""

import pytest
from device_launch import needs_gpu

import tilelang
import tilelang.language as T

pytestmark = needs_gpu
torch = pytest.importorskip("torch")

SIZE, BLOCK = 1 << 18, 1024


def reversed_step():
    """y = x[::-1] + 1, so that each block reads what another one wrote."""

    @T.prim_func
    def step(x: T.Tensor((SIZE,), "int32"), y: T.Tensor((SIZE,), "int32")):
        with T.Kernel(SIZE // BLOCK, threads=128) as bx:
            for i in T.Parallel(BLOCK):
                y[bx * BLOCK + i] = x[SIZE - 1 - (bx * BLOCK + i)] + 1

    return tilelang.compile(step, target="cuda")


def transposed_step():
    """Y = X^T by the copy engine, if the GPU has one."""

    @T.prim_func
    def step(X: T.Tensor((512, 512), "float16"), Y: T.Tensor((512, 512), "float16")):
        with T.Kernel(8, 8, threads=128) as (bx, by):
            tile = T.alloc_shared((64, 64), "float16")
            turned = T.alloc_shared((64, 64), "float16")
            T.copy(X[by * 64, bx * 64], tile)
            for i, j in T.Parallel(64, 64):
                turned[i, j] = tile[j, i]
            T.copy(turned, Y[bx * 64, by * 64])

    return tilelang.compile(step, target="cuda")


def run(kernel, first, second, steps, other):
    """The tensor after steps from one to the other and back, behind some of which another library's kernel runs."""
    for n in range(steps):
        kernel(first, second)
        first, second = second, first
        if n % 3 == 2:
            other(first)
    return first


def recorded(work):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    graph.replay()
    return result


@pytest.mark.parametrize("how", [lambda work: work(), recorded])
def test_each_step_sees_the_one_before(how):
    kernel, steps = reversed_step(), 300
    x, y = torch.arange(SIZE, dtype=torch.int32, device="cuda"), torch.zeros(SIZE, dtype=torch.int32, device="cuda")
    start = x.clone()
    kernel(x, y)  # loads the code
    x.copy_(start)
    result = how(lambda: run(kernel, x, y, steps, lambda z: z.add_(5)))
    torch.cuda.synchronize()
    assert torch.equal(start + steps + steps // 3 * 5, result)


@pytest.mark.parametrize("how", [lambda work: work(), recorded])
def test_so_do_steps_of_the_copy_engine(how):
    kernel, steps = transposed_step(), 300
    x, y = torch.randn(512, 512, device="cuda").half(), torch.zeros(512, 512, device="cuda").half()
    start = x.clone()
    kernel(x, y)
    x.copy_(start)
    result = how(lambda: run(kernel, x, y, steps, lambda z: z.neg_()))
    torch.cuda.synchronize()
    assert torch.equal(start if steps // 3 % 2 == 0 else -start, result)
