"""Where buffers, variables and parameters lie.

Global buffers lie 2^40 bytes apart, in the middle of their stretch, so that no index reaches from
one to the next. Shared and local variables have their real small offsets. Generic addresses of
shared, local and parameter space are these offsets plus a window's base whose low 32 bits are 0.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from kcheck.launch import FLOATS, Launch, LaunchError, Scalar, Tensor
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Flt, Imm, Operand, Sym, Variable, type_bytes
from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.formats import BITS
from kcheck.semantics.slow.memory import Memory, Region
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.shadow import Log
from kcheck.semantics.slow.units import Home, Pointer, Real, Unit

STRETCH = 40
WINDOWS = {"shared": 1 << 56, "local": 2 << 56, "param": 3 << 56}
# where shared variables begin: not at 0, which PTX does not promise either
SHARED_BASE = 1024
_ALIGN_DYNAMIC = 16


class Layout:
    """The addresses of one launch. `symbols`: name -> (state space, address in that space).

    `watched`: accesses to global memory that can be written are logged.
    """

    def __init__(
        self,
        kernel: Kernel,
        launch: Launch,
        inputs: Mapping[str, Sequence[Any]],
        numbers: type[Number],
        watched: bool = False,
    ) -> None:
        self.numbers = numbers
        self.watched = watched
        self.globals: dict[int, Region] = {}
        self.tensors: dict[str, tuple[Tensor, Region]] = {}
        self.symbols: dict[str, tuple[str, Pointer]] = {}
        self.params = Memory()
        self.shared_end = self._place_variables(kernel, launch)
        self._place_params(kernel, launch, inputs)

    def _new_global(self, name: str, nbytes: int, readonly: bool, space: str = "global") -> Region:
        slot = len(self.globals) + 1
        base = (slot << STRETCH) + (1 << STRETCH - 1)
        log = Log() if self.watched and not readonly else None
        region = Region(Home(space, name, base, base + nbytes), Memory(log), base, readonly)
        self.globals[slot] = region
        return region

    def _place_variables(self, kernel: Kernel, launch: Launch) -> int:
        """Shared and local variables in order, open arrays last; where shared memory ends."""
        ends = {"shared": SHARED_BASE, "local": 0}
        closed = [v for v in kernel.variables.items() if 0 not in v[1].shape]
        for name, variable in closed:
            space = variable.space.partition("::")[0].replace("param", "local")
            if space in ends:
                low = _aligned(ends[space], variable.align or type_bytes(variable.type))
                ends[space] = low + variable.nbytes
                self._name(space, name, low, variable.nbytes)
            else:
                self._place_global(name, variable)
        start = ends["shared"]
        for name, variable in kernel.variables.items():
            if 0 in variable.shape:
                low = _aligned(start, max(variable.align or 1, _ALIGN_DYNAMIC))
                ends["shared"] = max(ends["shared"], low + launch.dynamic_shared)
                self._name("shared", name, low, launch.dynamic_shared)
        return ends["shared"]

    def _name(self, space: str, name: str, low: int, nbytes: int) -> None:
        self.symbols[name] = space, Pointer(low, Home(space, name, low, low + nbytes))

    def _place_global(self, name: str, variable: Variable) -> None:
        const = variable.space == "const"
        region = self._new_global(name, variable.nbytes, const, variable.space)
        self.symbols[name] = variable.space, Pointer(region.base, region.home)
        width = type_bytes(variable.type)
        items = variable.init or ()
        for i in range(variable.count):
            unit = self._initial(items[i], width) if i < len(items) else 0
            region.memory.write(i * width, width, unit)

    def _initial(self, item: Operand, width: int) -> Unit:
        if isinstance(item, Imm):
            return item.value & ((1 << 8 * width) - 1)
        if isinstance(item, Flt) and item.width == 8 * width:
            return item.bits
        if isinstance(item, Flt) and width == 4:
            return narrow_literal(item.bits)
        if isinstance(item, Sym) and item.name in self.symbols:
            space, base = self.symbols[item.name]
            window = WINDOWS.get(space, 0) if item.generic else 0
            return Pointer(base + item.offset + window, base.home)
        raise Unsupported("unsupported.initializer")

    def _place_params(
        self, kernel: Kernel, launch: Launch, inputs: Mapping[str, Sequence[Any]]
    ) -> None:
        if len(kernel.params) != len(launch.params):
            raise LaunchError(
                f"{launch.path}: {len(launch.params)} params, but {kernel.name} has "
                f"{len(kernel.params)}"
            )
        at = 0
        for variable, param in zip(kernel.params, launch.params, strict=True):
            at = _aligned(at, variable.align or type_bytes(variable.type))
            self._name("param", variable.name, at, variable.nbytes)
            if isinstance(param, Tensor):
                region = self._place_tensor(param, inputs, launch)
                self.params.write(at, 8, Pointer(region.base, region.home))
            elif isinstance(param, Scalar):
                value = inputs[param.name][0] if param.value is None else param.value
                self.params.write(at, variable.nbytes, self._element(value, param.dtype))
            else:
                raise Unsupported("unsupported.tensormap")
            at += variable.nbytes

    def _place_tensor(
        self, tensor: Tensor, inputs: Mapping[str, Sequence[Any]], launch: Launch
    ) -> Region:
        group = launch.sharing(tensor.name)
        for name in group:
            if name in self.tensors:
                self.tensors[tensor.name] = tensor, self.tensors[name][1]
                return self.tensors[name][1]
        readonly = all(launch.buffers[name].role == "in" for name in group)
        region = self._new_global(tensor.name, tensor.nbytes, readonly)
        self.tensors[tensor.name] = tensor, region
        tensor = launch.buffers[group[0]]
        count = tensor.elements
        if tensor.role == "out":
            values: Sequence[Any] = [0] * count if tensor.init == "zero" else []
        else:
            known = [] if tensor.values is None else tensor.values.ravel().tolist()
            values = inputs.get(tensor.name, known)
            if len(values) != count:
                raise LaunchError(f"input {tensor.name}: {len(values)} values, not {count}")
        width = tensor.nbytes // count if count else 1
        made: dict[Any, Unit] = {}  # many elements hold few numbers
        for i, value in enumerate(values):
            key = value or str(value)  # -0.0 equals 0.0
            unit = made.get(key)
            if unit is None:
                unit = made[key] = self._element(value, tensor.dtype)
            region.memory.cells[i * width] = unit, width
        return region

    def _element(self, value: Any, dtype: str) -> Unit:
        """A number as a unit of a launch file's dtype."""
        if dtype in FLOATS:
            return Real(float_format(dtype), self.numbers.of(value))
        return int(value) & ((1 << int(dtype[1:])) - 1)


def float_format(dtype: str) -> str:
    """The float format that a launch file's dtype is kept in."""
    if dtype == "tf32":
        return "f32"
    if dtype not in BITS:
        raise Unsupported(f"unsupported.{dtype}")
    return dtype


def narrow_literal(bits: int) -> int:
    """The f32 bits of a literal that was written as an f64 (PTX ISA 4.5.2)."""
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    (narrow,) = struct.unpack("<I", struct.pack("<f", value))
    return int(narrow)


def _aligned(at: int, align: int) -> int:
    return -(-at // align) * align
