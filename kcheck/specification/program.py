"""The stages of a function as a PTX kernel: one loop over elements for each.

The kernel is plain on purpose: it is the side that is trusted. Numbers are f32 throughout, integers
too: over the reals formats mean nothing.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.launch import DTYPE_BYTES, Launch, Tensor
from kcheck.specification.nodes import Apply, Known, Leaf, Node, Positions, Stage, Take
from kcheck.verdict import UsageError

NAME = "specification"
THREADS = 1024
# CTAs of a kernel of one stage; several stages wait for one another in one CTA
MOST_CTAS = 1 << 16
# positions of a leaf that follow no strides, or numbers: more are refused
MOST_TABLE = 1 << 20
# a position that no buffer has
OUTSIDE = 1 << 30
LOG2E, LN2 = "0f3FB8AA3B", "0f3F317218"


def _bits(*lines: str) -> tuple[str, ...]:
    """An operation on the two's complement of integers: {u} and {v} hold them, {u} the result.

    64 bits hold what integers of up to 32 bits make, so that nothing wraps.
    """
    other = ("cvt.rzi.s64.f32 {v}, {b};",) if any("{v}" in line for line in lines) else ()
    return ("cvt.rzi.s64.f32 {u}, {a};", *other, *lines, "cvt.rn.f32.s64 {d}, {u};")


# integers that are narrower than the registers they are made in: NumPy's conversions wrap
WRAPPED = ("s8", "u8", "s16", "u16", "s32", "u32")


# operation -> PTX that makes {d} of {a}, {b}, {c}; d, a, b of comparisons: predicate, numbers
OPERATIONS: dict[str, tuple[str, ...]] = {
    "add": ("add.f32 {d}, {a}, {b};",),
    "subtract": ("sub.f32 {d}, {a}, {b};",),
    "multiply": ("mul.f32 {d}, {a}, {b};",),
    "divide": ("div.rn.f32 {d}, {a}, {b};",),
    "square": ("mul.f32 {d}, {a}, {a};",),
    "negative": ("neg.f32 {d}, {a};",),
    "absolute": ("abs.f32 {d}, {a};",),
    "maximum": ("max.f32 {d}, {a}, {b};",),
    "minimum": ("min.f32 {d}, {a}, {b};",),
    "sqrt": ("sqrt.rn.f32 {d}, {a};",),
    "exp2": ("ex2.approx.f32 {d}, {a};",),
    "exp": (f"mul.f32 {{t}}, {{a}}, {LOG2E};", "ex2.approx.f32 {d}, {t};"),
    "log2": ("lg2.approx.f32 {d}, {a};",),
    "log": ("lg2.approx.f32 {t}, {a};", f"mul.f32 {{d}}, {{t}}, {LN2};"),
    "tanh": ("tanh.approx.f32 {d}, {a};",),
    "where": ("selp.f32 {d}, {b}, {c}, {a};",),
    "floor": ("cvt.rmi.f32.f32 {d}, {a};",),
    "ceil": ("cvt.rpi.f32.f32 {d}, {a};",),
    "rint": ("cvt.rni.f32.f32 {d}, {a};",),
    "trunc": ("cvt.rzi.f32.f32 {d}, {a};",),
    **{f"as {t}": _bits(f"cvt.s64.{t} {{u}}, {{u}};") for t in WRAPPED},
    "as s64": _bits(),
    "sin": ("sin.approx.f32 {d}, {a};",),
    "cos": ("cos.approx.f32 {d}, {a};",),
    "floor_divide": ("div.rn.f32 {t}, {a}, {b};", "cvt.rmi.f32.f32 {d}, {t};"),
    "bitwise_and": _bits("and.b64 {u}, {u}, {v};"),
    "bitwise_or": _bits("or.b64 {u}, {u}, {v};"),
    "bitwise_xor": _bits("xor.b64 {u}, {u}, {v};"),
    "invert": _bits("not.b64 {u}, {u};"),
    "left_shift": _bits("cvt.u32.u64 {w}, {v};", "shl.b64 {u}, {u}, {w};"),
    "right_shift": _bits("cvt.u32.u64 {w}, {v};", "shr.s64 {u}, {u}, {w};"),
}
# placeholder of a row of OPERATIONS -> the kind of register that it stands for
TEMPORARIES = {"t": "f", "u": "rd", "v": "rd", "w": "r"}
FLAGS: dict[str, tuple[str, ...]] = {
    "less": ("setp.lt.f32 {d}, {a}, {b};",),
    "less_equal": ("setp.le.f32 {d}, {a}, {b};",),
    "greater": ("setp.gt.f32 {d}, {a}, {b};",),
    "greater_equal": ("setp.ge.f32 {d}, {a}, {b};",),
    "equal": ("setp.eq.f32 {d}, {a}, {b};",),
    "not_equal": ("setp.neu.f32 {d}, {a}, {b};",),
    "logical_and": ("and.pred {d}, {a}, {b};",),
    "logical_or": ("or.pred {d}, {a}, {b};",),
    "logical_not": ("not.pred {d}, {a};",),
}
LOGICAL = frozenset({"logical_and", "logical_or", "logical_not"})
# reduction -> what it starts from, and its operation
REDUCTIONS = {
    "sum": ("0f00000000", "add"),
    "max": ("0fFF800000", "maximum"),
    "min": ("0f7F800000", "minimum"),
}


def literal(value: float) -> str:
    """A number as PTX writes an f32. UsageError if that is another one, but for its rounding.

    Integers of up to 2^53 are meant as they stand; larger ones (-1e30) are rounded already.
    """
    with np.errstate(over="ignore"):
        rounded = float(np.float32(value))
    whole = float(value).is_integer() and abs(value) <= 2**53
    if (
        math.isnan(value)
        or (whole and rounded != value)
        or (math.isinf(rounded) > math.isinf(value))
    ):
        raise UsageError(f"specification: the number {value!r} has no place in 32 bits")
    return f"0f{struct.unpack('>I', struct.pack('>f', np.float32(value)))[0]:08X}"


@dataclass
class Writer:
    """PTX of one kernel, and the parameters it needs."""

    tensors: dict[str, Tensor]
    lines: list[str] = field(default_factory=list[str])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    used: list[str] = field(default_factory=list[str])

    def new(self, kind: str) -> str:
        """A register of a kind (`f`, `r`, `rd`, `p`) or a label (`L`)."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return f"${kind}{self.counts[kind]}" if kind == "L" else f"%{kind}{self.counts[kind]}"

    def say(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def made(self, kind: str, text: str) -> str:
        """A new register that an instruction (with `{d}` for it) makes."""
        register = self.new(kind)
        self.say(text.format(d=register))
        return register

    def base(self, name: str) -> str:
        """The register that holds the address of a buffer."""
        if name not in self.used:
            self.used.append(name)
        return f"%base{self.used.index(name)}"

    def table(self, values: NDArray[Any], dtype: str) -> str:
        """The name of an input whose contents are known."""
        if values.size > MOST_TABLE:
            raise UsageError(f"specification: {values.size} numbers or positions in a table")
        if dtype == "f32":
            for value in np.unique(values):
                literal(float(value))
        flat = np.ascontiguousarray(values).reshape(-1)
        known = flat.astype(np.float32 if dtype == "f32" else np.int32)
        name = f"{dtype} {hashlib.sha256(known.tobytes()).hexdigest()[:16]}"
        self.tensors[name] = Tensor(name, dtype, (flat.size,), "in", values=known)
        return name


@dataclass
class Walk:
    """One element of a stage: registers of its place on each axis, and of the reduced one."""

    writer: Writer
    shape: tuple[int, ...]
    axes: list[str]

    def position(self, at: Positions, root: Positions) -> str:
        """A register with the position in a buffer at this place."""
        offset, strides = self._strides(at, root)
        writer = self.writer
        if strides is None:
            flat = self._affine(0, _row_major(at.shape))
            name = writer.table(at, "s32")
            return writer.made("r", f"ld.global.u32 {{d}}, [{self.address(name, flat)}];")
        return self._affine(offset, strides)

    def number(self, values: NDArray[Any]) -> str:
        """A register with the known number at this place."""
        if values.size and (values == values.flat[0]).all():
            return self.writer.made("f", f"mov.f32 {{d}}, {literal(float(values.flat[0]))};")
        dense, strides = _squeezed(values)
        name = self.writer.table(dense, "f32")
        at = self._affine(0, strides)
        return self.writer.made("f", f"ld.global.f32 {{d}}, [{self.address(name, at)}];")

    def address(self, name: str, at: str) -> str:
        """A register with the address of an element."""
        size = DTYPE_BYTES[self.writer.tensors[name].dtype]
        offset = self.writer.made("rd", f"mul.wide.u32 {{d}}, {at}, {size};")
        return self.writer.made("rd", f"add.s64 {{d}}, {self.writer.base(name)}, {offset};")

    def _strides(self, at: Positions, root: Positions) -> tuple[int, tuple[int, ...] | None]:
        """Of positions that are a view of the buffer's."""
        if not np.may_share_memory(at, root):
            return 0, None
        return int(at.flat[0]), tuple(stride // root.itemsize for stride in at.strides)

    def _affine(self, offset: int, strides: Sequence[int]) -> str:
        writer = self.writer
        found = writer.made("r", f"mov.u32 {{d}}, {offset};")
        for register, extent, stride in zip(self.axes, self.shape, strides, strict=True):
            if extent > 1 and stride:
                text = f"mad.lo.s32 {{d}}, {register}, {stride}, {found};"
                found = writer.made("r", text)
        return found


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def _squeezed(values: NDArray[Any]) -> tuple[NDArray[Any], tuple[int, ...]]:
    """An array without the axes along which it is broadcast, and strides that put them back."""
    key = tuple(0 if stride == 0 else slice(None) for stride in values.strides)
    dense = values[key]
    rest = iter(_row_major(dense.shape))
    return dense, tuple(0 if stride == 0 else next(rest) for stride in values.strides)


def _split(writer: Writer, flat: str, shape: Sequence[int]) -> list[str]:
    """Registers with the index on each axis of a row-major place."""
    found: list[str] = []
    for extent in reversed(shape):
        if extent == 1:
            found.append(flat)  # never used: there is no step along it
            continue
        found.append(writer.made("r", f"rem.u32 {{d}}, {flat}, {extent};"))
        flat = writer.made("r", f"div.u32 {{d}}, {flat}, {extent};")
    return found[::-1]


def _value(walk: Walk, node: Node, flag: bool = False) -> str:
    """A register with the value of an expression: a number, or a predicate."""
    writer = walk.writer
    if not isinstance(node, Apply):
        number = walk.number(node.values) if isinstance(node, Known) else _loaded(walk, node)
        if flag:
            return writer.made("p", f"setp.neu.f32 {{d}}, {number}, 0f00000000;")
        return number
    operation = node.operation
    is_flag = operation in FLAGS
    inputs = [
        _value(walk, argument, operation in LOGICAL or (operation == "where" and i == 0))
        for i, argument in enumerate(node.arguments)
    ]
    names = dict(zip("abc", inputs, strict=False))
    made = writer.new("p" if is_flag else "f")
    lines = (FLAGS if is_flag else OPERATIONS)[operation]
    text = "".join(lines)
    names |= {k: writer.new(kind) for k, kind in TEMPORARIES.items() if f"{{{k}}}" in text}
    for line in lines:
        writer.say(line.format(d=made, **names))
    if is_flag == flag:
        return made
    if flag:
        return writer.made("p", f"setp.neu.f32 {{d}}, {made}, 0f00000000;")
    return writer.made("f", f"selp.f32 {{d}}, 0f3F800000, 0f00000000, {made};")


def _loaded(walk: Walk, node: Leaf | Take) -> str:
    """A register with an element of a buffer, as a number."""
    writer, name = walk.writer, node.buffer.name
    at = walk.position(node.at, node.buffer.root)
    if isinstance(node, Take):
        index = writer.made("r", f"cvt.rzi.s32.f32 {{d}}, {_value(walk, node.index)};")
        # one below 0 counts from the end of the axis
        wrap = writer.made("r", f"shr.s32 {{d}}, {index}, 31;")
        wrap = writer.made("r", f"and.b32 {{d}}, {wrap}, {node.extent};")
        index = writer.made("r", f"add.s32 {{d}}, {index}, {wrap};")
        at = writer.made("r", f"mad.lo.s32 {{d}}, {index}, {node.stride}, {at};")
        # an index beyond its axis must not reach another row: it leaves the buffer
        inside = writer.made("p", f"setp.lt.u32 {{d}}, {index}, {node.extent};")
        at = writer.made("r", f"selp.b32 {{d}}, {at}, {OUTSIDE}, {inside};")
    dtype = writer.tensors[name].dtype
    place = walk.address(name, at)
    if dtype == "f32":
        return writer.made("f", f"ld.global.f32 {{d}}, [{place}];")
    wide, kind = _register(dtype)
    whole = writer.made(kind, f"ld.global.{dtype} {{d}}, [{place}];")
    return writer.made("f", f"cvt.rn.f32.{wide} {{d}}, {whole};")


def _register(dtype: str) -> tuple[str, str]:
    """The type and kind of the register that holds an integer."""
    return (dtype, "rd") if dtype[1:] == "64" else (f"{dtype[0]}32", "r")


def _store(walk: Walk, stage: Stage, value: str) -> None:
    """A number to its place; in a buffer of integers what NumPy makes of it: whole, wrapped."""
    writer, name = walk.writer, stage.target.name
    place = walk.address(name, walk.position(stage.at, stage.target.root))
    dtype = writer.tensors[name].dtype
    if dtype != "f32":
        sign = "u" if dtype == "u64" else "s"
        value = writer.made("rd", f"cvt.rzi.{sign}64.f32 {{d}}, {value};")
        if _register(dtype)[1] == "r":
            value = writer.made("r", f"cvt.u32.u64 {{d}}, {value};")
    writer.say(f"st.global.{dtype} [{place}], {value};")


def _stage(writer: Writer, stage: Stage, ctas: int) -> None:
    """A loop over the elements, THREADS times `ctas` apart, with one over what is reduced."""
    at = writer.made("r", "mov.u32 {d}, %start;")
    again, done = writer.new("L"), writer.new("L")
    writer.lines.append(f"{again}:")
    past = writer.made("p", f"setp.ge.u32 {{d}}, {at}, {stage.at.size};")
    writer.say(f"@{past} bra {done};")
    axes = _split(writer, at, stage.at.shape)
    target = Walk(writer, stage.at.shape, axes)
    reduced = stage.reduction != ""
    value = _reduction(writer, stage, axes) if reduced else _value(target, stage.node)
    _store(target, stage, value)
    writer.say(f"add.u32 {at}, {at}, {THREADS * ctas};")
    writer.say(f"bra {again};")
    writer.lines.append(f"{done}:")


def _reduction(writer: Writer, stage: Stage, axes: list[str]) -> str:
    start, operation = REDUCTIONS[stage.reduction]
    value = writer.made("f", f"mov.f32 {{d}}, {start};")
    step = writer.made("r", "mov.u32 {d}, 0;")
    again = writer.new("L")
    writer.lines.append(f"{again}:")
    walk = Walk(writer, (*stage.at.shape, stage.length), [*axes, step])
    one = _value(walk, stage.node)
    writer.say(OPERATIONS[operation][0].format(d=value, a=value, b=one))
    writer.say(f"add.u32 {step}, {step}, 1;")
    more = writer.made("p", f"setp.lt.u32 {{d}}, {step}, {stage.length};")
    writer.say(f"@{more} bra {again};")
    return value


def kernel(stages: Sequence[Stage], tensors: Mapping[str, Tensor]) -> tuple[str, Launch]:
    """PTX and launch of stages, which fill the outputs among `tensors` and buffers between."""
    every = dict(tensors)
    for stage in stages:
        size = stage.target.root.size
        scratch = Tensor(stage.target.name, "f32", (size,), "out", compare=False)
        every.setdefault(stage.target.name, scratch)
    writer = Writer(every)
    alone = len(stages) == 1
    ctas = min(-(-stages[0].at.size // THREADS), MOST_CTAS) if alone else 1
    for i, stage in enumerate(stages):
        if i:
            writer.say("bar.sync 0;")
        _stage(writer, stage, ctas)
    params = tuple(writer.tensors[name] for name in writer.used)
    launch = Launch(NAME, (ctas, 1, 1), (THREADS, 1, 1), params, path=NAME)
    return _text(writer, len(params)), launch


def _text(writer: Writer, params: int) -> str:
    types = {"f": ".f32", "r": ".b32", "rd": ".b64", "p": ".pred"}
    head = [".version 8.0", ".target sm_80", ".address_size 64", ""]
    names = ",\n    ".join(f".param .u64 {NAME}_param_{i}" for i in range(params))
    head += [f".visible .entry {NAME}(\n    {names}\n)", f".maxntid {THREADS}", "{"]
    for kind, type_ in types.items():
        head.append(f"    .reg {type_} %{kind}<{writer.counts.get(kind, 0) + 1}>;")
    head += ["    .reg .b32 %start;", f"    .reg .b64 %base<{params}>;"]
    for i in range(params):
        head.append(f"    ld.param.u64 %base{i}, [{NAME}_param_{i}];")
        head.append(f"    cvta.to.global.u64 %base{i}, %base{i};")
    head.append("    mov.u32 %start, %ctaid.x;")
    head.append(f"    mul.lo.u32 %start, %start, {THREADS};")
    first = writer.new("r")
    head[head.index("{") + 2] = f"    .reg .b32 %r<{writer.counts['r'] + 1}>;"
    head += [f"    mov.u32 {first}, %tid.x;", f"    add.u32 %start, %start, {first};"]
    return "\n".join([*head, *writer.lines, "    ret;", "}", ""])
