"""Builders of moves, selections, loads, stores, atomics and copies."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from kcheck.canon.real import Real
from kcheck.launch import Scalar, Tensor
from kcheck.ptx_frontend.tree import Flt, Instr, Mem, Operand, Sink, Sym, Vec, type_bytes
from kcheck.semantics import integers
from kcheck.semantics.access import Address, Place, address, resolve, to_generic
from kcheck.semantics.decode import Builder, Decoder, put
from kcheck.semantics.float_builders import compare
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.memory import undefined
from kcheck.semantics.races import Races, atomic_code
from kcheck.semantics.same_value import same_instruction
from kcheck.semantics.values import (
    FMT_BYTES,
    UNSIGNED,
    Bool,
    Int,
    Mixed,
    Packed,
    Part,
    Pred,
    Unstable,
    Unsupported,
)

Slots = dict[str, str]
Watch = Callable[[Races, Place, int], None]
WatchStore = Callable[[Races, Place, int], "Bool | None"]
# a scalar parameter is a number of its format
ROUNDED: dict[str, Callable[[float], Any]] = {"f32": np.float32, "f16": np.float16}


def type_size(type_name: str) -> int:
    """Bytes of a memory type."""
    return type_bytes(type_name)


# moves


def _mov(d: Decoder, instr: Instr, slots: Slots) -> Step:
    target, source = instr.operands
    t = slots["type"]
    if isinstance(source, Vec):
        return _pack(d, target, source, t)
    if isinstance(target, Vec):
        return _unpack(d, target, source, t)
    dst = d.dest(target)
    if t == "pred":
        slot, negated = d.predicate(source)
        if negated:
            raise Unsupported("operand", "a negated predicate is moved")
    elif t in FMT_BYTES and isinstance(source, Flt) and source.bits << 1 & (1 << source.width) - 1:
        slot = d.real(source, t)
    else:
        slot = d.integer(source, type_size(t))
    size = type_size(t)

    def run(m: Machine) -> None:
        x = m.regs[slot]
        if x is None:
            x = undefined(size)
        elif type(x) is Int and x.a.itemsize != size and t != "pred":
            x = m.integer(x, size)
        m.regs[dst] = x if m.mask is None else m.merge(m.regs[dst], x)

    return run


def _pack(d: Decoder, target: Operand, source: Vec, t: str) -> Step:
    """mov.b32 d, {lo, hi} and the like."""
    size = type_size(t) // len(source.items)
    slots = [d.integer(op, size) for op in source.items]
    dst = d.dest(target)

    def run(m: Machine) -> None:
        parts = [m.regs[s] for s in slots]
        if size == 2 and len(parts) == 2 and not all(type(p) is Int for p in parts):
            lo, hi = (undefined(2) if p is None else p for p in parts)
            put(m, dst, Packed(_half(m, lo), _half(m, hi)))
            return
        whole_f64 = m.joined(parts[0], parts[1]) if size == 4 and len(parts) == 2 else None
        if whole_f64 is not None:
            put(m, dst, whole_f64)
            return
        xs = [m.integer(p, size) for p in parts]
        whole = xs[0].a.astype(UNSIGNED[size * len(xs)])
        u = xs[0].u
        for i, x in enumerate(xs[1:], 1):
            kind = UNSIGNED[size * len(xs)]
            whole = whole | x.a.astype(kind) << kind(8 * size * i)
            u = x.u if u is None else u if x.u is None else u | x.u
        put(m, dst, Int(whole, None, u))

    return run


def _half(m: Machine, x: Any) -> Any:
    """A 16-bit register as half of a word."""
    if type(x) is Mixed:
        for _, part in x.parts:
            if type(part) is Real:
                return m.real(x, part.fmt)
        return m.integer(x, 2)
    if type(x) is Real:
        if FMT_BYTES.get(x.fmt) != 2:
            raise Unsupported("reinterpret", f"an {x.fmt} becomes half of a word")
        return x
    return m.integer(x, 2)


def _unpack(d: Decoder, target: Vec, source: Operand, t: str) -> Step:
    """mov.b32 {lo, hi}, a and the like."""
    n = len(target.items)
    size = type_size(t) // n
    slot = d.integer(source, type_size(t))
    dsts = [d.dest(op) for op in target.items]

    def run(m: Machine) -> None:
        x = m.regs[slot]
        if n == 2 and size == 2:
            for dst, half in zip(dsts, m.halves(x), strict=True):
                put(m, dst, half)
            return
        if n == 2 and size == 4 and type(x) is Real and x.fmt == "f64":
            for i, dst in enumerate(dsts):
                put(m, dst, Part(x, i))
            return
        whole = m.integer(x, size * n)
        for i, dst in enumerate(dsts):
            part = (whole.a >> UNSIGNED[size * n](8 * size * i)).astype(UNSIGNED[size])
            put(m, dst, Int(part, None, whole.u))

    return run


def _cvta(d: Decoder, instr: Instr, slots: Slots) -> Step:
    w = integers.width(slots["size"])
    dst, source = instr.operands
    if isinstance(source, Sym) and source.name not in d.machine.regions.symbols:
        raise Unsupported("symbol", f"the generic address of {source.name}")
    a, out = d.integer(source, w), d.dest(dst)

    def run(m: Machine) -> None:
        put(m, out, to_generic(m, m.integer(m.regs[a], w), slots["space"], bool(slots["to"])))

    return run


def _isspacep(d: Decoder, instr: Instr, slots: Slots) -> Step:
    a, dst = d.integer(instr.operands[1], 8), d.dest(instr.operands[0])
    wanted = slots["space"].partition("::")[0]

    def run(m: Machine) -> None:
        x = m.integer(m.regs[a], 8)
        if x.p is None:
            raise Unsupported("isspacep", "an address of unknown origin")
        regions = m.regions.items
        p = np.atleast_1d(np.asarray(x.p))
        hits = np.array([regions[int(i)].space == wanted if i >= 0 else False for i in p])
        put(m, dst, Pred(hits, None, None, x.u))

    return run


# selection


def choose(m: Machine, b: Any, x: Any, y: Any, size: int) -> Any:
    """`x` where the concrete `b` holds, else `y`, whatever their kinds."""
    x = undefined(size) if x is None else x
    y = undefined(size) if y is None else y
    b = np.broadcast_to(b, (m.lanes,))
    mask, notmask = m.mask, m.notmask
    m.mask, m.notmask = b, ~b
    try:
        return m.merge(y, x)
    finally:
        m.mask, m.notmask = mask, notmask


def select(m: Machine, p: Pred, x: Any, y: Any, size: int, fmt: str = "") -> Any:
    """`x` where p holds, else `y`; a symbolic p needs floats of one format (`fmt`, or theirs)."""
    if p.s is None or m.live(p.s) is None:
        return choose(m, p.b, x, y, size)
    if type(x) is Packed or type(y) is Packed:
        pairs = zip(m.halves(x), m.halves(y), strict=True)
        return Packed(*[select(m, p, a, b, 2) for a, b in pairs])
    formats = {v.fmt for v in (x, y) if type(v) is Real} or ({fmt} if fmt else set())
    if len(formats) != 1 or next(iter(formats)) not in FMT_BYTES:
        return _select_ints(m, x, y, size)
    kind = formats.pop()
    result = m.reals.select(m.indicator(p), m.real(x, kind), m.real(y, kind))
    result.fmt = kind
    return result


def _select_ints(m: Machine, x: Any, y: Any, size: int) -> Any:
    """A tensor value chooses between integers: only when they are the same."""
    a, b = m.integer(x, size), m.integer(y, size)
    differ = np.broadcast_to(a.a != b.a, (m.lanes,)) & m.group()
    if differ.any() or a.u is not None or b.u is not None:
        raise Unsupported("symbolic-int", "a tensor value selects between integers")
    return a


def _selp(d: Decoder, instr: Instr, slots: Slots) -> Step:
    t = slots["type"]
    size = type_size(t)
    fmt = t if t in FMT_BYTES else ""
    a, b = (d.real(o, fmt) if fmt else d.integer(o, size) for o in instr.operands[1:3])
    slot, negated = d.predicate(instr.operands[3])
    dst = d.dest(instr.operands[0])

    def run(m: Machine) -> None:
        p = m.predicate(m.regs[slot])
        x, y = m.regs[a], m.regs[b]
        if negated:
            x, y = y, x
        result = select(m, p, x, y, size, fmt)
        if p.u is not None:
            result = choose(m, p.u, undefined(size), result, size)
        put(m, dst, result)

    return run


def _slct(d: Decoder, instr: Instr, slots: Slots) -> Step:
    t, by = slots["dtype"], slots["type"]
    size = type_size(t)
    fmt = t if t in FMT_BYTES else ""
    a, b = (d.real(o, fmt) if fmt else d.integer(o, size) for o in instr.operands[1:3])
    c = d.real(instr.operands[3], by) if by == "f32" else d.integer(instr.operands[3], 4)
    dst = d.dest(instr.operands[0])

    def run(m: Machine) -> None:
        if by == "f32":
            zero = m.reals.constant(0)
            p = compare(m, "ge", m.real(m.regs[c], by), zero)
        else:
            x = m.integer(m.regs[c], 4)
            p = Pred(integers.view(x.a, by) >= 0, None, None, x.u)
        result = select(m, p, m.regs[a], m.regs[b], size, fmt)
        if p.u is not None:
            result = choose(m, p.u, undefined(size), result, size)
        put(m, dst, result)

    return run


# loads and stores


def _registers(op: Operand) -> tuple[Operand, ...]:
    return op.items if isinstance(op, Vec) else (op,)


def _extend(m: Machine, x: Any, t: str, register: int) -> Any:
    """A loaded value in a register that is wider than its type."""
    size = type_size(t)
    if register <= size:
        return x
    if type(x) is Real and size == 2 and register == 4:
        return Packed(x, Int(np.zeros(1, np.uint16)))
    whole = m.integer(x, size)
    kind = integers.SIGNED if integers.is_signed(t) else UNSIGNED
    return Int(integers.bits(integers.view(whole.a, t).astype(kind[register])), None, whole.u)


def _ld(d: Decoder, instr: Instr, slots: Slots) -> Step:
    space = slots.get("space", "")
    target, source = instr.operands
    t = slots["type"]
    items = _registers(target)
    registers = [None if isinstance(op, Sink) else d.bytes_of(op) for op in items]
    dsts = [d.dest(op) for op in items]
    if space.startswith("param") and isinstance(source, Mem) and isinstance(source.base, Sym):
        constant = _parameter(d, source, t, len(items))
        if constant is not None:
            return _constants(dsts, constant)
    at = address(d, source, space)
    size, count = type_size(t), len(items)
    watch = Races.read_nc if "nc" in instr.opcode else Races.read

    def run(m: Machine) -> None:
        values = gather(m, at, size, count, watch=watch)
        for dst, x, register in zip(dsts, values, registers, strict=True):
            put(m, dst, _extend(m, x, t, register or size))

    return run


def gather(
    m: Machine,
    at: Address,
    size: int,
    count: int,
    align: int = 0,
    *,
    watch: Watch | None = Races.read,
) -> list[Any]:
    """`count` registers of `size` bytes from each lane's address; faulty lanes are undefined.

    `align`: of the address in bytes; by default the bytes of the access. `watch`: what tells the
    monitor of races (None: nothing).
    """
    places = resolve(m, at, size * count, align or size * count, write=False)
    if m.races is not None and watch is not None:
        for place in places:
            watch(m.races, place, size * count)
    if len(places) == 1 and places[0].mask is m.mask:
        return _fetch(places[0], size, count)
    values: list[Any] = [undefined(size)] * count
    for place in places:
        mask = np.ones(m.lanes, bool) if place.mask is None else place.mask
        for i, x in enumerate(_fetch(place, size, count)):
            values[i] = choose(m, mask, x, values[i], size)
    return values


def _fetch(place: Place, size: int, count: int) -> list[Any]:
    memory = place.region.memory
    loaded: list[Any]
    if size >= memory.granule:
        loaded = memory.load(place.cell, count, size, place.mask)
        return loaded
    loaded = []
    for i in range(count):
        at = place.rest + i * size
        cell = place.cell + at // memory.granule
        loaded.append(memory.load_bytes(cell, at % memory.granule, size, place.mask))
    return loaded


def _parameter(d: Decoder, source: Mem, t: str, count: int) -> list[Any] | None:
    """The constant that a load of a kernel parameter gives, or None if it is no parameter."""
    assert isinstance(source.base, Sym)
    kernel, launch = d.kernel, d.machine.launch
    names = [p.name for p in kernel.params]
    if source.base.name not in names:
        return None
    offset = source.offset + source.base.offset
    param = launch.params[names.index(source.base.name)]
    size = type_size(t)
    if isinstance(param, Tensor):
        ident = d.machine.regions.tensors[param.name]
        if offset or size not in (4, 8) or count > 1:
            raise Unsupported("param", "a part of a pointer parameter is read")
        base = np.array([d.machine.regions.items[ident].base], np.uint64)
        return [Int(base.astype(UNSIGNED[size]), ident)]
    if isinstance(param, Scalar):
        return _scalar(d, param, offset, size, count)
    raise Unsupported("tensormap", "a tensor map parameter is read")


def _scalar(d: Decoder, param: Scalar, offset: int, size: int, count: int) -> list[Any]:
    m = d.machine
    fmt = param.dtype if param.dtype in FMT_BYTES else ""
    if offset or count > 1:
        raise Unsupported("param", "a part of a scalar parameter is read")
    if param.value is None:
        if FMT_BYTES.get(fmt) != size:
            raise Unsupported("symbolic-int", f"scalar {param.name} has no value")
        real = m.reals.symbolic(m.domain.input(param.name, 1))
        real.fmt = fmt
        return [real]
    if fmt:
        if FMT_BYTES[fmt] != size:
            raise Unsupported("reinterpret", f"an {fmt} parameter is read as {size} bytes")
        rounded = ROUNDED.get(fmt, float)(param.value)
        constant = m.reals.constant(Fraction(float(rounded)))
        constant.fmt = fmt
        return [constant]
    keep = (1 << 8 * size) - 1
    return [Int(np.array([int(param.value) & keep], UNSIGNED[size]))]


def _constants(dsts: list[int], values: list[Any]) -> Step:
    def run(m: Machine) -> None:
        for dst, x in zip(dsts, values, strict=True):
            put(m, dst, x)

    return run


def store_source(d: Decoder, op: Operand, t: str) -> int:
    """The slot of a stored value: a register, or a literal's bits."""
    if isinstance(op, Flt) and t in FMT_BYTES:
        return d.real(op, t)
    return d.integer(op, type_size(t))


def narrowed(m: Machine, x: Any, size: int) -> Any:
    """A register as the `size` bytes that a store writes of it."""
    if type(x) is Int and x.a.itemsize != size:
        return m.integer(x, size)
    if type(x) is Packed and size == 2:
        return m.halves(x)[0]
    return x


def _st(d: Decoder, instr: Instr, slots: Slots) -> Step:
    target, source = instr.operands
    t = slots["type"]
    items = _registers(source)
    sources = [store_source(d, op, t) for op in items]
    at = address(d, target, slots["space"])
    size, count = type_size(t), len(items)

    def run(m: Machine) -> None:
        values = [narrowed(m, m.regs[s], size) for s in sources]
        scatter(m, at, size, count, values)

    return run


def scatter(
    m: Machine,
    at: Address,
    size: int,
    count: int,
    values: list[Any],
    *,
    watch: WatchStore = Races.write,
) -> None:
    """Store registers at each lane's address. `watch`: what tells the monitor of races.

    It returns the cells to which several lanes of the instruction stored, or None.
    """
    for place in resolve(m, at, size * count, size * count, write=True):
        memory = place.region.memory
        if size < memory.granule:
            raise Unsupported("reinterpret", f"{size} bytes are stored into wider elements")
        note_writers(m, place, size * count)
        if m.races is not None:
            clash = watch(m.races, place, size * count)
            if clash is not None:
                same_instruction(m, place, size, values, clash)
        memory.save(place.cell, size, values, place.mask)


def note_writers(m: Machine, place: Place, nbytes: int) -> None:
    """Remember the CTAs that write the watched cell."""
    memory = place.region.memory
    if memory.watched is None:
        return
    cells = max(nbytes // memory.granule, 1)
    hit = (place.cell <= memory.watched) & (memory.watched < place.cell + cells)
    hit = hit if place.mask is None else hit & place.mask
    for lane in np.flatnonzero(hit):
        memory.writers[int(m.ctas[m.cta_of[lane]])] = (m.at, m.thread(int(lane)))


# atomics


def _add(d: Decoder, instr: Instr, slots: Slots) -> Step:
    operands = instr.operands
    target, source = operands[-2], operands[-1]
    t = slots["type"]
    fmt = t.removesuffix("x2")
    at = address(d, target, slots["space"])
    floats = fmt in FMT_BYTES
    size = FMT_BYTES[fmt] * (2 if t.endswith("x2") else 1) if floats else type_size(t)
    slot = d.real(source, t) if t in ("f32", "f64") else d.integer(source, size)
    dst = d.dest(operands[0]) if len(operands) == 3 else None
    op = atomic_code("add", t, slots["scope"])

    def run(m: Machine) -> None:
        for place in resolve(m, at, size, size, write=True):
            memory, x = place.region.memory, m.regs[slot]
            if size < memory.granule:
                raise Unsupported("reinterpret", f"{size} bytes are added in wider elements")
            note_writers(m, place, size)
            if m.races is not None:
                m.races.write(place, size, op)
            if not floats:
                memory.add_bits(place.cell, size, m.integer(x, size), place.mask)
            elif t.endswith("x2"):
                step = 2 // memory.granule
                for i, half in enumerate(m.halves(x)):
                    memory.add(place.cell + i * step, 2, m.real(half, fmt), place.mask)
            else:
                memory.add(place.cell, size, m.real(x, fmt), place.mask)
        if dst is not None:
            put(m, dst, Unstable("the old value of an atomic", m.at))

    return run


def _nothing(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """No effect on values."""

    def run(m: Machine) -> None:
        pass

    return run


def _call(d: Decoder, instr: Instr, slots: Slots) -> Step:
    names = [op.name for op in instr.operands if isinstance(op, Sym)]
    raise Unsupported("call", f"a call of {', '.join(names) or 'a function pointer'}")


def _unstable(what: str) -> Builder:
    def build(d: Decoder, instr: Instr, slots: Slots) -> Step:
        dst = d.dest(instr.operands[0])

        def run(m: Machine) -> None:
            put(m, dst, Unstable(what, m.at))

        return run

    return build


MEMORY_BUILDERS: dict[str, Builder] = {
    "mov": _mov,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "selp": _selp,
    "slct.int": _slct,
    "slct.float": _slct,
    "ld": _ld,
    "st": _st,
    "atom.add": _add,
    "red.add": _add,
    "prefetch": _nothing,
    "fence": _nothing,
    "nanosleep": _nothing,
    "call": _call,
    "activemask": _unstable("activemask"),
}
