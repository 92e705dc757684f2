import tilelang.language as T
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import For, ForKind, If, Launch, Seq
from tilelang.ir.visit import variables_of, walk
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.performance.structure import box_bytes, depends_on, dynamic_tile, is_unrollable, typical_tiles, votes
from tilelang.targets.target import parse_target

TARGET = parse_target({"kind": "cuda", "arch": "sm_90a"})


def launch(ragged: bool) -> Launch:
    @T.prim_func
    def main(
        A: T.Tensor((128, 1024), "float16"), B: T.Tensor((1024, 64), "float16"), C: T.Tensor((128, 64), "float32")
    ) -> None:
        with T.Kernel(8, threads=128) as n:
            a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(n + 1 if ragged else 8, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    body = lowered(main, TARGET, CompileOptions.from_user(None, None)).body
    return next(stmt for stmt in walk(body) if isinstance(stmt, Launch))


def test_trips_that_depend_on_the_block() -> None:
    for ragged in (False, True):
        found = launch(ragged)
        assert ragged == depends_on(found.body, found.block_vars, For)
        assert not depends_on(found.body, (), For, If)


def test_loops_whose_iterations_blocks_share() -> None:
    @T.prim_func
    def main(A: T.Tensor((1024,), "float32"), counter: T.Tensor((1,), "int32")) -> None:
        with T.Kernel(8, threads=128) as b:
            for k in T.serial(64):
                number = T.atomic_add(counter[0], 1, return_prev=True)
                if number >= 64:
                    break
                A[number] = 1.0
            for k in T.serial(64):
                if k >= 64 - b:
                    break
                A[k] = 2.0

    body = lowered(main, TARGET, CompileOptions.from_user(None, None)).body
    numbers = [dynamic_tile(stmt) for stmt in walk(body) if isinstance(stmt, For)]
    assert ["number", None] == [None if number is None else number.name for number in numbers]


def test_typical_tiles_are_of_all_sizes_in_any_order_of_the_tiles() -> None:
    @T.prim_func
    def main(A: T.Tensor((1024,), "float32"), counter: T.Tensor((1,), "int32")) -> None:
        with T.Kernel(8, threads=128) as b:
            for k in T.serial(1000):
                number = T.atomic_add(counter[0], 1, return_prev=True)
                if number >= 1000:
                    break
                row = number % 20 + b
                for i in T.serial(2 * row, 3 * row):
                    A[i] = 1.0

    body = lowered(main, TARGET, CompileOptions.from_user(None, None)).body
    launch = next(stmt for stmt in walk(body) if isinstance(stmt, Launch))
    loop = next(stmt for stmt in walk(launch) if isinstance(stmt, For))
    number = dynamic_tile(loop)
    assert number is not None
    tiles = typical_tiles(loop.body, number, 1000, {launch.block_vars[0]: 3}, 5)
    assert [10, 14, 18, 2, 6] == [tile % 20 for tile in tiles]
    assert [500, 700, 900, 100, 300] == typical_tiles(Seq(()), number, 1000, {}, 5)


def test_bytes_of_the_boxes_of_tensor_maps() -> None:
    maps = launch(ragged=False).plan.tensor_maps
    assert [128 * 64 * 2] == [box_bytes(each) for each in maps if each.tensor.name == "A"]


def test_loops_that_the_compiler_may_merge() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 1024), "float32"), B: T.Tensor((64, 1024), "float32")) -> None:
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((1024,), "float32")
            for k in T.serial(64):
                for i in T.Parallel(1024):
                    B[k, i] = A[k, i] + 1.0
            for k in T.serial(64):
                T.copy(B[k, 0], tile)
                for i in T.Parallel(1024):
                    B[k, i] = tile[1023 - i]

    body = lowered(main, TARGET, CompileOptions.from_user(None, None)).body
    loops = [stmt for stmt in walk(body) if isinstance(stmt, For) and stmt.kind is ForKind.SERIAL]
    assert [True, False] == [is_unrollable(loop.body) for loop in loops]


def test_results_of_votes() -> None:
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")) -> None:
        with T.Kernel(1, threads=32):
            lane = T.get_thread_binding()
            if T.any_sync(0xFFFFFFFF, A[lane] > 0):
                A[lane] = 0.0

    body = lowered(main, TARGET, CompileOptions.from_user(None, None)).body
    (branch,) = [stmt for stmt in walk(body) if isinstance(stmt, If)]
    assert variables_of(branch.condition) <= votes(body)
    assert 1 == len(votes(body))


def test_scalars_that_hold_nothing_but_votes() -> None:
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")) -> None:
        with T.Kernel(1, threads=32):
            lane = T.get_thread_binding()
            vote, other = T.alloc_var("bool"), T.alloc_var("bool")
            vote = T.any_sync(0xFFFFFFFF, A[lane] > 0)
            other = T.any_sync(0xFFFFFFFF, A[lane] > 1)
            other = A[lane] > 2
            if vote:
                A[lane] = 0.0
            if other:
                A[lane] = 1.0

    body = lowered(main, TARGET, CompileOptions.from_user(None, None)).body
    assert ["vote"] == [each.name for each in votes(body) if isinstance(each, Buffer)]
