"""Registers written under a mask: what was there before stays in the other lanes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kcheck.canon.domain import Domain
from kcheck.canon.lanes import Real
from kcheck.canon.real import Reals
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
    either,
)
from kcheck.semantics.words import Source


class Merging:
    """The part of the machine that merges registers, lane by lane."""

    reals: Reals[Any]
    domain: Domain[Any]
    mask: Bool | None
    notmask: Bool | None
    everyone: Bool | None

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
            u = either(new.u, notmask)
            return Symbolic(new.size, new.source, word=new.word, step=new.step, base=new.base, u=u)
        if type(new) is Choice:
            return Choice(new.p, self._first(new.yes, notmask), self._first(new.no, notmask))
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
        if type(new) is Symbolic:
            return self._where_symbolic(mask, new, old)
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

    def _where_symbolic(self, mask: Bool, new: Symbolic, old: Symbolic) -> Symbolic | None:
        """None where one is an address, or their bits come from elsewhere: these stay apart."""
        if new.base or old.base or new.size != old.size:
            return None
        u = self._where_u(mask, new.u, old.u)
        if new.word is not None and old.word is not None and new.word.like(old.word):
            pairs = zip(new.word.pieces, old.word.pieces, strict=True)
            pieces = (
                p._replace(source=Source(self.reals.where(mask, p.source.n, q.source.n)))
                for p, q in pairs
            )
            return Symbolic(new.size, None, word=new.word._replace(pieces=tuple(pieces)), u=u)
        if new.word is not None or old.word is not None or not (new.source and old.source):
            return None
        n = self.reals.where(mask, new.source.n, old.source.n)
        return Symbolic(new.size, Source(n), step=math.gcd(new.step, old.step), u=u)

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
