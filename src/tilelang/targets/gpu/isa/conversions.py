"""Conversions between all dtypes in the languages of GPUs, bit for bit those of `ir.scalar.convert` and ml_dtypes.

Takes two dtypes and what a language has of its own, gives the text of a cast. Invariant: integers wrap, floats round
once to nearest even, a float becomes an integer by truncation.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.dtypes import DType, lane_dtype
from tilelang.errors import NoLowering
from tilelang.isa.c_type import CType
from tilelang.isa.intrinsic import Helper, Template, needed
from tilelang.records import record


@record(slots=True)
class PairCast:
    """The text that casts lane i of a short vector, or, where it has views, lanes 2i and 2i + 1.

    Attributes:
        needs: Helpers of the text.
        text: Statements on the unions `from` and `to`.
        views: The type of pairs in the source and the destination, empty where the text does not use them.
    """

    needs: tuple[Helper | None, ...]
    text: str
    views: tuple[str, str] | None = None


@record
class Conversions:
    """The casts of one language.

    Attributes:
        c_type: The type of a dtype.
        round_tf32: The function `tl_round_tf32`.
        to_half: The cast to float16 from dtypes that must not be rounded to float before; None for others.
        pair: How two lanes are cast at once; None where nothing does.
    """

    c_type: Callable[[DType], CType]
    round_tf32: Helper
    to_half: Callable[[DType], Template | None]
    pair: Callable[[DType, DType], PairCast | None] = lambda source, destination: None

    def cast(self, source: DType, destination: DType) -> Template:
        """The text that casts a value; its operand and value have the types of `c_type`.

        The operand may also be a value of the source's value type. Short vectors are cast lane by lane. A float that an
        integer cannot hold gives an unspecified integer.

        Raises:
            NoLowering: The dtypes have different numbers of lanes.
        """
        if source.lanes != destination.lanes:
            raise NoLowering(f"cast: {source!s} and {destination!s} have different numbers of lanes")
        if source == destination:
            return Template("{0}")
        if source.lanes > 1:
            helper = self._lanes(source, destination)
            return Template(f"{helper.name}({{0}})", helper)
        return self._scalar(source, destination)

    def _scalar(self, source: DType, destination: DType) -> Template:
        result_type, source_type = self.c_type(destination), self.c_type(source)
        if destination == "tfloat32":
            text = "(float)({0})" if _fits_tf32(source) else "tl_round_tf32((float)({0}))"
            return Template(text, None if _fits_tf32(source) else self.round_tf32)
        if destination.is_bool:
            return Template(f"(({source_type.value})({{0}}) != 0)", source_type.helper)
        half = self.to_half(source) if destination == "float16" else None
        if half is not None:
            return half
        if destination.is_float and destination.bits < 32:
            wide = "(float)(double)" if source.is_int and source.bits == 64 else "(float)"  # as the reference rounds
            return Template(f"{result_type.name}({wide}({{0}}))", result_type.helper)
        if destination.is_int and destination.bits < 8:
            return Template(f"{result_type.name}((int32_t)({{0}}))", result_type.helper)
        return Template(f"({result_type.name})({{0}})", result_type.helper)

    def _lanes(self, source: DType, destination: DType) -> Helper:
        """The function that casts a short vector, lane by lane or in pairs."""
        lane, cast = lane_dtype(source), lane_dtype(destination)
        types = tuple(map(self.c_type, (source, destination, lane, cast)))
        source_type, result_type, lane_type, cast_type = types
        pair = self.pair(lane, cast) if source.lanes % 2 == 0 else None
        if pair is None:
            single = self.cast(lane, cast)
            pair = PairCast((single.helper,), f"to.lane[i] = {single.format('from.lane[i]')};")
        count = source.lanes // 2 if pair.views else source.lanes
        views = [f" {view} pair[{count}];" if view else "" for view in pair.views or ("", "")]
        name = f"tl_{source!s}_to_{destination!s}"
        text = f"""\
__device__ __forceinline__ {result_type.name} {name}({source_type.name} x) {{
    union {{ {source_type.name} all; {lane_type.name} lane[{source.lanes}];{views[0]} }} from;
    union {{ {result_type.name} all; {cast_type.name} lane[{source.lanes}];{views[1]} }} to;
    from.all = x;
#pragma unroll
    for (int i = 0; i < {count}; ++i) {pair.text}
    return to.all;
}}
"""
        return Helper(name, text, needs=needed(*(each.helper for each in types), *pair.needs))


def _fits_tf32(source: DType) -> bool:
    """Whether tf32 has every value of a dtype: 8 bits of exponent, 10 of fraction."""
    return source.bits <= 16 if source.is_float else source.bits <= 8
