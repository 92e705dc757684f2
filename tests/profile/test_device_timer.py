import pytest
from fake_cuda import FakeCuda, FakeTorch, cuda, driver, runtime, torch  # noqa: F401

from tilelang.errors import DriverError, OptionError
from tilelang.profile.device_timer import Plan, is_device_busy, time_by_events, time_by_graph
from tilelang.profile.timer import do_bench
from tilelang.targets.gpu.runtime.device_runtime import DeviceRuntime
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver


def test_every_call_is_timed_by_a_pair_of_events(cuda: FakeCuda, driver: CudaDriver, runtime: DeviceRuntime) -> None:
    driver.enter(0)
    order: list[str] = []
    plan = Plan(lambda: order.append("call"), 0, 0, 3, 4, lambda: order.append("before"))
    times = time_by_events(plan, runtime)
    assert [2.0] * 4 == times
    assert ["call"] * 1 + ["before", "call"] * 5 + ["call"] * 3 + ["before", "call"] * 4 == order
    assert 18 == cuda.calls.count("cuEventCreate") == cuda.calls.count("cuEventDestroy_v2")
    assert 9 + 2 * 8 == cuda.calls.count("cuMemsetD32Async")  # before each timed call, and to keep the device busy
    assert 1 == cuda.calls.count("cuMemAllocAsync") == cuda.calls.count("cuMemFreeAsync")


def test_the_number_of_calls_follows_from_the_time_of_one(driver: CudaDriver, runtime: DeviceRuntime) -> None:
    driver.enter(0)
    assert 50 == len(time_by_events(Plan(lambda: None, 10, 100), runtime))


def test_calls_that_the_device_came_to_too_early_are_measured_again(cuda: FakeCuda, driver: CudaDriver, runtime: DeviceRuntime) -> None:
    driver.enter(0)
    flushed: list[int] = []  # how often, at each call
    cuda.failing["cuEventQuery"] = 0  # the first has happened

    def call() -> None:
        flushed.append(cuda.calls.count("cuMemsetD32Async"))
        if len(flushed) == 1 + 5 + 5:
            cuda.failing["cuEventQuery"] = 600

    assert 4 == len(time_by_events(Plan(call, n_warmup=1, n_repeat=4), runtime))
    estimates, again, warmup, measured = flushed[1:6], flushed[6:11], flushed[11], flushed[12:]
    assert [9, 10, 11, 12, 13] == estimates
    assert [13 + 16 + 1, 31, 32, 33, 34] == again  # the device is kept busy for twice as long
    assert 34 == warmup
    assert [34 + 16 + 1, 52, 53, 54] == measured


def test_calls_that_wait_for_the_device_are_measured_all_the_same(cuda: FakeCuda, driver: CudaDriver, runtime: DeviceRuntime) -> None:
    driver.enter(0)
    cuda.failing["cuEventQuery"] = 0
    assert 100 == len(time_by_events(Plan(lambda: None, n_warmup=1, n_repeat=100), runtime))
    cuda.calls.clear()
    assert 3 == len(time_by_events(Plan(lambda: None, n_warmup=1, n_repeat=3, flush_bytes=0), runtime))
    assert 2 == cuda.calls.count("cuEventQuery")  # without a cache to flush nothing is done twice


def test_many_calls_are_enqueued_in_parts(cuda: FakeCuda, driver: CudaDriver, runtime: DeviceRuntime) -> None:
    driver.enter(0)
    assert 150 == len(time_by_events(Plan(lambda: None, n_warmup=1, n_repeat=150), runtime))
    assert 2 + 3 == cuda.calls.count("cuCtxSynchronize")  # the first call, the estimate, and 64 calls at a time
    assert 5 + 150 + 4 * 8 == cuda.calls.count("cuMemsetD32Async")


def test_what_is_slower_than_the_baseline_is_not_measured_further(cuda: FakeCuda, driver: CudaDriver, runtime: DeviceRuntime) -> None:
    driver.enter(0)
    calls: list[int] = []
    plan = Plan(lambda: calls.append(1), flush_bytes=0, baseline=1.9)  # the fake device takes 2 ms for everything
    assert [2.0] == time_by_events(plan, runtime)
    assert 1 + 5 == len(calls)  # one to see that it works, five to estimate
    assert 0 == cuda.calls.count("cuMemsetD32Async")
    assert 1 < len(time_by_events(Plan(lambda: None, baseline=2.1), runtime))


def test_a_device_that_fails_is_an_error(cuda: FakeCuda, driver: CudaDriver, runtime: DeviceRuntime) -> None:
    driver.enter(0)
    cuda.failing["cuCtxSynchronize"] = 700
    with pytest.raises(DriverError, match="cuCtxSynchronize failed"):
        time_by_events(Plan(lambda: None, 1, 1, 1, 1), runtime)


def test_a_graph_needs_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(OptionError, match="backend 'cudagraph' needs torch with CUDA"):
        time_by_graph(Plan(lambda: None))


def test_the_host_is_timed_unless_torch_uses_a_device(torch: FakeTorch) -> None:
    assert is_device_busy()
    torch.cuda.is_initialized = lambda: False
    assert not is_device_busy()
    assert do_bench(lambda: None, warmup=0, rep=0) >= 0


def test_the_caller_may_select_the_clock(torch: FakeTorch) -> None:
    assert is_device_busy()
    assert do_bench(lambda: None, warmup=0, rep=0, device="cpu") >= 0
