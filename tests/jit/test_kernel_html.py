import tilelang
import tilelang.language as T


def test_a_notebook_shows_parameters_and_grid():
    n = T.dynamic("n")

    @T.prim_func
    def scale(A: T.Tensor((n, 64), "float16"), B: T.Tensor((n, 64), "float16"), factor: T.float32):
        with T.Kernel(T.ceildiv(n, 4), threads=(32, 2)) as bx:
            for i, j in T.Parallel(4, 64):
                B[bx * 4 + i, j] = A[bx * 4 + i, j] * factor

    kernel = tilelang.compile(scale, out_idx=[1], target="cpu", execution_backend="reference")
    assert (
        "<div><b>scale</b> for cpu (reference)"
        "<table><tr><th>parameter</th><th>dtype</th><th>shape</th><th></th></tr>"
        "<tr><td>A</td><td>float16</td><td>n x 64</td><td></td></tr>"
        "<tr><td>B</td><td>float16</td><td>n x 64</td><td>returned</td></tr>"
        "<tr><td>factor</td><td>float32</td><td></td><td></td></tr></table>"
        "<table><tr><th>launch</th><th>grid</th><th>threads of a block</th></tr>"
        "<tr><td>1</td><td>(n + 4 - 1) // 4</td><td>32 x 2</td></tr></table></div>"
    ) == kernel._repr_html_()


def test_resources_are_shown_where_there_are_any(monkeypatch):
    @T.prim_func
    def one(A: T.Tensor((1,), "float16")):
        with T.Kernel(1):
            A[0] = 1

    from tilelang.jit.kernel_inspection import ResourceUsage

    kernel = tilelang.compile(one, target="cpu", execution_backend="reference")
    used = {"one_kernel": ResourceUsage(32, 0, 128, 4096, 16)}
    monkeypatch.setattr(type(kernel), "resource_usage", used)
    assert "<td>one_kernel</td><td>32</td><td>4096</td><td>16</td>" in kernel._repr_html_()
