"""C++ functions that pack short vectors and extract lanes, for all languages of the C family.

Invariant: lane i is at byte i * sizeof(lane), like elements in memory.
"""

from __future__ import annotations

from tilelang.isa.intrinsic import Helper

_PACK = """\
// A short vector of its lanes.
template <typename Vector, typename Lane, typename... Lanes> {qualifiers} Vector tl_pack(Lane first, Lanes... rest) {{
    union both {{
        Vector all;
        Lane lane[1 + sizeof...(Lanes)];
    }} made;
    const Lane lanes[] = {{first, (Lane)rest...}};
    for (int i = 0; i < int(1 + sizeof...(Lanes)); ++i) made.lane[i] = lanes[i];
    return made.all;
}}
"""
_LANE = """\
// One lane of a short vector.
template <typename Lane, typename Vector> {qualifiers} Lane tl_lane(Vector vector, int index) {{
    union both {{
        Vector all;
        Lane lane[sizeof(Vector) / sizeof(Lane)];
    }} taken;
    taken.all = vector;
    return taken.lane[index];
}}
"""


def vectors(qualifiers: str) -> tuple[Helper, Helper]:
    """The functions `tl_pack` and `tl_lane` with the function qualifiers of a language."""
    return (
        Helper("tl_pack", _PACK.format(qualifiers=qualifiers)),
        Helper("tl_lane", _LANE.format(qualifiers=qualifiers)),
    )
