"""Registers read as what an instruction wants."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from kcheck.canon.constants import CASED, ONE, SYMBOLIC, UNDEF, ZERO
from kcheck.canon.domain import Domain
from kcheck.canon.lanes import SYM, Real
from kcheck.canon.real import Reals
from kcheck.semantics.codec import Codec
from kcheck.semantics.merging import Merging
from kcheck.semantics.units import real_width, undefined
from kcheck.semantics.values import (
    EXACT,
    FMT_BYTES,
    FRACTION,
    UNSIGNED,
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
from kcheck.semantics.words import Source, number


class Conversions(Merging):
    """The part of the machine that reads registers."""

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
        if type(x) is Symbolic and x.base is None and x.size == size:
            return self._decided(x, size)
        raise self._unreadable(x, "an integer")

    def _decided(self, x: Symbolic, size: int) -> Int:
        """A symbolic integer that can be one number only in each lane."""
        if x.source is None:
            assert x.word is not None
            x.source = Source(number(self.reals, x.word))
        u = self.live(x.u)
        numbers = self.points(x.source.n, u)
        if numbers is None:
            raise self._unreadable(x, "an integer")
        return Int(numbers.astype(UNSIGNED[size]), None, u)

    def points(self, n: Real[Any], u: Bool | None = None) -> Array | None:
        """The integers that `n` must be in the lanes of the group but `u`; None if it isn't so."""
        low, high = (np.broadcast_to(e, (self.lanes,)) for e in self.reals.ends(n))
        live = np.ones(self.lanes, bool) if self.mask is None else self.mask
        live = live if u is None else live & ~u
        if not ((low == high) & (abs(low) < EXACT))[live].all():
            return None
        return np.where(live, low, 0).astype(np.int64)

    def _real_bits(self, x: Real[Any], size: int) -> Int:
        if x.fmt not in FMT_BYTES:
            return self._decided(Symbolic(real_width(x.fmt), Source(x), u=x.u), size)
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
        if type(x) is Choice:
            return self._chosen_real(x, fmt)
        if type(x) in (Unstable, Pred, Part):
            raise self._unreadable(x, "a float")
        if type(x) is Packed and fmt == "f32":
            widened = self._widened(x)
            if widened is not None:
                return widened
        if type(x) is Symbolic and x.size == FMT_BYTES[fmt]:
            return self._of_word(x, fmt)
        bits = self.integer(x, FMT_BYTES[fmt])
        ids = self.codec.to_ids(bits.a, fmt)
        if bits.u is not None:
            ids = np.where(bits.u, UNDEF, ids).astype(np.int32)
        real = self.reals.from_ids(ids)
        real.fmt = fmt
        return real

    def _chosen_real(self, x: Choice, fmt: str) -> Real[Any]:
        real = self.select_reals(x.p, self.real(x.yes, fmt), self.real(x.no, fmt))
        real.fmt = fmt
        return real

    def _of_word(self, x: Symbolic, fmt: str) -> Real[Any]:
        """The float whose sign and exponent are constant bits; the fraction may be any bits.

        Compilers make floats of small integers so: 0x6400 | n is the f16 of 1024 + n.
        """
        bits, fraction = 8 * x.size, FRACTION[fmt]
        top = None if x.word is None else x.word.field(fraction, bits - fraction, bits)
        lanes = self.live(x.u)
        exponent = 0 if top is None else top.ones & (1 << bits - 1 - fraction) - 1
        if top is None or top.pieces or lanes is not None or exponent == 0:
            raise self._unreadable(x, f"an {fmt}")
        if exponent == (1 << bits - 1 - fraction) - 1:
            raise self._unreadable(x, f"an {fmt}")
        assert x.word is not None
        mantissa = number(self.reals, x.word.field(0, fraction, fraction))
        mantissa = self.reals.add(mantissa, self.reals.constant(1 << fraction))
        bias = (1 << bits - 2 - fraction) - 1 + fraction
        scale = Fraction(2) ** (exponent - bias) * (-1 if top.ones >> bits - 1 - fraction else 1)
        real = self.reals.mul(mantissa, self.reals.constant(scale))
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
        if type(x) is Real and x.fmt not in FMT_BYTES and real_width(x.fmt) == 4:
            x = Symbolic(4, Source(x), u=x.u)
        if type(x) is Symbolic and x.size == 4 and x.base is None:
            fields = (x.bits.field(at, 16, 16) for at in (0, 16))
            low, high = (Symbolic(2, None, word=word, u=x.u) for word in fields)
            return low, high
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
        if type(x) is Choice:
            return Unsupported("symbolic-int", f"a tensor value chooses what is used as {wanted}")
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

    def indicator(self, p: Pred) -> Any:
        """The domain's indicator of a predicate, concrete lanes included."""
        concrete = self.reals.from_ids(np.where(p.b, ONE, ZERO).astype(np.int32))
        if p.s is None:
            return self.reals.value(concrete)
        return self.domain.where(p.s, p.v, self.reals.value(concrete))

    def select_reals(self, p: Pred, x: Real[Any], y: Real[Any]) -> Real[Any]:
        """`x` where p holds, else `y`; neither has undefined lanes in `u`. No format is set."""
        selected = self.reals.select(self.indicator(p), x, y)
        if p.s is None or p.s.all():
            return selected if p.s is not None else self.reals.where(p.b, x, y)
        return self.reals.where(p.s, selected, self.reals.where(p.b, x, y))

    def symbolic_lanes(self, x: Real[Any]) -> Bool:
        """Lanes whose value depends on inputs."""
        return np.ones(1, bool) if x.c is None else (x.c == SYMBOLIC) | (x.c >= CASED)
