"""Results stored on nodes: given again for the same inputs, computed again for others."""

from __future__ import annotations

from tilelang.dtypes import INT32
from tilelang.ir.expr import Const
from tilelang.ir.memoize import memoized, memoized_property
from tilelang.ir.stmt import Seq


def test_a_result_is_computed_once_for_the_same_inputs():
    node, asked = Seq(()), []
    domain = Const(1, INT32)
    answers = [memoized(node, "_answer", (domain,), lambda: asked.append(domain) or len(asked)) for _ in range(3)]
    assert answers == [1, 1, 1]


def test_other_inputs_and_other_names_have_results_of_their_own():
    node, one, other = Seq(()), Const(1, INT32), Const(1, INT32)
    assert memoized(node, "_answer", (one,), lambda: "one") == "one"
    assert memoized(node, "_answer", (other,), lambda: "other") == "other"  # equal in value, but another object
    assert memoized(node, "_question", (other,), lambda: "question") == "question"
    assert memoized(node, "_answer", (one,), lambda: "anew") == "anew"  # only the latest result is stored
    assert memoized(Seq(()), "_answer", (one,), lambda: "another node") == "another node"


def test_a_memoized_property_is_computed_once_per_node():
    class Node:
        asked = 0

        @memoized_property
        def answer(self) -> int:
            """The answer."""
            self.asked += 1
            return self.asked

    one, other = Node(), Node()
    assert [one.answer, one.answer, other.answer] == [1, 1, 1]
    assert Node.answer.__doc__ == "The answer."
