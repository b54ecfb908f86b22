"""Registers read as what an instruction wants, and written under a mask."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kcheck.canon.constants import ONE, SYMBOLIC, UNDEF, ZERO
from kcheck.canon.domain import Domain
from kcheck.canon.real import SYM, Real, Reals
from kcheck.semantics.codec import Codec
from kcheck.semantics.units import undefined
from kcheck.semantics.values import (
    FMT_BYTES,
    UNSIGNED,
    Array,
    Bool,
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


class Conversions:
    """The part of the machine that knows the kinds of register values."""

    reals: Reals[Any]
    codec: Codec
    domain: Domain[Any]
    mask: Bool | None
    notmask: Bool | None
    everyone: Bool | None
    lanes: int

    def live(self, u: Bool | None) -> Bool | None:
        """Undefined lanes of the running group, or None."""
        if u is None or u is self.notmask:
            return None
        if self.mask is None:
            return u if u.any() else None
        return u if (u & self.mask).any() else None

    # reading

    def integer(self, x: Any, size: int) -> Int:
        """The register as `size` bytes of concrete bits."""
        if type(x) is Int:
            a = x.a if x.a.itemsize == size else x.a.astype(UNSIGNED[size])
            return Int(a, x.p, self.live(x.u))
        if x is None:
            return undefined(size)
        if type(x) is Real:
            return self._real_bits(x, size)
        if type(x) is Packed:
            if size != 4:
                raise Unsupported("reinterpret", f"two 16-bit halves are read as {size} bytes")
            lo, hi = self.integer(x.lo, 2), self.integer(x.hi, 2)
            whole = lo.a.astype(np.uint32) | hi.a.astype(np.uint32) << np.uint32(16)
            return Int(whole, None, either(either(lo.u, hi.u), self.live(x.u)))
        if type(x) is Mixed:
            return self._resolve(x, lambda v: self.integer(v, size), self._where_int)
        raise self._unreadable(x, "an integer")

    def _real_bits(self, x: Real[Any], size: int) -> Int:
        if x.fmt not in FMT_BYTES:
            raise Unsupported("symbolic-int", "arithmetic on an integer input without `values:`")
        if FMT_BYTES[x.fmt] != size:
            raise Unsupported("reinterpret", f"an {x.fmt} is read as {size} bytes")
        ids = self.reals.ids(x, (self.lanes,))
        gone = either(self.live(x.u), ids == UNDEF)
        live: Any = True if self.mask is None else self.mask
        bits = self.codec.to_bits(ids, x.fmt, live & ~gone if gone is not None else live)
        return Int(bits, None, self.live(gone))

    def real(self, x: Any, fmt: str) -> Real[Any]:
        """The register as reals of a format."""
        if type(x) is Real:
            if x.fmt == fmt:
                u = self.live(x.u)
                return x if u is None and x.u is None else self._fold(x, u)
            if x.kind == SYM or FMT_BYTES.get(x.fmt) != FMT_BYTES[fmt]:
                raise Unsupported("reinterpret", f"an {x.fmt} is read as {fmt}")
        if type(x) is Mixed:
            return self._resolve(x, lambda v: self.real(v, fmt), self._where_real)
        if type(x) in (Unstable, Pred, Part):
            raise self._unreadable(x, "a float")
        if type(x) is Packed and fmt == "f32":
            widened = self._widened(x)
            if widened is not None:
                return widened
        bits = self.integer(x, FMT_BYTES[fmt])
        ids = self.codec.to_ids(bits.a, fmt)
        if bits.u is not None:
            ids = np.where(bits.u, UNDEF, ids).astype(np.int32)
        real = self.reals.from_ids(ids)
        real.fmt = fmt
        return real

    def _widened(self, x: Packed) -> Real[Any] | None:
        """A bf16 above 16 zeros is the f32 of the same value."""
        lo, hi = self.halves(x)
        if type(hi) is not Real or hi.fmt != "bf16" or type(lo) is not Int:
            return None
        if lo.a.any() or lo.u is not None:
            return None
        real = self._fold(hi, self.live(hi.u))
        real.fmt = "f32"
        return real

    def _fold(self, x: Real[Any], u: Bool | None) -> Real[Any]:
        """The undefined lanes as constants."""
        if u is None:
            return Real(x.v, x.c, x.kind, x.fmt)
        ids = np.where(u, UNDEF, self.reals.ids(x, (self.lanes,))).astype(np.int32)
        real = self.reals.mixed(x.v, ids)
        real.fmt = x.fmt
        return real

    def halves(self, x: Any) -> tuple[Any, Any]:
        """The lower and the upper 16 bits of a 32-bit register, as `Int`s or `Real`s."""
        if type(x) is Packed:
            u = self.live(x.u)
            if u is None:
                return x.lo, x.hi
            return self._gone(x.lo, u), self._gone(x.hi, u)
        if type(x) is Mixed:
            pairs = [(m, self.halves(v)) for m, v in self.live_parts(x)]
            lo = Mixed([(m, pair[0]) for m, pair in pairs])
            hi = Mixed([(m, pair[1]) for m, pair in pairs])
            return (lo, hi) if len(pairs) > 1 else pairs[0][1]
        whole = self.integer(x, 4)
        lo_bits = whole.a.astype(np.uint16)
        hi_bits = (whole.a >> np.uint32(16)).astype(np.uint16)
        return Int(lo_bits, None, whole.u), Int(hi_bits, None, whole.u)

    def _gone(self, x: Any, u: Bool) -> Any:
        if type(x) is Int:
            return Int(x.a, None, either(x.u, u))
        real: Real[Any] = Real(x.v, x.c, x.kind, x.fmt)
        real.u = either(x.u, u)
        return real

    def predicate(self, x: Any) -> Pred:
        """The register as a predicate; undefined lanes in `u`."""
        if type(x) is Pred:
            return Pred(x.b, x.s, x.v, self.live(x.u))
        if x is None:
            return Pred(np.zeros(1, bool), None, None, np.ones(1, bool))
        raise self._unreadable(x, "a predicate")

    def concrete(self, x: Any, what: str) -> Bool:
        """A predicate that must be concrete where the group is; `what` names the use."""
        p = x if type(x) is Pred and x.s is None and x.u is None else self.predicate(x)
        if p.s is not None:
            symbolic = p.s if self.mask is None else p.s & self.mask
            if symbolic.any():
                raise Unsupported(what, "the predicate depends on a tensor value")
        if p.u is not None:
            lanes = np.broadcast_to(p.u, (self.lanes,))
            lanes = lanes if self.mask is None else lanes & self.mask
            self.fault(f"undefined.{what}", lanes, "the predicate is undefined")
            return p.b & ~p.u
        return p.b

    def fault(self, reason: str, lanes: Bool, message: str, at: int | None = None) -> None:
        """Note a defect (the machine's)."""
        raise NotImplementedError

    def _unreadable(self, x: Any, wanted: str) -> Unsupported:
        if type(x) is Unstable:
            return Unsupported(
                "unstable", f"{x.what} depends on the schedule and is used as {wanted}"
            )
        if type(x) is Symbolic:
            return Unsupported("symbolic-int", f"an integer of the inputs is used as {wanted}")
        what = "half of an f64" if type(x) is Part else "a predicate"
        return Unsupported("reinterpret", f"{what} is used as {wanted}")

    def joined(self, x: Any, y: Any) -> Real[Any] | None:
        """The f64 of its two halves, or None if these are not that."""
        parts = []
        for half in (x, y):
            live = self.live_parts(half) if type(half) is Mixed else [(None, half)]
            if len(live) != 1 or type(live[0][1]) is not Part:
                return None
            parts.append(live[0][1])
        a, b = parts[0].real, parts[1].real
        if (parts[0].index, parts[1].index) != (0, 1) or not self._same(a, b):
            return None
        real: Real[Any] = Real(a.v, a.c, a.kind, a.fmt)
        real.u = either(a.u, b.u)
        return real

    def _same(self, a: Real[Any], b: Real[Any]) -> bool:
        """Equal in every lane of the group."""
        if a is b:
            return True
        equal = self.reals.ids(a, (self.lanes,)) == self.reals.ids(b, (self.lanes,))
        equal = equal & self.domain.equal(self.reals.value(a), self.reals.value(b))
        return bool((equal if self.mask is None else equal | ~self.mask).all())

    def live_parts(self, x: Mixed) -> list[tuple[Bool, Any]]:
        """The parts that the running group sees, each with its own lanes only."""
        out: list[tuple[Bool, Any]] = []
        seen: Bool = np.zeros(self.lanes, bool) if self.mask is None else ~self.mask
        for part, value in reversed(x.parts):
            own = part & ~seen
            if own.any():
                out.append((own, value))
            seen = seen | part
        return out[::-1]

    def _resolve(self, x: Mixed, read: Any, where: Any) -> Any:
        parts = self.live_parts(x)
        mask, notmask = self.mask, self.notmask
        merged = read(None)
        for own, value in parts:
            self.mask, self.notmask = own, ~own
            try:
                merged = where(own, read(value), merged)
            finally:
                self.mask, self.notmask = mask, notmask
        return merged

    def by_part(self, xs: list[Any], function: Callable[[list[Any]], Any]) -> Any:
        """A function of registers, applied apart to each part of those that are `Mixed`."""
        at = next((i for i, x in enumerate(xs) if type(x) is Mixed), None)
        if at is None:
            return function(xs)
        outer = self.mask, self.notmask
        merged = None
        for own, value in self.live_parts(xs[at]):
            self.mask, self.notmask = own, ~own
            try:
                part = self.by_part([*xs[:at], value, *xs[at + 1 :]], function)
                merged = self.merge(merged, part)
            finally:
                self.mask, self.notmask = outer
        return merged

    # writing

    def merge(self, old: Any, new: Any) -> Any:
        """`new` in the lanes of the group, `old` elsewhere."""
        if self.mask is self.everyone:
            return new
        mask, notmask = self.mask, self.notmask
        assert mask is not None
        assert notmask is not None
        if old is None and type(new) is not Unstable:
            return self._first(new, notmask)
        if type(old) is type(new):
            merged = self._where(mask, new, old)
            if merged is not None:
                return merged
        parts = _within(old, notmask) + _within(new, mask)
        return Mixed(parts)

    def _first(self, new: Any, notmask: Bool) -> Any:
        """A first write under a mask: the other lanes are undefined."""
        if type(new) is Int:
            return Int(new.a, new.p, either(new.u, notmask))
        if type(new) is Pred:
            return Pred(new.b, new.s, new.v, either(new.u, notmask))
        if type(new) is Packed:
            packed = Packed(new.lo, new.hi)
            packed.u = either(new.u, notmask)
            return packed
        if type(new) is Real:
            real: Real[Any] = Real(new.v, new.c, new.kind, new.fmt)
            real.u = either(new.u, notmask)
            return real
        if type(new) is Part:
            return Part(self._first(new.real, notmask), new.index)
        if type(new) is Symbolic:
            return Symbolic(new.n, new.step, new.size, new.base, either(new.u, notmask))
        assert type(new) is Mixed
        return Mixed([(m & ~notmask, v) for m, v in new.parts])

    def _where(self, mask: Bool, new: Any, old: Any) -> Any:
        """Two values of one kind merged; None if their formats differ."""
        if type(new) is Int:
            return self._where_int(mask, new, old) if new.a.dtype == old.a.dtype else None
        if type(new) is Real:
            return self._where_real(mask, new, old) if new.fmt == old.fmt else None
        if type(new) is Pred:
            return self._where_pred(mask, new, old)
        if type(new) is Symbolic and new.base is None and old.base is None:
            n, step = self.reals.where(mask, new.n, old.n), math.gcd(new.step, old.step)
            u = self._where_u(mask, new.u, old.u)
            return Symbolic(n, step, new.size, None, u) if new.size == old.size else None
        if type(new) is Part and new.index == old.index:
            return Part(self._where_real(mask, new.real, old.real), new.index)
        if type(new) is Packed and type(new.lo) is type(old.lo) and type(new.hi) is type(old.hi):
            lo = self._where(mask, new.lo, old.lo)
            hi = self._where(mask, new.hi, old.hi)
            if lo is None or hi is None:
                return None
            packed = Packed(lo, hi)
            packed.u = self._where_u(mask, new.u, old.u)
            return packed
        return None

    @staticmethod
    def _where_u(mask: Bool, new: Bool | None, old: Bool | None) -> Bool | None:
        if new is None and old is None:
            return None
        u = np.where(mask, False if new is None else new, False if old is None else old)
        return u if u.any() else None

    def _where_int(self, mask: Bool, new: Int, old: Int) -> Int:
        p: int | Array | None = None
        if new.p is not None or old.p is not None:
            if isinstance(new.p, int) and isinstance(old.p, int) and new.p == old.p:
                p = new.p
            else:
                p = np.where(
                    mask,
                    -1 if new.p is None else new.p,
                    -1 if old.p is None else old.p,
                )
        return Int(np.where(mask, new.a, old.a), p, self._where_u(mask, new.u, old.u))

    def _where_real(self, mask: Bool, new: Real[Any], old: Real[Any]) -> Real[Any]:
        merged = self.reals.where(mask, new, old)
        merged.fmt = new.fmt
        merged.u = self._where_u(mask, new.u, old.u)
        return merged

    def _where_pred(self, mask: Bool, new: Pred, old: Pred) -> Pred:
        b = np.where(mask, new.b, old.b)
        u = self._where_u(mask, new.u, old.u)
        s = self._where_u(mask, new.s, old.s)
        if s is None:
            return Pred(b, None, None, u)
        zero = self.reals.value(self.reals.constant(0))
        v = self.domain.where(
            mask, zero if new.v is None else new.v, zero if old.v is None else old.v
        )
        return Pred(b, s, v, u)

    def indicator(self, p: Pred) -> Any:
        """The domain's indicator of a predicate, concrete lanes included."""
        concrete = self.reals.from_ids(np.where(p.b, ONE, ZERO).astype(np.int32))
        if p.s is None:
            return self.reals.value(concrete)
        return self.domain.where(p.s, p.v, self.reals.value(concrete))

    def symbolic_lanes(self, x: Real[Any]) -> Bool:
        """Lanes whose value only the domain knows."""
        return np.ones(1, bool) if x.c is None else x.c == SYMBOLIC


def _within(x: Any, lanes: Bool) -> list[tuple[Bool, Any]]:
    """A register as disjoint parts in these lanes; one part for each value that is seen."""
    if type(x) is not Mixed:
        return [(lanes, x)]
    seen = ~lanes
    out: dict[int, tuple[Bool, Any]] = {}
    for part, value in reversed(x.parts):
        own = part & ~seen
        seen = seen | part
        if own.any():
            known = out.get(id(value))
            out[id(value)] = (own if known is None else known[0] | own, value)
    return list(out.values())
