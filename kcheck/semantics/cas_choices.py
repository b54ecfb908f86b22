"""CAS loops that put a value into a cell only while it is larger (or smaller) than what is there.

`while (v > old) old = atomicCAS(p, old, v)` and its like make the cell the maximum of itself and
v: it only ever grows, so whoever sees a value that is not less than v may leave. Proved by walking
from the loads before the loop with what is known of the value that was seen last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.tree import Instr, Operand, Reg, registers, type_bytes
from kcheck.semantics.flow import EFFECTS, EXCHANGES, Flow

MOST = 64
# a comparison of v with what was seen -> does it hold where v must be put there?
_LARGER = {"gt": True, "gtu": True, "le": False, "leu": False}
_LESS = {"lt": True, "ltu": True, "ge": False, "geu": False}
_SWAPPED = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}
# what other threads notice, or what is not to be followed
_NOTICED = EFFECTS | EXCHANGES | {"", "mma", "mma.int", "brx.idx"}
_STRONG = frozenset({"volatile", "relaxed", "acquire", "mmio"})
# state spaces of a load and of a CAS that are of one cell where the address is the same; of the
# generic one the address itself tells the space (PTX ISA 6.4.1.1)
_SPACES = frozenset({"", "global"})
_WIDTHS = {"b32": "f32", "b64": "f64"}


@dataclass(frozen=True)
class Choice:
    """What the loop around an atom.cas chooses: `operation` (max, min) of floats of a format.

    `operand`: the register with v. `seeds`: the loads before it; `compares`: the comparisons with
    v, each with the register that was seen and whether it holds where the loop must go on.
    """

    operation: str
    fmt: str
    operand: Operand
    seeds: frozenset[int]
    compares: Mapping[int, tuple[str, bool]]


@dataclass(frozen=True)
class _State:
    """At `at`: registers with v, with what was seen last, and with what the CAS expected before;
    predicates that say something, with what and whether where they hold; is v known to be chosen?
    """

    at: int
    values: frozenset[str]
    seen: frozenset[str]
    expected: frozenset[str] = frozenset()
    says: frozenset[tuple[str, str, bool]] = frozenset()
    chosen: bool = False


@dataclass
class _Walk:
    """One atom.cas, looked at as a maximum or a minimum of `values` (names of v)."""

    flow: Flow
    cas: int
    values: frozenset[str]
    tests: Mapping[str, bool]
    inside: frozenset[int]
    rounds: frozenset[int]
    seeds: frozenset[int]
    compares: dict[int, tuple[str, bool]] = field(default_factory=dict[int, "tuple[str, bool]"])

    def proves(self) -> bool:
        """Is all well on every way from the loads?"""
        flow = self.flow
        made = frozenset[str]().union(*(flow.defs[at] for at in self.inside))
        todo = [
            _State(after, self.values - made, self.flow.defs[at])
            for at in self.seeds
            for after in self.flow.successors[at]
        ]
        done: set[_State] = set()
        while todo:
            state = todo.pop()
            if state in done:
                continue
            done.add(state)
            if state.at not in self.inside or len(done) > 8 * MOST:
                return False
            following = self._step(state)
            if following is None:
                return False
            todo += following
        return True

    def _step(self, s: _State) -> list[_State] | None:
        """What comes after an instruction; None: something else than the idiom."""
        flow, instr = self.flow, self.flow.code[s.at]
        name, defs, uses = flow.names[s.at], flow.defs[s.at], flow.uses[s.at]
        if name == "nanosleep":  # takes time, and does nothing, under whatever guard
            return [replace(s, at=at) for at in flow.successors[s.at]]
        if instr.guard is not None:
            return self._branch(s, instr) if name == "bra" else None
        if not self._alone(s.at):
            return None
        says = frozenset(x for x in s.says if x[0] not in defs)
        after = replace(s, says=says, seen=s.seen - defs, expected=s.expected - defs)
        if s.at == self.cas:
            expected, new = instr.operands[2:]
            known = isinstance(expected, Reg) and expected.name in s.seen
            if not (s.chosen and known and isinstance(new, Reg) and new.name in s.values):
                return None
            after = replace(after, seen=defs, expected=s.seen - defs, chosen=False)
        elif name == "mov" and isinstance(instr.operands[1], Reg):
            source = instr.operands[1].name
            more = [x | defs if source in x else x for x in (after.seen, after.expected)]
            after = replace(after, seen=more[0], expected=more[1])
        elif name in ("float.setp", "int.setp"):
            said = self._said(s, instr, name)
            if said is not None and len(defs) == 1:
                (made,) = defs
                after = replace(after, says=says | {(made, *said)})
            elif (s.seen | s.expected) & uses.keys():
                return None
        elif (s.seen | s.expected) & uses.keys():
            return None
        if self.values & defs:
            after = self._renewed(s, after, instr, name)
        return [replace(after, at=at) for at in flow.successors[s.at]]

    def _alone(self, at: int) -> bool:
        """Does no one but this thread notice an instruction, and how often it is executed?"""
        name = self.flow.names[at]
        if name == "ld":  # on the way to the loop, of what nobody waits for
            return at not in self.rounds and _STRONG.isdisjoint(self.flow.code[at].opcode)
        if name == "fence":  # orders nothing in a thread that need not come to it
            return all(_in_line(self.flow, seed, at) for seed in self.seeds)
        carries = "cc" in self.flow.code[at].opcode
        return at == self.cas or name == "bra" or not (carries or name in _NOTICED)

    def _renewed(self, s: _State, after: _State, instr: Instr, name: str) -> _State:
        """A register of v is written: as a copy of another, or with what is v from now on."""
        defs, source = self.flow.defs[s.at], instr.operands[-1]
        if name == "mov" and isinstance(source, Reg) and source.name in s.values:
            return replace(after, values=s.values | defs)
        says = frozenset(x for x in after.says if x[1] != "chosen")
        return replace(after, values=defs & self.values, says=says, chosen=False)

    def _said(self, s: _State, instr: Instr, name: str) -> tuple[str, bool] | None:
        """What a comparison says where it holds: that v is chosen, or that the CAS did it."""
        _, a, b = instr.operands
        if not isinstance(a, Reg) or not isinstance(b, Reg):
            return None
        test = instr.opcode[1]
        if name == "int.setp":
            pair = {a.name, b.name}
            met = len(pair) == 2 and bool(pair & s.seen) and bool(pair & s.expected)
            return ("done", test == "eq") if met and test in ("eq", "ne") else None
        if a.name in s.seen and b.name in s.values:
            a, b, test = b, a, _SWAPPED.get(test.removesuffix("u"), "")
        if a.name not in s.values or b.name not in s.seen or test not in self.tests:
            return None
        self.compares[s.at] = (b.name, self.tests[test])
        return "chosen", self.tests[test]

    def _branch(self, s: _State, instr: Instr) -> list[_State] | None:
        assert instr.guard is not None
        said = [x for x in s.says if x[0] == instr.guard.reg.name]
        if len(said) != 1:
            return None
        (_, what, holds), made = said[0], []
        taken, follow = self.flow.successors[s.at]
        for after, yes in ((taken, not instr.guard.negated), (follow, instr.guard.negated)):
            true = yes == holds  # is what is said so, on this way?
            if after in self.inside:
                chosen = true if what == "chosen" else s.chosen and not true
                made.append(replace(s, at=after, chosen=chosen))
            elif true != (what == "done"):
                return None  # leaves without having done it, or with v to be put there
        return made


def cas_choice(flow: Flow, cas: int) -> Choice | None:
    """The choice that the loop around an atom.cas makes, or None."""
    _, place, _, new = flow.code[cas].operands
    fmt = _WIDTHS.get(flow.code[cas].opcode[-1])
    if fmt is None or not isinstance(new, Reg):
        return None
    inside, seeds = _before(flow, cas)
    if not seeds or not all(_reads(flow, at, cas) for at in seeds):
        return None
    if any(flow.defs[at] & set(registers(place)) for at in inside | seeds):
        return None  # the loads and the CAS are of different cells
    rounds = flow.cycle(cas, inside)
    values = frozenset(_copies(flow, new.name, inside)) | {new.name}
    for operation, tests in (("max", _LARGER), ("min", _LESS)):
        walk = _Walk(flow, cas, values, tests, inside, rounds, seeds)
        fixed = not any(values & flow.defs[at] for at in rounds)
        if fixed and walk.proves() and _unused(flow, inside, seeds):
            return Choice(operation, fmt, new, seeds, walk.compares)
    return None


def _before(flow: Flow, cas: int) -> tuple[frozenset[int], frozenset[int]]:
    """The instructions between loads and the CAS, and the loads: from where it can be reached."""
    before: dict[int, list[int]] = {}
    for at in range(len(flow.code)):
        for after in flow.successors[at]:
            before.setdefault(after, []).append(at)
    expected = flow.code[cas].operands[2]
    inside, seeds, todo = {cas}, set[int](), [cas]
    names = _sources_of(flow, expected)
    while todo:
        for at in before.get(todo.pop(), ()):
            if flow.names[at] == "ld" and flow.defs[at] & names:
                seeds.add(at)
            elif at not in inside:
                inside.add(at)
                todo.append(at)
        if len(inside) > MOST:
            return frozenset(), frozenset()
    return frozenset(inside), frozenset(seeds) if 0 not in inside else frozenset()


def _reads(flow: Flow, load: int, cas: int) -> bool:
    """Does a load always read the whole cell of the CAS, if that has the same address?"""
    one, other = flow.code[load], flow.code[cas]
    seen, changed = match(one.opcode), match(other.opcode)
    if one.guard is not None or seen is None or changed is None or len(flow.defs[load]) != 1:
        return False
    spaces = {seen.slots["space"], changed.slots["space"]}
    alike = len(spaces) == 1 or spaces == _SPACES
    same = type_bytes(one.opcode[-1]) == type_bytes(other.opcode[-1])
    return alike and same and one.operands[1] == other.operands[1]


def _sources_of(flow: Flow, op: Operand) -> set[str]:
    """A register, and those that are moved to it."""
    names = {op.name} if isinstance(op, Reg) else set[str]()
    while True:
        more = {
            source.name
            for at, name in enumerate(flow.names)
            if name == "mov" and flow.defs[at] & names
            for source in flow.code[at].operands[1:]
            if isinstance(source, Reg)
        }
        if more <= names:
            return names
        names |= more


def _copies(flow: Flow, name: str, inside: frozenset[int]) -> Iterator[str]:
    """The register that one is moved from, or to; each written once, and before the loads one
    right after the other.
    """
    for at, form in enumerate(flow.names):
        source = flow.code[at].operands[-1] if form == "mov" else None
        (target,) = flow.defs[at] or {""} if isinstance(source, Reg) else ("",)
        if not isinstance(source, Reg) or name not in (source.name, target):
            continue
        made = [[i for i, defs in enumerate(flow.defs) if n in defs] for n in (source.name, target)]
        once = [len(x) for x in made] == [1, 1]
        if once and (at in inside or _in_line(flow, made[0][0], at)):
            yield target if source.name == name else source.name


def _in_line(flow: Flow, first: int, last: int) -> bool:
    """Is an instruction reached from another one for certain, and only so?"""
    jumps = {a for at, after in enumerate(flow.successors) for a in after if a != at + 1}
    return first < last and not any(
        flow.successors[at] != (at + 1,) or at + 1 in jumps for at in range(first, last)
    )


def _unused(flow: Flow, inside: frozenset[int], seeds: frozenset[int]) -> bool:
    """Does nothing show outside: what was seen, how often, or which way was taken?

    What is always made once, right after the loads and without them, may be read elsewhere.
    """
    whole = inside | seeds
    return all(
        use.pc in inside or _apart(flow, at, whole, seeds)
        for at in whole
        for name in flow.defs[at]
        for use in flow.reached(at, name)
    )


def _apart(flow: Flow, at: int, whole: frozenset[int], seeds: frozenset[int]) -> bool:
    """Is an instruction executed for certain after a load, without anything that was seen?"""
    seen = any(
        flow.names[i] == "atom.cas" or i in seeds for i in flow.sources(flow.uses[at], whole)
    )
    return at not in seeds and not seen and any(_in_line(flow, seed, at) for seed in seeds)
