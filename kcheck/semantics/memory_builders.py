"""Builders of loads, stores and atomics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kcheck.canon.lanes import Real
from kcheck.launch import DTYPE_BYTES, Scalar, Tensor
from kcheck.ptx_frontend.tree import Flt, Instr, Mem, Operand, Sink, Sym, Vec
from kcheck.semantics import integers
from kcheck.semantics.access import Address, Place, address, resolve
from kcheck.semantics.branching import before_store, fetch
from kcheck.semantics.decode import Builder, Decoder, put
from kcheck.semantics.gathers import address_of, gathered
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.move_builders import type_size
from kcheck.semantics.races import Races
from kcheck.semantics.same_value import same_instruction
from kcheck.semantics.selection import choose, stored
from kcheck.semantics.strength import fence_of
from kcheck.semantics.symbolic_integers import converted, in_rows, rows
from kcheck.semantics.units import undefined
from kcheck.semantics.updates import note_writers
from kcheck.semantics.values import (
    FMT_BYTES,
    UNSIGNED,
    Bool,
    Int,
    Packed,
    Symbolic,
    Unstable,
    Unsupported,
)
from kcheck.semantics.words import Source

Slots = dict[str, str]
Watch = Callable[[Races, Place, int], None]
WatchStore = Callable[[Races, Place, int], "Bool | None"]
# a scalar parameter is a number of its format
ROUNDED: dict[str, Callable[[float], Any]] = {"f32": np.float32, "f16": np.float16}


def _registers(op: Operand) -> tuple[Operand, ...]:
    return op.items if isinstance(op, Vec) else (op,)


def _extend(m: Machine, x: Any, t: str, register: int) -> Any:
    """A loaded value in a register that is wider than its type."""
    size = type_size(t)
    if register <= size:
        return x
    number = converted(m, x, t if t[0] in "su" else f"u{8 * size}", f"s{8 * register}", register)
    if number is not None:
        return number
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
    plan = d.machine.plan
    if d.at in plan.waits or d.at in plan.seeds:
        return _special_ld(d, t, at, dsts, registers)

    def run(m: Machine) -> None:
        values = gather(m, at, size, count, watch=watch)
        for dst, x, register in zip(dsts, values, registers, strict=True):
            put(m, dst, _extend(m, x, t, register or size))

    return run


def _special_ld(
    d: Decoder, t: str, at: Address, dsts: list[int], registers: list[int | None]
) -> Step:
    """The load of a wait loop, or the one before a CAS loop, whose value means nothing."""
    size, seed = type_size(t), d.at in d.machine.plan.seeds
    if len(dsts) != 1 or size not in ((2, 4, 8) if seed else (4, 8)):
        raise Unsupported("spin", "a loop waits for several values, or for a narrow one")

    def run(m: Machine) -> None:
        value = Int(np.zeros(1, UNSIGNED[size]))
        for place in resolve(m, at, size, size, write=False):
            if seed:
                continue
            assert m.flags is not None
            assert m.races is not None
            m.flags.watch(place)
            m.races.wait(place, size)
            mask = m.group() if place.mask is None else place.mask
            value = choose(m, mask, m.flags.load(place, size), value, size)
        put(m, dsts[0], _extend(m, value, t, registers[0] or size))

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
    if type(m.regs[at.slot]) is not Int:
        symbolic = address_of(m, at)
        if symbolic is not None:
            return gathered(m, symbolic, at, size, count)
    places = resolve(m, at, size * count, align or size * count, write=False)
    if m.races is not None and watch is not None:
        for place in places:
            watch(m.races, place, size * count)
    if len(places) == 1 and places[0].mask is m.mask:
        return fetch(places[0], size, count)
    values: list[Any] = [undefined(size)] * count
    for place in places:
        mask = np.ones(m.lanes, bool) if place.mask is None else place.mask
        for i, x in enumerate(fetch(place, size, count)):
            values[i] = choose(m, mask, x, values[i], size)
    return values


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
    if fmt and m.arithmetic is not None:
        if FMT_BYTES[fmt] != size:
            raise Unsupported("reinterpret", f"an {fmt} parameter is read as {size} bytes")
        given = m.arithmetic.input(param.name, 1, fmt) if param.value is None else None
        return [Int(m.arithmetic.patterns([param.value], fmt) if given is None else given)]
    if param.value is None:
        real = m.reals.symbolic(m.domain.input(param.name, 1))
        if not fmt and DTYPE_BYTES[param.dtype] == size:
            return [Symbolic(size, Source(real), step=param.promise.divisible)]
        if FMT_BYTES.get(fmt) != size:
            raise Unsupported("symbolic-int", f"scalar {param.name} has no value")
        real.fmt = fmt
        return [real]
    if fmt:
        if FMT_BYTES[fmt] != size:
            raise Unsupported("reinterpret", f"an {fmt} parameter is read as {size} bytes")
        rounded = ROUNDED.get(fmt, float)(param.value)
        constant = m.reals.uniform(m.reals.number(float(rounded)))
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
    """The slot of a stored value: a register, or a literal (of a zero its bits, for its sign)."""
    if isinstance(op, Flt) and t in FMT_BYTES and op.bits << 1 & (1 << op.width) - 1:
        return d.real(op, t)
    return d.integer(op, type_size(t))


def narrowed(m: Machine, x: Any, size: int) -> Any:
    """A register as the `size` bytes that a store writes of it."""
    if type(x) is Int and x.a.itemsize != size:
        return m.integer(x, size)
    if type(x) is Packed and size == 2:
        return m.halves(x)[0]
    return x if in_rows(x, size) else stored(m, x, size)


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
        held = [rows(m, x, size, memory.granule) for x in values]
        if size < memory.granule:
            raise Unsupported("reinterpret", f"{size} bytes are stored into wider elements")
        note_writers(m, place, size * count)
        if m.races is not None:
            clash = watch(m.races, place, size * count)
            if clash is not None:
                same_instruction(m, place, size, held, clash)
        if m.flags is not None and m.flags.watches(place):
            flag_store(m, place, size, held)
        tail = m.tail and place.region.space == "global"
        if m.races is not None and m.tickets is not None and tail:
            m.tickets.store(place, size, held, *m.races.cells_of(place, size * count))
        before_store(m, place, size, count)
        memory.save(place.cell, size, held, place.mask)


def flag_store(m: Machine, place: Place, size: int, values: list[Any]) -> None:
    """A store into a region that holds flags; before the memory is written."""
    assert m.flags is not None
    if len(values) != 1:
        raise Unsupported("unstable", "several values are stored at once among flags")
    found = m.flags.histories(place, size)
    numbers: list[int | None] = [None] * len(found)
    if type(values[0]) is Int and values[0].p is None:
        a = np.broadcast_to(values[0].a, (m.lanes,))
        u = np.broadcast_to(False if values[0].u is None else values[0].u, (m.lanes,))
        numbers = [None if u[lane] else int(a[lane]) for lane, _ in found]
    m.flags.write(found, numbers)


def _nothing(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """No effect on values."""

    def run(m: Machine) -> None:
        pass

    return run


def _fence(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """Orders accesses, where anything beyond barriers does (`semantics.orders`)."""
    effect = fence_of(instr)

    def run(m: Machine) -> None:
        if m.races is not None and m.races.orders is not None:
            m.races.orders.fence(np.flatnonzero(m.group()), *effect)

    return run


def _call(d: Decoder, instr: Instr, slots: Slots) -> Step:
    names = [op.name for op in instr.operands if isinstance(op, Sym)]
    raise Unsupported("call", f"a call of {', '.join(names) or 'a function pointer'}")


def _activemask(d: Decoder, instr: Instr, slots: Slots) -> Step:
    """One of the masks that a schedule may give, where any of them gives the same in the end."""
    dst, (x, y, z) = d.dest(instr.operands[0]), d.machine.launch.block
    # `tid.x & 31` is the lane only in rows of whole warps
    gathers = d.at in d.machine.plan.aggregates and (x % 32 == 0 or y * z == 1)

    def run(m: Machine) -> None:
        if not gathers:
            put(m, dst, Unstable("activemask", m.at))
            return
        bits = m.group().reshape(-1, 32) << np.arange(32, dtype=np.uint32)
        put(m, dst, Int(np.repeat(np.bitwise_or.reduce(bits.astype(np.uint32), axis=1), 32)))

    return run


MEMORY_BUILDERS: dict[str, Builder] = {
    "ld": _ld,
    "st": _st,
    "prefetch": _nothing,
    "fence": _fence,
    "nanosleep": _nothing,
    "call": _call,
    "activemask": _activemask,
}
