"""Regions: what an address can point into. Every buffer and variable is one.

An address carries the id of its region along (`Int.p`), so that an access derived from A that
lands outside A is found wherever it lands. Global regions lie far apart; shared variables have
their real offsets, in declaration order, dynamic shared memory last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kcheck.canon.domain import Arithmetic
from kcheck.canon.real import Reals
from kcheck.launch import DTYPE_BYTES, FLOATS, Launch, Tensor
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Flt, Imm, Variable, type_bytes
from kcheck.semantics.codec import Codec, literal_bits
from kcheck.semantics.memory import Memory
from kcheck.semantics.values import UNSIGNED, Unsupported

# Global regions start at multiples of this; the windows are where generic addresses of shared and
# local memory live.
GLOBAL_STEP = 1 << 40
SHARED_WINDOW = 0x7F00 << 40
LOCAL_WINDOW = 0x7F01 << 40
# Offset of the first shared variable. PTX does not promise 0 (sm_90 reserves 1 KB), so a kernel
# that takes a bare number for a shared address must not be right by chance.
SHARED_BASE = 1024
WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "global": 0, "const": 0}
_WIDTH_TOKENS = {
    **{f"{k}{w}": w // 8 for k in "bus" for w in (8, 16, 32, 64)},
    **{"f16": 2, "bf16": 2, "f16x2": 2, "bf16x2": 2, "f32": 4, "f64": 8, "tf32": 4},
}


@dataclass
class Region:
    """`base`: its first address within its space's own window; `nbytes` its length.

    `memory` holds its cells; that of shared memory those of all CTAs of a batch, that of local
    memory those of all lanes, one after the other.
    """

    name: str
    space: str
    base: int
    nbytes: int
    memory: Memory
    readonly: bool = False
    tensor: Tensor | None = None


def narrowest(kernel: Kernel, launch: Launch) -> int:
    """The narrowest unit that the kernel's types or the launch's buffers can put in memory."""
    widths = {4}
    for tensor in tensors(launch):
        widths.add(DTYPE_BYTES[tensor.dtype])
    for instr in kernel.code:
        if instr.opcode[0] in ("ld", "st", "cvt", "atom", "red", "mov", "add", "mul", "fma"):
            widths.update(_WIDTH_TOKENS[t] for t in instr.opcode[1:] if t in _WIDTH_TOKENS)
    for variable in kernel.variables.values():
        if variable.space in ("shared", "local") and variable.type != "b8":
            widths.add(type_bytes(variable.type))
    return min(widths)


def tensors(launch: Launch) -> list[Tensor]:
    """The launch's plain buffers."""
    return [p for p in launch.params if isinstance(p, Tensor)]


class Regions:
    """All regions of one launch, by id; shared and local memory for one batch of CTAs."""

    def __init__(
        self,
        kernel: Kernel,
        launch: Launch,
        reals: Reals[Any],
        codec: Codec,
        arithmetic: Arithmetic | None = None,
    ) -> None:
        self.kernel = kernel
        self.launch = launch
        self.reals = reals
        self.codec = codec
        self.arithmetic = arithmetic
        self.items: list[Region] = []
        self.symbols: dict[str, int] = {}
        self.tensors: dict[str, int] = {}
        self.granule = narrowest(kernel, launch)
        self._globals()
        self.shared_bytes = 0
        self.local_bytes = 0
        self._layout("shared")
        self._layout("local")

    def _add(self, region: Region, symbol: str | None = None) -> int:
        self.items.append(region)
        if symbol is not None:
            self.symbols[symbol] = len(self.items) - 1
        return len(self.items) - 1

    def _globals(self) -> None:
        known = {tensor.name: tensor for tensor in tensors(self.launch)}
        for tensor in known.values():
            group = self.launch.sharing(tensor.name)
            placed = [name for name in group if name in self.tensors]
            if placed:
                self.tensors[tensor.name] = self.tensors[placed[0]]
                continue
            memory = self._tensor(known[group[0]])
            region = Region(
                tensor.name,
                "global",
                self._next_base(),
                tensor.nbytes,
                memory,
                readonly=all(known[name].role == "in" for name in group),
                tensor=tensor,
            )
            self.tensors[tensor.name] = self._add(region)
        for name, variable in self.kernel.variables.items():
            # without an initializer its contents are the host's to set
            if variable.space in ("global", "const") and variable.init is not None:
                memory = self._initialized(variable)
                base = self._next_base()
                region = Region(
                    variable.name,
                    variable.space,
                    base,
                    variable.nbytes,
                    memory,
                    readonly=variable.space == "const",
                )
                self._add(region, name)

    def _next_base(self) -> int:
        return (len(self.items) + 1) * GLOBAL_STEP

    def _tensor(self, tensor: Tensor) -> Memory:
        width = DTYPE_BYTES[tensor.dtype]
        n = tensor.elements
        if tensor.role == "out":
            memory = Memory(self.reals, self.codec, n, width)
            if tensor.init == "zero":
                memory.fill_bits(np.zeros(n, np.uint64), width)
            return memory
        if tensor.values is not None and tensor.dtype not in FLOATS:
            memory = Memory(self.reals, self.codec, n, width)
            flat = np.asarray(tensor.values).reshape(-1)
            bits = flat.astype(np.int64).astype(np.uint64)
            memory.fill_bits(bits.astype(UNSIGNED[width]).astype(np.uint64), width)
            return memory
        if self.arithmetic is not None:
            return self._patterns(tensor, self.arithmetic, width)
        fmt = {"tf32": "f32"}.get(tensor.dtype, tensor.dtype)
        if fmt in ("e4m3", "e5m2"):
            fmt = "u8"  # moved, never computed with
        if tensor.values is not None:
            return self._known(tensor, fmt, width)
        source = self.reals.domain.input(tensor.name, n) if n else None
        return Memory(self.reals, self.codec, n, width, fmt=fmt, source=source)

    def _patterns(self, tensor: Tensor, arithmetic: Arithmetic, width: int) -> Memory:
        """An input in true formats: its bits."""
        memory = Memory(self.reals, self.codec, tensor.elements, width)
        if tensor.elements:
            bits = (
                arithmetic.input(tensor.name, tensor.elements, tensor.dtype)
                if tensor.values is None
                else arithmetic.patterns(np.asarray(tensor.values).reshape(-1), tensor.dtype)
            )
            memory.fill_bits(bits, width)
        return memory

    def _known(self, tensor: Tensor, fmt: str, width: int) -> Memory:
        """A float input with known contents: exact constants."""
        flat = np.asarray(tensor.values, np.float64).reshape(-1)
        ids = np.array([self.reals.number(float(x)) for x in flat], np.int32)
        memory = Memory(self.reals, self.codec, len(flat), width)
        value = self.reals.from_ids(ids)
        value.fmt = fmt
        memory.save(np.arange(len(flat), dtype=np.int64), width, [value], None)
        return memory

    def _initialized(self, variable: Variable) -> Memory:
        width = type_bytes(variable.type)
        memory = Memory(self.reals, self.codec, max(variable.count, 1), width)
        values = [_bits(item, width) for item in variable.init or ()]
        values += [0] * (variable.count - len(values))
        keep = (1 << 8 * width) - 1
        memory.fill_bits(np.array([v & keep for v in values], np.uint64), width)
        return memory

    def _layout(self, space: str) -> None:
        """Offsets of the shared or local variables; open arrays share the tail."""
        variables = [(n, v) for n, v in self.kernel.variables.items() if v.space == space]
        at = SHARED_BASE if space == "shared" and variables else 0
        sized = [(n, v) for n, v in variables if 0 not in v.shape]
        tail = [(n, v) for n, v in variables if 0 in v.shape]
        placed = []
        for name, variable in sized:
            at = _align(at, variable.align or type_bytes(variable.type))
            placed.append((name, at, variable.nbytes))
            at += variable.nbytes
        if space == "shared":
            at = _align(at, max([v.align or 16 for _, v in tail], default=1))
            placed += [(name, at, self.launch.dynamic_shared) for name, _ in tail]
            at += self.launch.dynamic_shared
            self.shared_bytes = at = _align(at, 16)
        else:
            self.local_bytes = at = _align(at, 16)
        empty = Memory(self.reals, self.codec, 0, self.granule)
        for name, base, nbytes in placed:
            self._add(Region(name, space, base, nbytes, empty), name)

    def renew(self, ctas: int, lanes: int) -> None:
        """Fresh shared and local memory for a batch."""
        g = self.granule
        shared = Memory(self.reals, self.codec, max(ctas * self.shared_bytes // g, 1), g)
        self.shared_memory = shared
        local = Memory(self.reals, self.codec, max(lanes * self.local_bytes // g, 1), g)
        for region in self.items:
            if region.space in ("shared", "local"):
                region.memory = shared if region.space == "shared" else local

    def find(self, space: str, address: int) -> int | None:
        """The region that an address without a region lies in (its space's own window)."""
        for ident, region in enumerate(self.items):
            same = region.space == space
            if same and region.base <= address < region.base + max(region.nbytes, 1):
                return ident
        return None


def _align(at: int, to: int) -> int:
    return (at + to - 1) // to * to


def _bits(item: Any, width: int) -> int:
    if isinstance(item, Imm):
        return item.value
    bits = literal_bits(item.bits, item.width, width) if isinstance(item, Flt) else None
    if bits is None:
        raise Unsupported("initializer", f"a variable is initialized with {item}")
    return bits
