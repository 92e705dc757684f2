import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import OptionError, ProgramValueError
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Atomic
from tilelang.ir.visit import walk
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.performance.predict import predict
from tilelang.performance.prediction import Prediction
from tilelang.targets.target import parse_target

TARGET = parse_target({"kind": "cuda", "arch": "sm_90a"})


def added(size: object, block: int = 1024) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")) -> None:
        with T.Kernel(T.ceildiv(size, block), threads=128) as b:
            for i in T.Parallel(block):
                B[b * block + i] = A[b * block + i] + 1.0

    return main


def product(size: int, block: int, columns: int = 0, depth: int = 64, *, lower: bool = False) -> PrimFunc:
    """A product of square matrices, or of a lower triangular one with a square one."""
    columns = columns or block

    @T.prim_func
    def main(
        A: T.Tensor((size, size), "float16"), B: T.Tensor((size, size), "float16"), C: T.Tensor((size, size), "float16")
    ) -> None:
        with T.Kernel(size // columns, size // block, threads=max(128, columns)) as (bx, by):
            a, b = T.alloc_shared((block, depth), "float16"), T.alloc_shared((depth, columns), "float16")
            c = T.alloc_fragment((block, columns), "float32")
            T.clear(c)
            for k in T.Pipelined((by + 1) * block // depth if lower else size // depth, num_stages=4):
                T.copy(A[by * block, k * depth], a)
                T.copy(B[k * depth, bx * columns], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block, bx * columns])

    return main


def of(func: PrimFunc, **options: object) -> Prediction:
    compile_options = CompileOptions.from_user(None, None)
    return predict(lowered(func, TARGET, compile_options), TARGET.machine, **options)  # type: ignore[arg-type]


def test_a_large_copy_is_bound_by_memory() -> None:
    size = 1 << 27
    found = of(added(size))
    assert "device memory" == found.bound
    least = 2 * 4 * size / TARGET.machine.memory_bandwidth
    assert least < found.seconds < 1.3 * least


def test_a_large_product_is_bound_by_matrix_units() -> None:
    found = of(product(8192, 128, 256))
    assert "matrix units" == found.bound
    assert 1.1e-3 < found.seconds < 2.4e-3  # at 1000 and at 460 TFLOP/s


def test_blocks_share_the_tiles_that_a_counter_hands_out() -> None:
    triangular = product(4096, 128, 256, lower=True)
    program = lowered(triangular, TARGET, CompileOptions.from_user(None, None))
    assert any(isinstance(stmt, Atomic) for stmt in walk(program.body))
    assert 0.5 < of(triangular).seconds / of(product(4096, 128, 256)).seconds < 0.75


def test_small_tiles_are_slower_for_large_products_and_faster_for_small_ones() -> None:
    assert of(product(4096, 128)).seconds < of(product(4096, 64)).seconds
    assert of(product(256, 64)).seconds < of(product(256, 128)).seconds


def test_a_launch_takes_time_without_work() -> None:
    found = of(added(16, block=16))
    assert TARGET.machine.rates is not None
    assert "launches" == found.bound
    assert TARGET.machine.rates.launch < found.seconds < 5e-6


def test_registers_limit_the_loads_on_their_way() -> None:
    @T.prim_func
    def sums(X: T.Tensor((132, 65536), "float32"), Y: T.Tensor((132,), "float32")) -> None:
        with T.Kernel(132, threads=128) as b:
            total = T.alloc_fragment((1,), "float32")
            T.clear(total)
            for k in T.serial(16):
                for j in T.Parallel(4096):
                    total[0] += X[b, k * 4096 + j]
            T.copy(total, Y[b])

    assert of(sums, registers={0: 32}).seconds > 1.2 * of(sums, registers={0: 96}).seconds


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_100", "sm_120", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_machines_without_measured_rates_are_predicted_by_data_sheets(arch: str) -> None:
    target = parse_target({"kind": "hip" if arch.startswith("gfx") else "cuda", "arch": arch})
    sheet = target.machine.data_sheet
    assert sheet is not None
    size = 1 << 26
    program = lowered(added(size), target, CompileOptions.from_user(None, None))
    found = predict(program, target.machine)
    least = 2 * 4 * size / sheet.machine.memory_bandwidth
    assert (sheet.device, "device memory") == (found.data_sheet, found.bound)
    assert least < found.seconds < 1.5 * least
    program = lowered(product(4096, 128, depth=32), target, CompileOptions.from_user(None, None))
    peak = sheet.rates.matrix * sheet.rates.clock * sheet.machine.multiprocessors
    assert 2 * 4096**3 / peak < predict(program, target.machine).seconds
    assert "" == of(added(1024)).data_sheet


def test_parts_are_ordered() -> None:
    times = [time for _, time in of(product(1024, 128)).parts]
    assert sorted(times, reverse=True) == times


def test_what_cannot_be_predicted() -> None:
    with pytest.raises(ProgramValueError, match="predict: the grid has .* blocks, which is only known when the kernel"):
        of(added(T.dynamic("n")))
    host = tilelang.compile(added(1024), target="cpu")
    with pytest.raises(OptionError, match="predict: the model has no figures of native"):
        host.predict()


@pytest.mark.parametrize("row_first", [False, True])
def test_blocks_of_uneven_work_count_by_their_average_whatever_their_numbers(row_first: bool) -> None:
    rows, batches = 32, 512

    def seconds(*, even: bool) -> float:
        @T.prim_func
        def main(A: T.Tensor((batches, rows * 128), "float32")) -> None:
            with T.Kernel(*((rows, batches) if row_first else (batches, rows)), threads=128) as (x, y):
                row, batch = (x, y) if row_first else (y, x)
                total = T.alloc_fragment((128,), "float32")
                T.clear(total)
                for _ in T.serial(100 * rows if even else 100 * (row + 1)):
                    for i in T.Parallel(128):
                        total[i] = T.exp(total[i])
                T.copy(total, A[batch, row * 128])

        return of(main).seconds

    assert seconds(even=False) == pytest.approx((rows + 1) / (2 * rows) * seconds(even=True), rel=0.1)
