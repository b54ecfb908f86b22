"""Names of registers: what a declaration of a range covers, and what needs no declaration."""

from __future__ import annotations

import re
from collections.abc import Iterator

# PTX ISA 9.0, chapter 10 (special registers), and WARP_SZ (4.4.2)
_SPECIAL = re.compile(
    r"""WARP_SZ | %(?:
      (?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(?:\.[xyzw])?
    | laneid|warpid|nwarpid|smid|nsmid|gridid|is_explicit_cluster
    | cluster_ctarank|cluster_nctarank|lanemask_(?:eq|le|lt|ge|gt)
    | clock|clock_hi|clock64|pm[0-7](?:_64)?|envreg\d{1,2}
    | globaltimer|globaltimer_lo|globaltimer_hi
    | reserved_smem_offset_(?:begin|end|cap|[01])
    | total_smem_size|aggr_smem_size|dynamic_smem_size|current_graph_exec
    )""",
    re.ASCII | re.VERBOSE,
)


def is_special(name: str) -> bool:
    """`%tid.x`, `%laneid`, `WARP_SZ`: read-only, never declared."""
    return _SPECIAL.fullmatch(name) is not None


def splits(name: str) -> Iterator[tuple[str, int]]:
    """The ranges that may cover a name: `%r12` is number 12 of `%r<n>` or 2 of `%r1<n>`."""
    at = len(name)
    while at > 1 and name[at - 1] in "0123456789" and len(name) - at < 18:
        at -= 1
        if name[at] != "0" or at == len(name) - 1:
            yield name[:at], int(name[at:])
