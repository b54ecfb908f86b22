"""All opcodes of a row of the table of forms, applied to the same operands in one kernel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.launch import Tensor
from kcheck.ptx_frontend.forms import FORMS, Form, match
from tests.semantics.harness import entry, known, out, symbol

Slots = dict[str, str]
MOST = 1200  # combinations of a row that are all tried


def opcodes(form: Form, most: int = MOST) -> list[tuple[str, Slots]]:
    """The opcodes that a row admits: all of them, or, where they are too many, one slot at a
    time against the first choice of all others.
    """
    opcode = form.pattern.split()[0]
    choices = [sorted(e.words) + ([""] if e.optional else []) for e in form.elements]
    n = int(np.prod([len(c) for c in choices], dtype=np.float64)) if choices else 1
    rows: Iterator[tuple[str, ...]]
    if n <= most:
        rows = itertools.product(*choices)
    else:
        base = [c[-1] if c[-1] == "" else c[0] for c in choices]
        rows = (
            tuple(word if i == k else base[k] for k in range(len(choices)))
            for i, words in enumerate(choices)
            for word in words
        )
    found = {}
    for row in rows:
        words = (opcode, *(w for w in row if w))
        hit = match(words)
        assert hit is not None, words
        if hit.form.name == form.name:
            found[".".join(words)] = hit.slots
    return list(found.items())


def forms(*names: str) -> list[Form]:
    """The rows of these names."""
    chosen = [form for form in FORMS if form.name in names]
    assert {form.name for form in chosen} == set(names)
    return chosen


# operands ----------------------------------------------------------------------------------------

WIDTHS = {
    "pred": 4,
    "amount": 4,
    **{f"{k}{w}": w // 8 for k in "bus" for w in (8, 16, 32, 64)},
    **{"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "f16x2": 4, "bf16x2": 4},
}
REGISTER = {1: "%h", 2: "%h", 4: "%r", 8: "%d"}
FIELDS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


def is_float(kind: str) -> bool:
    """f16, bf16x2, ..."""
    return kind.removesuffix("x2") in FIELDS


def integers(rng: np.random.Generator, width: int, n: int) -> NDArray[np.uint64]:
    """Random bits of `width` bytes, among them edge cases."""
    bits = 8 * width
    edges = [0, 1, 2, 3, -1, -2, 1 << bits - 1, (1 << bits - 1) - 1, (1 << bits - 1) + 1, 7, 31]
    edges += [1 << int(i) for i in rng.integers(0, bits, 8)]
    table = np.array([e & (1 << bits) - 1 for e in edges], np.uint64)
    noise = rng.integers(0, 1 << bits, n, np.uint64, endpoint=False)
    if bits < 64:
        noise &= np.uint64((1 << bits) - 1)
    small = rng.integers(0, 40, n).astype(np.uint64)
    pick = rng.integers(0, 4, n)
    chosen = np.where(pick < 2, rng.choice(table, n), np.where(pick == 2, noise, small))
    return chosen.astype(np.uint64)


AMOUNTS = (0, 1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 127, 128, 200, 255, 256)


def amounts(rng: np.random.Generator, n: int) -> NDArray[np.uint64]:
    """Shift counts, field positions and lengths."""
    table = np.array([*AMOUNTS, 0xFFFFFFFF, 0x80000000, 0x120, 0x10003], np.uint64)
    return rng.choice(table, n).astype(np.uint64)


def floats(rng: np.random.Generator, fmt: str, n: int, specials: str = "all") -> NDArray[Any]:
    """Bit patterns of a format: ordinary numbers and ties; `specials`: `none`, `infinite` (and
    nan), or `all` (the largest, the smallest, subnormals).
    """
    ebits, fbits = FIELDS[fmt]
    bias, top = (1 << ebits - 1) - 1, (1 << ebits) - 1
    one = bias << fbits
    sign = 1 << ebits + fbits
    half = 1 << fbits - 1
    edges = [0, one, one | half, one | half >> 1, (bias + 1) << fbits, (bias + 1) << fbits | half]
    edges += [(bias - 1) << fbits, (bias - 2) << fbits | 1, (bias + 4) << fbits | 3]
    if specials != "none":
        edges += [top << fbits, top << fbits, top << fbits | half, top << fbits | 1]
    if specials == "all":
        edges += [1, half, (1 << fbits) - 1, 1 << fbits, (top << fbits) - 1]
    table = np.array([*edges, *(e | sign for e in edges)], np.uint64)
    spread = 3 if fmt == "f16" else 6
    exponent = rng.integers(bias - spread, bias + spread, n).astype(np.uint64)
    fraction = rng.integers(0, 1 << fbits, n).astype(np.uint64)
    signs = rng.integers(0, 2, n).astype(np.uint64) * np.uint64(sign)
    ordinary = signs | exponent << np.uint64(fbits) | fraction
    return np.where(rng.integers(0, 2, n) == 0, rng.choice(table, n), ordinary).astype(np.uint64)


def bits_of(rng: np.random.Generator, kind: str, n: int, specials: str = "all") -> NDArray[Any]:
    """Operands of a kind, as unsigned bits."""
    if kind == "pred":
        return rng.integers(0, 2, n).astype(np.uint64)
    if kind == "amount":
        return amounts(rng, n)
    if kind.endswith("x2"):
        low, high = (floats(rng, kind[:-2], n, specials) for _ in range(2))
        return low | high << np.uint64(16)
    if is_float(kind):
        return floats(rng, kind, n, specials)
    return integers(rng, WIDTHS[kind], n)


@dataclass
class Sheet:
    """A kernel that applies instructions to operands, and stores each result.

    `mode`: `bits` (operands are known bits), `symbols` (floats are inputs), `mixed` (every third
    lane's floats are known bits, the others inputs), `crossed` (every second operand is an input,
    from `parity` on, the others are known bits).
    """

    n: int
    seed: int
    mode: str = "bits"
    params: list[Tensor] = field(default_factory=list[Tensor])
    inputs: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    loads: list[str] = field(default_factory=list[str])
    body: list[str] = field(default_factory=list[str])
    results: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _registers: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    _used: dict[str, int] = field(default_factory=dict[str, int])
    specials: str = "all"
    positive: bool = False
    parity: int = 0

    def _new(self, prefix: str) -> str:
        at = self._used[prefix] = self._used.get(prefix, 9) + 1
        return f"{prefix}{at}"

    def operand(self, number: int, kind: str) -> str:
        """The register that holds the operand of a number and kind."""
        key = (str(number), kind)
        if key not in self._registers:
            self._registers[key] = self._load(f"{kind}_{number}", kind)
        return self._registers[key]

    def _load(self, name: str, kind: str) -> str:
        width = WIDTHS[kind]
        rng = np.random.default_rng([self.seed, *name.encode()])
        register = self._new(REGISTER[width])
        symbolic = self.mode != "bits" and is_float(kind)
        symbolic = symbolic and (self.mode != "crossed" or int(name[-1]) % 2 == self.parity)
        bits = bits_of(rng, kind, self.n, self.specials)
        if not symbolic or self.mode == "mixed":
            self.params.append(known(f"b_{name}", f"u{8 * width}", bits))
            self.loads.append(f"ld.global.u{8 * width} {register}, [%b_{name}];")
        if symbolic:
            guard = "@%p0 " if self.mode == "mixed" else ""
            count = self.n * (2 if kind.endswith("x2") else 1)
            fmt = kind.removesuffix("x2")
            self.params.append(symbol(f"s_{name}", fmt, count))
            numbers = rng.normal(size=count) * 2.0 ** rng.integers(-2, 3, count)
            numbers = abs(numbers) if self.positive else numbers
            self.inputs[f"s_{name}"] = numbers
            at = f"%s_{name}"
            if count > self.n:
                self.loads.append(f"mad.lo.u64 %d0, %wide, 2, {at};")
                at = "%d0"
            t = f"f{8 * width}" if width >= 4 and count == self.n else f"b{8 * width}"
            self.loads.append(f"{guard}ld.global.{t} {register}, [{at}];")
        if kind == "pred":
            predicate = self._new("%p")
            self.loads.append(f"setp.ne.u32 {predicate}, {register}, 0;")
            return predicate
        return register

    def result(self, kind: str) -> str:
        """The scratch register for a result of a kind."""
        return "%p1" if kind == "pred" else f"{REGISTER[WIDTHS[kind]]}{1}"

    def store(self, kind: str, register: str, what: str) -> None:
        """Store a result; `what` names it."""
        if kind == "pred":
            self.body.append(f"selp.u32 %r2, 1, 0, {register};")
            kind, register = "u32", "%r2"
        width = WIDTHS[kind]
        fmt = kind.removesuffix("x2")
        dtype = fmt if is_float(kind) else f"u{8 * width}"
        name = f"o_{kind}" if is_float(kind) else f"o_{dtype}"
        stored = self.results.setdefault(name, [])
        at = f"%a_{name}+{len(stored) * self.n * width}"
        self.body.append(f"st.global.b{8 * width} [{at}], {register};")
        stored.append(what)

    def text(self) -> str:
        """The kernel."""
        params, more = list(self.params), []
        for name, stored in self.results.items():
            kind = name[2:]
            pair = 2 if kind.endswith("x2") else 1
            dtype = kind.removesuffix("x2")
            params.append(out(name, dtype, len(stored), self.n, pair))
            more.append(
                f".reg .b64 %a_{name}; mad.lo.u64 %a_{name}, %wide, {WIDTHS[kind]}, %p{name};"
            )
        self.all_params = params
        third = "rem.u32 %r0, %gid, 3; setp.ne.u32 %p0, %r0, 0;"
        return entry("\n".join([third, *more, *self.loads, *self.body, "ret;"]), params)

    def label(self, line: str) -> str:
        """The instruction behind `name[index]: ...`."""
        name, _, rest = line.partition("[")
        index = int(rest.partition("]")[0])
        per = self.n * (2 if name.endswith("x2") else 1)
        return f"{self.results[name][index // per]} lane {index % per}: {line}"


# signatures --------------------------------------------------------------------------------------

# form -> kinds of the results and of the sources; "type" and the like are slots
SIGNATURES: dict[str, tuple[str, str]] = {
    "int.mul.wide": ("wide", "type type"),
    "int.mad.wide": ("wide", "type type wide"),
    **{f"int.{op}": ("u32", "type") for op in ("popc", "clz", "bfind")},
    "int.fns": ("u32", "b32 amount small"),
    "int.bfe": ("type", "type amount amount"),
    "int.bfi": ("type", "type type amount amount"),
    "int.szext": ("type", "type amount"),
    "int.bmsk": ("b32", "amount amount"),
    "int.dp4a": ("b32", "b32 b32 b32"),
    "int.dp2a": ("b32", "b32 b32 b32"),
    "bit.shl": ("type", "type amount"),
    "bit.shr": ("type", "type amount"),
    "bit.shf": ("b32", "b32 b32 amount"),
    "int.setp": ("pred|pred", "type type"),
    "int.setp.bool": ("pred|pred", "type type pred"),
    "float.setp": ("pred|pred", "type type"),
    "float.setp.bool": ("pred|pred", "type type pred"),
    "half2.setp": ("pred|pred", "type type"),
    "int.set": ("dtype", "type type"),
    "int.set.bool": ("dtype", "type type pred"),
    "float.set": ("dtype", "type type"),
    "float.set.bool": ("dtype", "type type pred"),
    "selp": ("type", "type type pred"),
    "slct.int": ("dtype", "dtype dtype type"),
    "slct.float": ("dtype", "dtype dtype type"),
    "float.testp": ("pred", "type"),
    "cvt.pack": ("b32", "s32 s32"),
    "cvt.pack8": ("b32", "s32 s32 b32"),
    "cvt.half2": ("d", "f32 f32"),
    "cvt.tf32": ("f32", "f32"),
    **{
        f"cvt.{kind}": ("d", "s")
        for kind in ("int", "int.float", "float.int", "float", "relu", "satfinite", "integral")
    },
}


def signature(form: Form, slots: Slots) -> tuple[list[str], list[str]]:
    """The kinds of the results and of the sources."""
    roles = [role for role in form.roles if role not in ("d", "lut")]
    results, sources = SIGNATURES.get(form.name, ("type", " ".join("type" for _ in roles)))

    def kind(word: str) -> str:
        if word == "wide":
            return f"{slots['type'][0]}{2 * int(slots['type'][1:])}"
        return slots.get(word) or word

    return [kind(w) for w in results.split("|")], [kind(w) for w in sources.split()]


def add(
    sheet: Sheet, form: Form, opcode: str, slots: Slots, lut: int | None = None, variant: str = ""
) -> None:
    """Apply one opcode to the sheet's operands.

    `variant`: `guarded` (some lanes are off and keep what the destination, which is also the
    first source if it can be, held), `literal` (the last integer source is a literal), `literals`
    (all are).
    """
    results, sources = signature(form, slots)
    kinds = [_canonical(k) for k in sources]
    operands = [sheet.operand(i, k) for i, k in enumerate(kinds)]
    if variant.startswith("literal"):
        operands = _literals(sheet, kinds, operands, opcode, all_of=variant == "literals")
    if lut is not None:
        operands.append(str(lut))
    targets = ["%p1", "%p2"] if len(results) == 2 else [sheet.result(results[0])]
    flag = form.name.removeprefix("int.") in ("addc", "subc", "madc")
    if flag:
        sheet.body.append(f"add.cc.u32 %r3, {sheet.operand(0, 'b32')}, {sheet.operand(1, 'b32')};")
    guard = ""
    if variant == "guarded":
        guard = "@!%p0 "
        for i, (k, register) in enumerate(zip(results, targets, strict=True)):
            held = _canonical(k)
            first = kinds[0] == held and len(results) == 1
            old = operands[0] if first else sheet.operand(7 + i, held)
            move = "pred" if k == "pred" else f"b{8 * max(WIDTHS[k], 2)}"
            sheet.body.append(f"mov.{move} {register}, {old};")
            if first:
                operands[0] = register
    pair = "|".join(targets)
    sheet.body.append(f"{guard}{opcode} {pair}, {', '.join(operands)};")
    if ".cc" in opcode:
        sheet.body.append("addc.u32 %r3, 0, 0;")
        sheet.store("u32", "%r3", f"the carry of {opcode}")
    for k, register in zip(results, targets, strict=True):
        sheet.store(k, register, f"{variant} {opcode}")


def _canonical(kind: str) -> str:
    """One buffer per width serves all integer types."""
    if kind == "small":
        return "amount"
    return kind if is_float(kind) or kind in ("amount", "pred") else f"b{8 * WIDTHS[kind]}"


def _literals(
    sheet: Sheet, kinds: list[str], operands: list[str], opcode: str, all_of: bool
) -> list[str]:
    rng = np.random.default_rng([sheet.seed, *opcode.encode()])
    places = [i for i, k in enumerate(kinds) if k != "pred" and not is_float(k)]
    for i in places if all_of else places[-1:]:
        operands[i] = str(int(bits_of(rng, kinds[i], 1)[0]))
    return operands


def thinned(items: list[tuple[str, Slots]], most: int) -> list[tuple[str, Slots]]:
    """At most `most` of them, spread over all."""
    step = -(-len(items) // most)
    return items[:: step + (step > 1 and step % 2 == 0)] if step > 1 else items
