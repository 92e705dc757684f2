"""The corpus of kernel texts."""

from kernel_texts import TARGETS, corpus, main, text_of


def test_the_corpus_covers_every_kind_of_program():
    kinds = {name.split(".")[0] for name in corpus()}
    assert kinds >= {"02_gemm", "03_attention", "gemm", "attention", "compatible", "random"}
    assert len(corpus()) > 100


def test_texts_and_refusals_are_kept_alike():
    assert "extern \"C\"" in text_of(corpus()["vector_add.add"], TARGETS["sm_90a"])
    refused = text_of(corpus()["02_gemm.warp_specialized_gemm.warp_specialized"], TARGETS["sm_75"])
    assert refused.startswith("NoLowering: T.alloc_barrier: sm_75 cannot do that")


def test_a_text_that_changed_is_shown(tmp_path, monkeypatch, capsys):
    command = ["kernel_texts.py", "write", str(tmp_path), "--only", "vector_add.add", "--jobs", "1"]
    monkeypatch.setattr("sys.argv", command)
    assert 0 == main()
    command[1] = "compare"
    assert 0 == main()
    path = tmp_path / "vector_add.add.cpu.txt"
    path.write_text(path.read_text().replace("int", "INT", 1))
    capsys.readouterr()
    assert 1 == main()
    shown = capsys.readouterr().out
    assert "== vector_add.add.cpu" in shown and f"{len(TARGETS)} texts, 1 differ" in shown
