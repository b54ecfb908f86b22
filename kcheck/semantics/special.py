"""Special registers (PTX ISA 10) for all lanes of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.semantics.values import Int, Unstable, Unsupported

if TYPE_CHECKING:
    from kcheck.semantics.machine import Machine

AXES = {"x": 0, "y": 1, "z": 2}
# what depends on time or place
UNSTABLE = frozenset(
    [
        "%clock",
        "%clock_hi",
        "%clock64",
        "%globaltimer",
        "%globaltimer_lo",
        "%globaltimer_hi",
        "%smid",
        "%nsmid",
        "%gridid",
    ]
)


def _axis(flat: Any, extent: tuple[int, int, int], axis: int) -> Any:
    below = int(np.prod(extent[:axis], dtype=np.int64))
    return flat // below % extent[axis]


def _lane_mask(rule: Callable[[Any], Any]) -> Callable[[Machine], Any]:
    return lambda m: rule(m.lane % 32)


_ONE = np.int64(1)
_SIMPLE: dict[str, Callable[[Machine], Any]] = {
    "%laneid": lambda m: m.lane % 32,
    "%warpid": lambda m: m.lane % m.threads // 32,
    "%nwarpid": lambda m: np.array([m.threads // 32]),
    "WARP_SZ": lambda m: np.array([32]),
    "%lanemask_eq": _lane_mask(lambda i: _ONE << i),
    "%lanemask_lt": _lane_mask(lambda i: (_ONE << i) - 1),
    "%lanemask_le": _lane_mask(lambda i: (_ONE << (i + 1)) - 1),
    "%lanemask_gt": _lane_mask(lambda i: 0xFFFFFFFF ^ ((_ONE << (i + 1)) - 1)),
    "%lanemask_ge": _lane_mask(lambda i: 0xFFFFFFFF ^ ((_ONE << i) - 1)),
    "%dynamic_smem_size": lambda m: np.array([m.launch.dynamic_shared]),
}


def known(name: str) -> bool:
    """`special` has a value for this register."""
    base, _, axis = name.partition(".")
    threefold = axis in AXES and base in ("%tid", "%ntid", "%ctaid", "%nctaid")
    return threefold or name in UNSTABLE or name in _SIMPLE


def special(m: Machine, name: str) -> Any:
    """The register's value; raises Unsupported for one that is not known."""
    if name in UNSTABLE:
        return Unstable(name, -1)
    if name in _SIMPLE:
        return Int(_SIMPLE[name](m).astype(np.uint32))
    base, _, axis = name.partition(".")
    launch = m.launch
    if axis in AXES:
        i = AXES[axis]
        if base == "%tid":
            return Int(_axis(m.lane % m.threads, launch.block, i).astype(np.uint32))
        if base == "%ctaid":
            ids = _axis(m.ctas, launch.grid, i).astype(np.uint32)
            return Int(ids if len(ids) == 1 else np.repeat(ids, m.threads))
        extents = {"%ntid": launch.block, "%nctaid": launch.grid}
        if base in extents:
            return Int(np.array([extents[base][i]], np.uint32))
    raise Unsupported("special", f"special register {name}")
