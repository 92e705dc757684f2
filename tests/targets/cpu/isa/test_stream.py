"""Streaming stores; what they do is tested with the pass that uses them."""

from tilelang.isa.intrinsic import Helper
from tilelang.targets.cpu.isa.stream import LINE_BYTES, STREAM_LINE


def test_the_routine_writes_a_cache_line():
    helper = STREAM_LINE.helpers["cpp"]
    assert isinstance(helper, Helper)
    assert f"__builtin_memcpy(to, from, {LINE_BYTES})" in helper.text
    assert STREAM_LINE.texts["cpp"].format("void* to", "const void* from") in helper.text
