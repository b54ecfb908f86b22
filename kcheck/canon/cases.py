"""Lanes that are infinite, or no number, on a condition: -inf where an input masks a score.

An id from `CASED` on, in place of a constant's, names a list of (condition, special): the first
condition that holds says what the lane is; where none does, the domain's value counts. (A guard's
number, `m == -inf ? 0 : m`, may stand there as well: most often nothing is left of it.) A condition
is a set of indicators that are all 1; the empty one (0) always holds. Operations go through the
entries by the rules of `canon.folding`; an entry that becomes a number enters the domain's value as
a select (docs/exact-proofs.md, "Infinities that a tensor chooses").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.constants import (
    CASED,
    FINITE,
    MASKED,
    NAN,
    NAN_DIV,
    NINF,
    ONE,
    SYMBOLIC,
    UNDEF,
    UNKNOWN,
    ZERO,
)
from kcheck.canon.domain import Domain, Store, V
from kcheck.canon.folding import TAKE_A, TAKE_B

Ids = NDArray[Any]
Entry = tuple[int, int]  # a condition, and a constant's id or where the value comes from
ALWAYS = 0
# the operation needs its arguments as the domain's values alone
SETTLE = -9
# the id of an entry that is given in the domain: the operation's result
_FROM_DOMAIN = (SYMBOLIC, TAKE_A, TAKE_B)
# results of a comparison (`Folding.compare`) as ids, and back
TRUTHS = {-1: SYMBOLIC, 0: ZERO, 1: ONE, 2: UNDEF, 3: UNKNOWN}
KNOWN = {ident: known for known, ident in TRUTHS.items()}


@dataclass(frozen=True)
class Outcome:
    """A result: its id; what the value is (`base`) unless a condition of `steps` holds, the first
    of which counts; and the conditions on which the arguments of a maximum are -inf.
    """

    id: int
    base: int
    steps: tuple[Entry, ...] = ()
    hidden: tuple[int, int] = (-1, -1)


class Cases(Generic[V]):
    """The conditions and lists of one `Reals`."""

    def __init__(self, domain: Domain[V]) -> None:
        self.domain = domain
        self.lists: list[tuple[Entry, ...]] = []
        # lists that say -inf where the value is below all numbers anyway, or +inf where it is above
        self._far: list[bool] = []
        self._lists: dict[tuple[tuple[Entry, ...], bool], int] = {}
        self._conditions: list[frozenset[int]] = [frozenset()]
        self._ids: dict[frozenset[int], int] = {frozenset(): ALWAYS}
        # what holds where an indicator does not
        self._opposite: dict[int, frozenset[int]] = {}
        self._named: dict[tuple[int, int], int] = {}
        # conditions that are the outcome of a comparison
        self._truths: set[int] = set()
        # the indicator of each condition, once there is one but the empty one
        self._indicators: Store[V] | None = None
        self._room = 0
        self._literals = 0
        self._memo: dict[Any, Outcome] = {}

    # conditions

    def conditions(self, p: V) -> tuple[Ids, Ids] | None:
        """The condition that an indicator is 1, and that it is 0, lane by lane; None if the domain
        can't tell indicators apart.
        """
        self._name_truths()
        both = []
        for q in (p, self.domain.sub(self._one(), p)):
            names = self.domain.identities(q)
            if names is None:
                return None
            both.append(self._literal(q, names))
        for yes, no in set(zip(both[0].ravel().tolist(), both[1].ravel().tolist(), strict=True)):
            for x, y in ((yes, no), (no, yes)):
                if len(self._conditions[x]) == 1:
                    self._opposite[min(self._conditions[x])] = self._conditions[y]
        return both[0], both[1]

    def _name_truths(self) -> None:
        """Know the conditions that comparisons gave when they come back as predicates."""
        if self._truths:
            ids = np.array(sorted(self._truths), np.int64)
            names = self.domain.identities(self.indicator(ids))
            self._truths.clear()
            if names is not None:
                for key, found in zip(names.T.tolist(), ids.tolist(), strict=True):
                    self._named.setdefault((key[0], key[1]), found)

    def _one(self) -> V:
        return self.domain.constants([Fraction(1)], np.zeros(1, np.int64))

    def _literal(self, p: V, names: Ids) -> Ids:
        pairs, first, index = np.unique(
            names.reshape(2, -1), axis=1, return_index=True, return_inverse=True
        )
        keys = list(zip(*pairs.tolist(), strict=True))
        new = [i for i, key in enumerate(keys) if key not in self._named]
        for i in new:
            self._literals += 1
            self._named[keys[i]] = self._condition(frozenset([self._literals]))
        if new:
            made = np.array([self._named[keys[i]] for i in new], np.int64)
            self._put(made, p.reshape((-1,))[first[new]])  # type: ignore[arg-type]
        ids: Ids = np.array([self._named[key] for key in keys], np.int64)[index.reshape(-1)]
        return ids.reshape(names.shape[1:])

    def _condition(self, literals: frozenset[int]) -> int:
        found = self._ids.get(literals)
        if found is None:
            found = self._ids[literals] = len(self._conditions)
            self._conditions.append(literals)
        return found

    def _put(self, ids: Ids, values: V) -> None:
        if len(self._conditions) > self._room:
            old, kept = self._indicators, np.arange(self._room)
            room = 2 * len(self._conditions)
            store = self._indicators = self.domain.store(room)
            if old is None:
                store.write(np.zeros(1, np.int64), self._one())
            else:
                store.write(kept, old.read(kept))
            self._room = room
        assert self._indicators is not None
        self._indicators.write(ids, values)

    def indicator(self, conditions: Ids) -> V:
        """1 where all of a condition holds."""
        assert self._indicators is not None
        return self._indicators.read(conditions)

    def both(self, a: int, b: int) -> int | None:
        """The condition that two hold; None if they can't."""
        x, y = self._conditions[a], self._conditions[b]
        union = x | y
        if any(self._opposite.get(i, {0}) <= union for i in union):
            return None
        if union in (x, y):
            return a if union == x else b
        found = self._ids.get(union)
        if found is None:
            rest = self._all(y - x)
            found = self._condition(union)
            at = np.array([a, rest], np.int64)
            product = self.domain.mul(self.indicator(at[:1]), self.indicator(at[1:]))
            self._put(np.array([found]), product)
        return found

    def _all(self, literals: frozenset[int]) -> int:
        """The condition that these hold."""
        found = ALWAYS
        for literal in sorted(literals):
            joined = self.both(found, self._ids[frozenset([literal])])
            assert joined is not None
            found = joined
        return found

    def _implies(self, a: int, b: int) -> bool:
        return self._conditions[b] <= self._conditions[a]

    # lists

    def entries(self, ident: int) -> tuple[Entry, ...]:
        """What a lane is: the last entry always holds."""
        if ident < CASED:
            return ((ALWAYS, ident),)
        found = self.lists[ident - CASED]
        return found if found[-1][0] == ALWAYS else (*found, (ALWAYS, SYMBOLIC))

    def _listed(self, entries: tuple[Entry, ...], far: bool = False) -> int:
        key = entries, far
        if key not in self._lists:
            self._lists[key] = CASED + len(self.lists)
            self.lists.append(entries)
            self._far.append(far)
        return self._lists[key]

    def numbers(self, ident: int) -> bool:
        """Does a list say of some condition that the lane is a number?"""
        return ident >= CASED and any(x >= FINITE for _, x in self.lists[ident - CASED])

    def agree(self, a: int, b: int) -> bool:
        """Is b a number wherever a is one, and the same infinity or NaN where a is no number?

        Where a is NaN, b may be anything.
        """
        x, y = ([e for e in self.entries(i) if e[1] != SYMBOLIC and e[1] < FINITE] for i in (a, b))
        if x == y:
            return True
        if any(special != NAN for _, special in (*x, *y)):
            return False
        return all(any(self._implies(c, d) for d, _ in x) for c, _ in y)

    # operations

    def unary(self, name: str, a: int, fold: Callable[[int], int]) -> Outcome:
        """A function of one argument."""
        rows = ((c, x if x == SYMBOLIC else fold(x)) for c, x in self.entries(a))
        made = self._once((name, a), rows)
        if name == "neg" and a >= CASED and self._far[a - CASED]:
            return replace(made, id=self._listed(self.lists[made.id - CASED], far=True))
        return made

    def settled(self, a: int) -> Outcome:
        """The same without numbers on conditions."""
        return self._once(("settled", a), self.entries(a))

    def binary(self, name: str, a: int, b: int, fold: Callable[[int, int], int]) -> Outcome:
        """A function of two arguments."""
        if name.startswith("max") and (a >= CASED or b >= CASED):
            made = self._maximum(a, b)
            if made is not None:
                return made
        listed = self.numbers(a) or self.numbers(b)

        def result(c: int, x: int, d: int, y: int) -> int:
            made = fold(x, y)
            inside = (c != ALWAYS and x >= FINITE) or (d != ALWAYS and y >= FINITE)
            return SETTLE if listed and inside and made in _FROM_DOMAIN else made

        rows = (
            (self.both(c, d), result(c, x, d, y))
            for c, x in self.entries(a)
            for d, y in self.entries(b)
        )
        return self._once((name, a, b), rows)

    def _maximum(self, a: int, b: int) -> Outcome | None:
        """Of what is -inf or a number: below all numbers where it is -inf."""
        ends = [self.entries(i) for i in (a, b)]
        for end in ends:
            if any(x != NINF for _, x in end[:-1]) or len(end) > 2:
                return None
        if NINF in (a, b):
            return Outcome(b, TAKE_B) if a == NINF else Outcome(a, TAKE_A)
        if any(0 <= end[-1][1] < FINITE for end in ends):
            return None
        far = [i >= CASED and self._far[i - CASED] for i in (a, b)]
        hidden = [
            -1 if len(end) == 1 or low else end[0][0] for end, low in zip(ends, far, strict=True)
        ]
        condition = self.both(ends[0][0][0], ends[1][0][0]) if a >= CASED and b >= CASED else None
        ident = SYMBOLIC if condition is None else self._listed(((condition, NINF),), far=True)
        return Outcome(ident, SYMBOLIC, (), (hidden[0], hidden[1]))

    def select(self, yes: int, no: int, a: int, b: int) -> Outcome:
        """a where one condition holds, b where its opposite does."""
        if a == b and a >= CASED:
            return Outcome(a, SYMBOLIC)
        if FINITE <= a < CASED and self.entries(b) == ((yes, NINF), (ALWAYS, SYMBOLIC)):
            return Outcome(self._listed(((yes, a),)), TAKE_B)
        if FINITE <= b < CASED and self.entries(a) == ((no, NINF), (ALWAYS, SYMBOLIC)):
            return Outcome(self._listed(((no, b),)), TAKE_A)
        key = ("select", yes, no, a, b)
        if key in self._memo:
            return self._memo[key]
        rows, numbers = [], []
        for condition, ident, take in ((yes, a, TAKE_A), (no, b, TAKE_B)):
            for c, x in self.entries(ident):
                if x == SYMBOLIC or x >= FINITE:
                    numbers.append(take)
                else:
                    rows.append((self.both(condition, c), x))
        base = SYMBOLIC if len(numbers) == 2 else numbers[0] if numbers else ZERO
        return self._once(key, [*rows, (ALWAYS, base)])

    def _once(self, key: Any, rows: Iterable[tuple[int | None, int]]) -> Outcome:
        if key not in self._memo:
            self._memo[key] = self._outcome(self._reached(rows))
        return self._memo[key]

    def _reached(self, rows: Iterable[tuple[int | None, int]]) -> list[Entry]:
        """The entries that some input can reach, those that repeat a later one left out."""
        kept: list[Entry] = []
        for condition, x in rows:
            if condition is None or any(self._implies(condition, c) for c, _ in kept):
                continue
            kept.append((condition, x))
        for i in range(len(kept) - 2, -1, -1):
            condition, x = kept[i]
            for later, y in kept[i + 1 :]:
                if y == x and self._implies(condition, later):
                    del kept[i]
                elif y == x or self.both(condition, later) is None:
                    continue
                break
        return kept

    def _outcome(self, rows: list[Entry]) -> Outcome:
        if any(x == SETTLE for _, x in rows):
            return Outcome(SYMBOLIC, SETTLE)
        for bad in (UNDEF, UNKNOWN, NAN_DIV):
            if any(x == bad for _, x in rows):
                return Outcome(UNDEF if bad == UNDEF else UNKNOWN, ZERO)
        specials = [(i, e) for i, e in enumerate(rows) if 0 <= e[1] < FINITE]
        steps = [(i, e) for i, e in enumerate(rows[:-1]) if not 0 <= e[1] < FINITE]
        for i, (condition, _) in steps:
            if any(j > i and self.both(condition, e[0]) is not None for j, e in specials):
                return Outcome(UNKNOWN, ZERO)
        last = rows[-1][1]
        base = ZERO if 0 <= last < FINITE else last
        ident = self._listed(tuple(e for _, e in specials)) if specials else SYMBOLIC
        if specials and specials[0][1][0] == ALWAYS:
            ident = specials[0][1][1]
        if not specials and not steps and base >= FINITE:
            ident = base
        return Outcome(ident, base, tuple(e for _, e in steps))

    # values

    def value(
        self,
        outcomes: list[Outcome],
        index: Ids,
        args: tuple[V, ...],
        op: Callable[..., V],
        image: Callable[[Ids], V],
    ) -> V:
        """The domain's value of outcome `index[i]` in lane i; the arguments have all lanes."""
        used = [outcomes[i] for i in np.unique(index).tolist()]
        hidden = np.array([o.hidden for o in outcomes], np.int64)[index]
        if (hidden >= 0).any():
            masked = (self._hide(x, hidden[..., i]) for i, x in enumerate(args))
            result = op(*masked)
        elif any(SYMBOLIC in (o.base, *(x for _, x in o.steps)) for o in used):
            result = op(*args)
        else:
            result = args[0]

        def source(x: int) -> V:
            if x in _FROM_DOMAIN:
                return (result, args[0], args[-1])[_FROM_DOMAIN.index(x)]
            return image(np.full(index.shape, x, np.int32))

        out = result
        patterns = [(o.base, *(x for _, x in o.steps)) for o in outcomes]
        made = list(zip(outcomes, patterns, strict=True))
        for pattern in sorted({patterns[i] for i in np.unique(index).tolist()}):
            here = np.array([p == pattern for p in patterns])[index]
            value = source(pattern[0])
            for k in range(len(pattern) - 2, -1, -1):
                at = [o.steps[k][0] if p == pattern else ALWAYS for o, p in made]
                condition = self.indicator(np.array(at, np.int64)[index])
                if pattern in ((ZERO, ONE), (ONE, ZERO)):  # truth values: the indicator itself
                    self._truths.update(at)
                    value = condition if pattern[0] == ZERO else self.domain.sub(value, condition)
                else:
                    value = self.domain.select(condition, source(pattern[k + 1]), value)
            out = value if here.all() else self.domain.where(here, value, out)
        return out

    def _hide(self, x: V, conditions: Ids) -> V:
        """A value that is below all numbers on a condition (-1: none)."""
        here = conditions >= 0
        if not here.any():
            return x
        low = self.domain.atom(MASKED, [x, self.indicator(np.maximum(conditions, 0))])
        return low if here.all() else self.domain.where(here, low, x)
