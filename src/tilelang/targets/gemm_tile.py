"""A tile of a gemm, as families of targets list them as candidates."""

from __future__ import annotations

from dataclasses import field

from tilelang.options import PassConfigKey
from tilelang.records import record


@record
class GemmTile:
    """One way to cut a product into tiles.

    Attributes:
        block_M: Rows of the result in a tile.
        block_N: Columns of the result in a tile.
        block_K: How much of the summed dimension is loaded at once.
        num_stages: Versions of the operands' tiles.
        threads: Threads of a block.
        pass_configs: Keys and values to compile it with.
    """

    block_M: int
    block_N: int
    block_K: int
    num_stages: int = 3
    threads: int = 128
    pass_configs: dict[str, object] = field(default_factory=dict)

    @property
    def cluster_splits(self) -> int:
        """The number of blocks of a cluster that split the reduction of a tile."""
        return self._number(PassConfigKey.TL_SPLIT)

    @property
    def workspace_splits(self) -> int:
        """The number of blocks that split it and store their sums to a workspace, for a second launch."""
        return self._number(PassConfigKey.TL_WORKSPACE_SPLIT)

    @property
    def multicast(self) -> tuple[int, int]:
        """Blocks of a cluster along N, which share loads of A, and along M, which share those of B."""
        cluster = self.pass_configs.get(PassConfigKey.TL_CLUSTER.value)
        return (cluster[0], cluster[1]) if isinstance(cluster, tuple) else (1, 1)

    def _number(self, key: PassConfigKey) -> int:
        value = self.pass_configs.get(key.value, 1)
        return value if isinstance(value, int) else 1
