"""Builders of warp instructions: shuffles, votes, ldmatrix, mma (PTX ISA 9.7.9, 9.7.13, 9.7.14)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kcheck.canon.constants import CASED, FINITE, SYMBOLIC, UNDEF
from kcheck.canon.lanes import Real
from kcheck.ptx_frontend.tree import Instr, Pair, Vec
from kcheck.semantics import fragments
from kcheck.semantics.access import address, resolve
from kcheck.semantics.barriers import outside_own
from kcheck.semantics.decode import Builder, Decoder, put, under
from kcheck.semantics.float_builders import check_magic
from kcheck.semantics.machine import Machine, Step
from kcheck.semantics.selection import choose
from kcheck.semantics.symbolic_integers import congruent
from kcheck.semantics.units import undefined
from kcheck.semantics.values import (
    Array,
    Bool,
    Choice,
    Int,
    Mixed,
    Packed,
    Part,
    Pred,
    Symbolic,
    Unstable,
    Unsupported,
    either,
)
from kcheck.semantics.words import Source

Slots = dict[str, str]
R = Real[Any]


def _bits_of(mask: Array) -> Bool:
    """(warps, 32) flags of one 32-bit mask per warp."""
    return (mask[:, None] >> np.arange(32, dtype=np.uint32) & 1).astype(bool)


def members(m: Machine, x: Any) -> Bool:
    """Lanes that each lane's warp names in its mask; all live ones of them must be here."""
    given = m.integer(x, 4)
    group = m.group()
    if given.u is not None:
        m.fault("undefined.mask", group & given.u, "the member mask is undefined")
        group = group & ~given.u
    masks = np.broadcast_to(given.a, (m.lanes,))
    alien = group & outside_own(m, masks)
    if alien.any():
        m.fault("undefined.convergence", alien, "a lane is not in its own mask")
        # whatever the rest of such a warp does is undefined too
        group = group & ~np.repeat(alien.reshape(-1, 32).any(axis=1), 32)
    union = np.bitwise_or.reduce(np.where(group, masks, 0).reshape(-1, 32), axis=1)
    named = _bits_of(union.astype(np.uint32)).reshape(-1)
    if (group & (masks != np.repeat(union, 32))).any():
        raise Unsupported("convergence", "lanes of one warp name different member masks")
    if (named & m.alive & ~group).any():
        raise Unsupported("convergence", "lanes of the member mask are elsewhere")
    return named & group


def by_mask(slot: int, run: Step) -> Step:
    """Run a step; where lanes of one warp name different masks, once for each mask.

    Lanes that name one mask meet one another (tiles of cooperative groups do so).
    """

    def each(m: Machine) -> None:
        masks = m.integer(m.regs[slot], 4).a
        if len(masks) == 1:
            run(m)
            return
        group = m.group()
        rows = masks.reshape(-1, 32)
        first = rows[np.arange(len(rows)), group.reshape(-1, 32).argmax(1)]
        one = not (group & (masks != np.repeat(first, 32))).any()
        if one or (group & outside_own(m, masks)).any():  # a defect, which `members` reports
            run(m)
            return
        for mask in np.unique(masks[group]):
            under(m, group & (masks == mask), run)

    return each


def whole_warps(m: Machine, what: str) -> None:
    """An aligned instruction needs every live lane of the warp."""
    if m.mask is None:
        return
    group = m.mask
    partial = group.reshape(-1, 32).any(1) & (m.alive & ~group).reshape(-1, 32).any(1)
    dead = group.reshape(-1, 32).any(1) & ~m.alive.reshape(-1, 32).all(1)
    bad = partial | dead
    if bad.any():
        lanes = np.repeat(bad, 32) & group
        m.fault("undefined.convergence", lanes, f"{what} is executed by a part of a warp")


# shuffles


def _shfl(d: Decoder, instr: Instr, slots: Slots) -> Step:
    ops = instr.operands
    target = ops[0]
    first = d.dest(target.first if isinstance(target, Pair) else target)
    second = d.dest(target.second) if isinstance(target, Pair) else None
    a, b, c = (d.integer(op, 4) for op in ops[1:4])
    mask = d.integer(ops[4], 4)
    mode = slots["mode"]

    def run(m: Machine) -> None:
        here = members(m, m.regs[mask])
        lane_b, segment = m.integer(m.regs[b], 4), m.integer(m.regs[c], 4)
        source, valid = shuffle_source(m, mode, lane_b.a, segment.a)
        absent = valid & ~here[source]
        gone = either(absent if absent.any() else None, either(lane_b.u, segment.u))
        moved = take_lanes(m, m.regs[a], np.where(valid, source, m.lane))
        if gone is not None:
            moved = choose(m, gone, undefined(4), moved, 4)
        put(m, first, moved)
        if second is not None:
            put(m, second, Pred(valid, None, None, either(lane_b.u, segment.u)))

    return by_mask(mask, run)


def shuffle_source(m: Machine, mode: str, b: Array, c: Array) -> tuple[Array, Bool]:
    """The lane (in the batch) that each lane reads, and whether it lies in its segment."""
    lane = m.lane % 32
    by = (b & np.uint32(31)).astype(np.int64)
    clamp = (c & np.uint32(31)).astype(np.int64)
    segment = (c >> np.uint32(8) & np.uint32(31)).astype(np.int64)
    last = (lane & segment) | (clamp & ~segment)
    first = lane & segment
    if mode == "up":
        source = lane - by
        valid = source >= last
    elif mode == "down":
        source = lane + by
        valid = source <= last
    elif mode == "bfly":
        source = lane ^ by
        valid = source <= last
    else:
        source = first | (by & ~segment)
        valid = source <= last
    source = np.where(valid, source, lane)
    return m.lane - lane + source, np.broadcast_to(valid, (m.lanes,))


def take_lanes(m: Machine, x: Any, source: Array) -> Any:
    """A register read across lanes; whatever is undefined there is undefined here."""
    if x is None:
        return undefined(4)
    if type(x) is Int:
        a = x.a if len(x.a) == 1 else x.a[source]
        p = x.p[source] if isinstance(x.p, np.ndarray) and x.p.size > 1 else x.p
        return Int(a, p, _take_mask(m, x.u, source))
    if type(x) is Real:
        taken = m.reals.take(x, source)
        real: Real[Any] = Real(taken.v, taken.c, taken.kind, x.fmt)
        real.u = _take_mask(m, x.u, source)
        return real
    if type(x) is Packed:
        packed = Packed(take_lanes(m, x.lo, source), take_lanes(m, x.hi, source))
        packed.u = _take_mask(m, x.u, source)
        return packed
    if type(x) is Part:
        return Part(take_lanes(m, x.real, source), x.index)
    if type(x) is Mixed:
        return Mixed([(part[source], take_lanes(m, v, source)) for part, v in x.parts])
    if type(x) is Symbolic and x.base is None:
        n = Source(m.reals.take(congruent(m, x), source))
        return Symbolic(x.size, n, step=x.step, u=_take_mask(m, x.u, source))
    if type(x) is Choice:
        arms = [take_lanes(m, arm, source) for arm in (x.yes, x.no)]
        return Choice(_take_predicate(m, x.p, source), *arms)
    if type(x) is Unstable:
        return x
    raise Unsupported("reinterpret", "a predicate is shuffled")


def _take_predicate(m: Machine, p: Pred, source: Array) -> Pred:
    b = np.broadcast_to(p.b, (m.lanes,))[source]
    v = p.v if p.v is None or p.v.shape == (1,) else p.v[source]
    return Pred(b, _take_mask(m, p.s, source), v, _take_mask(m, p.u, source))


def _take_mask(m: Machine, u: Bool | None, source: Array) -> Bool | None:
    return None if u is None else np.broadcast_to(u, (m.lanes,))[source]


# votes


def _vote(d: Decoder, instr: Instr, slots: Slots) -> Step:
    ops = instr.operands
    dst = d.dest(ops[0])
    slot, negated = d.predicate(ops[1])
    mask = d.integer(ops[2], 4)
    mode = slots.get("mode", "ballot")

    def run(m: Machine) -> None:
        here = members(m, m.regs[mask]).reshape(-1, 32)
        p = m.predicate(m.regs[slot])
        undecided = None if p.s is None else m.live(np.broadcast_to(p.s, (m.lanes,)))
        if undecided is not None:
            raise Unsupported("vote", "the predicate depends on a tensor value")
        b = np.broadcast_to(p.b, (m.lanes,))
        b = (~b if negated else b).reshape(-1, 32)
        u = None
        if p.u is not None:
            gone = (np.broadcast_to(p.u, (m.lanes,)).reshape(-1, 32) & here).any(1)
            u = np.repeat(gone, 32) if gone.any() else None
        if mode == "ballot":
            bits = ((b & here).astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(1)
            put(m, dst, Int(np.repeat(bits.astype(np.uint32), 32), None, u))
            return
        every, some = (b | ~here).all(1), (b & here).any(1)
        result = {"all": every, "any": some, "uni": every | ~some}[mode]
        put(m, dst, Pred(np.repeat(result, 32), None, None, u))

    return by_mask(mask, run)


# ldmatrix


def _ldmatrix(d: Decoder, instr: Instr, slots: Slots) -> Step:
    target, source = instr.operands
    items = target.items if isinstance(target, Vec) else (target,)
    dsts = [d.dest(op) for op in items]
    count = int(slots["num"][1:])
    if len(dsts) != count:
        raise Unsupported("operand", f"ldmatrix of {count} matrices into {len(dsts)} registers")
    at = address(d, source, slots["space"] or "shared")
    trans = bool(slots["trans"])

    def run(m: Machine) -> None:
        whole_warps(m, "ldmatrix")
        giving = m.lane % 32 < 8 * count
        outer = m.mask
        here = giving if outer is None else outer & giving
        m.mask = None if here.all() else here
        places = resolve(m, at, 16, 16, write=False)
        m.mask = outer
        if m.races is not None:
            for place in places:
                m.races.read_rows(place, 16, _readers(m, trans))
        for i, dst in enumerate(dsts):
            put(m, dst, _matrix(m, places, i, trans))

    return run


def _readers(m: Machine, trans: bool) -> tuple[Array, Array]:
    """Two of the lanes that get elements of the row to which each lane points."""
    lane = m.lane % 32
    row = lane % 8
    first = m.lane - lane + (row // 2 if trans else 4 * row)
    return first, first + (4 if trans else 1)


def _matrix(m: Machine, places: list[Any], i: int, trans: bool) -> Any:
    """The register of matrix `i`: row r lies where lane 8 i + r points."""
    if len(places) != 1:
        if not places:
            return undefined(4)
        raise Unsupported("ldmatrix", "rows in different buffers")
    place = places[0]
    lane = m.lane % 32
    base = m.lane - lane + 8 * i
    if not trans:
        return _row_part(m, place, base + lane // 4, 4 * (lane % 4), 4)
    halves = [_row_part(m, place, base + 2 * (lane % 4) + j, 2 * (lane // 4), 2) for j in (0, 1)]
    if type(halves[0]) is Int and type(halves[1]) is Int:
        lo, hi = halves
        whole = lo.a.astype(np.uint32) | hi.a.astype(np.uint32) << np.uint32(16)
        return Int(whole, None, either(lo.u, hi.u))
    return Packed(halves[0], halves[1])


def _row_part(m: Machine, place: Any, giver: Array, offset: Array, size: int) -> Any:
    """`size` bytes at `offset` of the row that lane `giver` points to."""
    memory = place.region.memory
    good = None if place.mask is None else place.mask[giver]
    if good is not None and good.all():
        good = None
    cell = place.cell[giver] + offset // memory.granule
    if good is not None:
        cell = np.where(good, cell, 0)
    if size >= memory.granule:
        loaded = memory.load(cell, 1, size, good)[0]
    else:
        loaded = memory.load_bytes(cell, offset % memory.granule, size, good)
    return loaded if good is None else choose(m, good, loaded, undefined(size), size)


# mma


def _mma(d: Decoder, instr: Instr, slots: Slots) -> Step:
    shape = fragments.SHAPES.get((slots["shape"], slots["a"]))
    if shape is None:
        raise Unsupported(instr.name, "the shape is not supported")
    regs = []
    for op in instr.operands:
        if not isinstance(op, Vec):
            raise Unsupported("operand", "mma needs vectors of registers")
        regs.append(op.items)
    dsts = [d.dest(op) for op in regs[0]]
    sources = [[d.integer(op, 4) for op in items] for items in regs[1:]]
    fmt = {"tf32": "f32"}.get(slots["a"], slots["a"])
    out = slots["d"]

    def run(m: Machine) -> None:
        whole_warps(m, "mma")
        a, abad = matrix_of(m, _elements(m, sources[0], fmt), shape.a)
        b, bbad = matrix_of(m, _elements(m, sources[1], fmt), shape.b)
        c = _elements(m, sources[2], out)
        product = m.domain.matmul(a, b)
        undefined_out = None
        if abad is not None or bbad is not None:
            undefined_out = spread(abad, bbad, product.shape)
        results = []
        for i, (rows, cols) in enumerate(shape.c):
            v = product.reshape((-1, *product.shape[-2:]))[:, rows, cols].reshape((m.lanes,))
            part: Real[Any] = m.reals.symbolic(v)
            if undefined_out is not None:
                ids = np.where(undefined_out[:, rows, cols].reshape(-1), UNDEF, SYMBOLIC)
                part = m.reals.mixed(v, ids.astype(np.int32))
            total = m.reals.add(part, c[i])
            check_magic(m, out, part, c[i], total)
            total.fmt = out
            results.append(total)
        _deliver(m, dsts, results, out)

    return run


def _deliver(m: Machine, dsts: list[int], results: list[Any], out: str) -> None:
    if out == "f32":
        for dst, r in zip(dsts, results, strict=True):
            put(m, dst, r)
        return
    for i, dst in enumerate(dsts):
        put(m, dst, Packed(results[2 * i], results[2 * i + 1]))


def _elements(m: Machine, slots: list[int], fmt: str) -> list[Any]:
    """The reals of a fragment, in order."""
    if fmt == "f32":
        return [m.real(m.regs[s], fmt) for s in slots]
    return [m.real(half, fmt) for s in slots for half in m.halves(m.regs[s])]


def arranged(m: Machine, parts: Any, index: tuple[Array, Array]) -> Any:
    """Elements (number, lane) as (warps, rows, columns)."""
    which, lanes = index
    warps = np.arange(m.lanes // 32)[:, None, None]
    return parts.reshape((parts.shape[0], m.lanes // 32, 32))[which[None], warps, lanes[None]]


def matrix_of(m: Machine, parts: list[R], index: tuple[Array, Array]) -> tuple[Any, Bool | None]:
    """A (warps, rows, columns) matrix of the domain, and its undefined elements or None."""
    n = m.lanes
    parts = [m.reals.settled(r) for r in parts]
    values = []
    for r in parts:
        v = m.reals.value(r)
        values.append(v[np.zeros(n, np.int64)] if v.shape == (1,) and n != 1 else v)
    matrix = arranged(m, m.domain.stack(values), index)
    bad = None
    if any(r.c is not None for r in parts):
        ids = np.stack([np.broadcast_to(m.reals.ids(r, (n,)), (n,)) for r in parts])
        group = m.group()
        special = (((ids >= 0) & (ids < FINITE) & (ids != UNDEF)) | (ids >= CASED)) & group
        if special.any():
            raise Unsupported("infinity", "an infinity or NaN enters mma")
        gone = ids == UNDEF
        if gone.any():
            bad = arranged(m, gone, index)
    return matrix, bad


def spread(abad: Bool | None, bbad: Bool | None, shape: tuple[int, ...]) -> Bool:
    """Elements of a product that an undefined element of a factor reaches."""
    out = np.zeros(shape, bool)
    if abad is not None:
        out |= np.asarray(abad.any(2))[:, :, None]
    if bbad is not None:
        out |= np.asarray(bbad.any(1))[:, None, :]
    return out


WARP_BUILDERS: dict[str, Builder] = {
    "shfl": _shfl,
    "vote": _vote,
    "vote.ballot": _vote,
    "ldmatrix": _ldmatrix,
    "mma": _mma,
}
