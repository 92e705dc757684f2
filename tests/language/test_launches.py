import tilelang.language as T
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Alloc, Bind, Launch, Seq, Stmt
from tilelang.ir.visit import walk


def launches(func: PrimFunc) -> list[Launch]:
    return [stmt for stmt in walk(func.body) if isinstance(stmt, Launch)]


def declared(stmt: Stmt) -> list[str]:
    return [s.buffer.name if isinstance(s, Alloc) else s.var.name for s in walk(stmt) if isinstance(s, Alloc | Bind)]


def test_names_of_memory_stand_in_the_kernels_that_use_them() -> None:
    @T.prim_func
    def main(W: T.Tensor((8, 4), "float32"), table: T.Tensor([4], T.ptr), p: T.ptr):
        flat = T.Tensor((32,), "float32", W.data)
        A = T.make_tensor(table[1], (32,), "float32")
        O = T.make_tensor(p, (32,), "float32")
        unused = T.make_tensor(p, (8,), "int8")
        with T.Kernel(1):
            for i in T.Parallel(32):
                O[i] = flat[i] + A[i]
        with T.Kernel(1):
            for i in T.Parallel(32):
                O[i] = O[i] + A[i]
        with T.Kernel(1):
            T.fill(W, 0)
        del unused

    first, second, third = launches(main)
    assert ["flat", "A_address", "A", "O"] == declared(first)
    assert ["A_address", "A", "O"] == declared(second)
    assert [] == declared(third)
    assert isinstance(main.body, Seq)
    assert 3 == len(main.body.body)
    own = [{s.buffer for s in walk(launch) if isinstance(s, Alloc)} for launch in (first, second)]
    assert set() == own[0] & own[1]


def test_statements_outside_of_kernels_are_a_grid_of_one() -> None:
    @T.prim_func
    def main(W: T.Tensor((8,), "float32"), p: T.ptr):
        A = T.make_tensor(p, (8,), "float32")
        W[0] = A[0]
        with T.Kernel(8) as bx:
            W[bx] = 2

    first, second = launches(main)
    assert ["A"] == declared(first)
    assert [] == declared(second)


def test_values_without_effect_make_no_launch() -> None:
    @T.prim_func
    def main(W: T.Tensor((8,), "float32")):
        value = W[0] + 1
        with T.Kernel(8) as bx:
            W[bx] = 2
        del value

    assert 1 == len(launches(main))
