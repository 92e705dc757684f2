import tilelang
import tilelang.language as T
from tilelang.jit.prediction import predicted
from tilelang.jit.program import lowered
from tilelang.performance.prediction import Prediction


def test_a_kernel_predicts_its_time_and_explains_it() -> None:
    @T.prim_func
    def main(A: T.Tensor((1 << 20,), "float32"), B: T.Tensor((1 << 20,), "float32")) -> None:
        with T.Kernel(1024, threads=128) as b:
            for i in T.Parallel(1024):
                B[b * 1024 + i] = A[b * 1024 + i] + 1.0

    kernel = tilelang.compile(main, target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")
    found = kernel.predict()
    assert isinstance(found, Prediction)
    assert 3e-6 < found.seconds < 1e-5
    assert f"{found}" == kernel.explain().splitlines()[0]
    func = lowered(main, kernel.target, kernel.options)
    assert found == predicted(func, kernel.target, kernel.options)


def test_the_host_has_no_prediction_in_its_explanation() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")) -> None:
        with T.Kernel(1) as b:
            for i in T.Parallel(64):
                A[i] = b * 1.0

    assert "predicted" not in tilelang.compile(main, target="cpu").explain()
