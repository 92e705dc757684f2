from tilelang.isa.common.random_text import random_texts


def test_texts_are_functions_with_the_qualifiers_of_a_language():
    texts = random_texts("inline", "noinline", "#pragma once_only\n", headers=("<cstdint>",))
    assert {"philox", "xorwow", "mrg32k3a"} == set(texts)
    helpers = {name: row["uint64"].helper for name, row in texts.items()}
    assert "\ninline uint64_t tl_philox(" in helpers["philox"].text
    assert "\nnoinline uint64_t tl_mrg32k3a(" in helpers["mrg32k3a"].text
    assert "#pragma once_only\n    for" in helpers["mrg32k3a"].text
    assert all(helper.headers == ("<cstdint>",) for helper in helpers.values())
