"""Calls of kernels on a GPU, in machine code and without it: streams, graphs, threads, outputs."""

import threading

import pytest
from device_launch import needs_gpu
from native_calls import choose_way

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError

pytestmark = needs_gpu
torch = pytest.importorskip("torch")


@pytest.fixture(params=["native", "python"], autouse=True)
def way(request, monkeypatch):
    """How calls after the first are made."""
    choose_way(request.param, monkeypatch)
    return request.param


def scaled(out_idx=None):
    """y = x * factor + offset, of any number of rows."""
    M = T.dynamic("M")

    @T.prim_func
    def kernel(
        x: T.Tensor((M, 64), "float32"), factor: T.float32, offset: T.int32, y: T.Tensor((M, 64), "float32")
    ):
        with T.Kernel(T.ceildiv(M, 8), threads=128) as b:
            for i, j in T.Parallel(8, 64):
                if b * 8 + i < M:
                    y[b * 8 + i, j] = x[b * 8 + i, j] * factor + offset

    return tilelang.compile(kernel, out_idx=out_idx, target="cuda")


def is_native(kernel):
    return type(kernel._runner.call).__name__ == "builtin_function_or_method"


def test_later_calls_take_the_expected_way_with_the_same_results(way):
    kernel = scaled()
    for rows in (16, 3, 16, 40, 3, 129, 16):
        x, y = torch.randn(rows, 64, device="cuda"), torch.zeros(rows, 64, device="cuda")
        kernel(x, 2.0, rows, y)
        torch.testing.assert_close(y, x * 2 + rows)
    assert (way == "native") == is_native(kernel)


def test_outputs_are_allocated(way):
    kernel = scaled(out_idx=-1)
    results = []
    for n in range(5):
        x = torch.randn(16, 64, device="cuda")
        results.append((x, n, kernel(x, 1.5, n)))
    for x, n, y in results:
        torch.testing.assert_close(y, x * 1.5 + n)


def test_work_is_in_the_order_of_the_current_stream(way):
    kernel = scaled()
    x, y = torch.zeros(1 << 16, 64, device="cuda"), torch.zeros(1 << 16, 64, device="cuda")
    kernel(x, 1.0, 0, y)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        x.fill_(3)
        kernel(x, 2.0, 1, y)
        seen = y.clone()
        event = side.record_event()
    assert not event.query()
    torch.cuda.synchronize()
    assert (seen == 7).all()


def test_a_graph_replays_what_was_captured(way):
    kernel = scaled(out_idx=-1)
    x = torch.ones(32, 64, device="cuda")
    for _ in range(2):
        kernel(x, 2.0, 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernel(kernel(x, 2.0, 1), 3.0, 0)
    for value in (1, 5):
        x.fill_(value)
        graph.replay()
        assert (y == (value * 2 + 1) * 3).all()


def test_threads_call_one_kernel_at_once(way):
    kernel = scaled()
    kernel(torch.zeros(16, 64, device="cuda"), 1.0, 0, torch.zeros(16, 64, device="cuda"))
    wrong = []

    def work(number):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for n in range(200):
                rows = 16 * (1 + (n + number) % 3)
                x = torch.full((rows, 64), float(number), device="cuda")
                y = torch.empty_like(x)
                kernel(x, 2.0, n, y)
                if n % 40 == 0 and not (y == 2 * number + n).all():
                    wrong.append((number, n))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == wrong


def test_a_thread_that_never_used_the_device_may_call(way):
    kernel = scaled()
    x, y = torch.ones(16, 64, device="cuda"), torch.zeros(16, 64, device="cuda")
    kernel(x, 1.0, 0, y)
    kernel(x, 1.0, 0, y)
    thread = threading.Thread(target=kernel, args=(x, 4.0, 2, y))
    thread.start()
    thread.join()
    assert (y == 6).all()


def test_a_refused_call_writes_nothing_and_says_why(way):
    kernel = scaled()
    x, y = torch.ones(16, 64, device="cuda"), torch.zeros(16, 64, device="cuda")
    for _ in range(2):
        kernel(x, 0.0, 0, y)
    for bad, message in [
        (x.half(), "'x' has dtype torch.float16"),
        (x.t().contiguous().t(), "not contiguous"),
        (x.cpu(), "in host memory"),
        (x[:, :32], "'x' has shape"),
        (x[:8], "dimension 'M'"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            kernel(bad, 2.0, 1, y)
    with pytest.raises(ArgumentError):
        kernel(x, 2.0, 2**40, y)
    assert (y == 0).all()


def test_misaligned_tensors_and_parameters_of_modules_are_taken(way):
    kernel = scaled()
    memory = torch.arange(16 * 64 + 1, dtype=torch.float32, device="cuda")
    y = torch.zeros(16, 64, device="cuda")
    for x in (memory[:-1].view(16, 64), memory[1:].view(16, 64), torch.nn.Parameter(torch.ones(16, 64, device="cuda"))):
        for _ in range(2):
            kernel(x, 2.0, 1, y)
            torch.testing.assert_close(y, x.detach() * 2 + 1)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two devices")
def test_each_call_runs_where_its_tensors_are(way):
    kernel = scaled(out_idx=-1)
    for n in range(6):
        place = f"cuda:{n % 2}"
        y = kernel(torch.full((16, 64), float(n), device=place), 2.0, 1)
        assert place == str(y.device)
        assert (y == 2 * n + 1).all()
    with pytest.raises(ArgumentError, match="cuda:1"):
        x = torch.zeros(16, 64, device="cuda:0")
        scaled()(x, 1.0, 0, torch.zeros(16, 64, device="cuda:1"))
