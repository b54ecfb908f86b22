"""The instruction forms that kcheck knows, as data.

A row is `(name, pattern, operands)`. A pattern names the opcode and then its modifiers:
`word` must occur, `word?` may, `slot=a|b` must hold one of the words, `slot=a|b?` may hold one.
Modifiers are matched from left to right, each by the first open element that takes it, so that
their order is free (compilers disagree on it); but spaces and types (ORDERED) keep theirs, since
`cvt.f32.s32` and `cvt.s32.f32` differ. A modifier that no element takes makes the form unknown:
it is refused, never dropped. Operands: roles in order,
`?` marks one that may be missing.

Source: PTX ISA 9.0, chapter 9 (the syntax paragraph of each instruction).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

INT = "s16|u16|s32|u32|s64|u64"
INT8 = "s8|u8|" + INT
BITS = "b16|b32|b64"
RND = "rn|rz|rm|rp"
RNDI = "rni|rzi|rmi|rpi"
HALF = "f16|f16x2"
BF = "bf16|bf16x2"
ICMP = "eq|ne|lt|le|gt|ge|lo|ls|hi|hs"
FCMP = "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"
BOOL = "and|or|xor"
SET = "u32|s32|f32|f16|bf16"
SET16 = "u16|s16|u32|s32|f16|bf16"
MEM = "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"
SPACE = "global|shared|shared::cta|local|param|param::entry|param::func|const"
SCOPE = "cta|cluster|gpu|sys"
EVICT = "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"
PREFETCH = "L2::64B|L2::128B|L2::256B"
LD = f"cop=ca|cg|cs|lu|cv? evict={EVICT}? prefetch={PREFETCH}? vec=v2|v4? type={MEM}"
ST = f"cop=wb|cg|cs|wt? evict={EVICT}? vec=v2|v4? type={MEM}"

ATOM = f"sem=relaxed|acquire|release|acq_rel? scope={SCOPE}? space=global|shared|shared::cta?"
RED = f"sem=relaxed|release? scope={SCOPE}? space=global|shared|shared::cta?"

# slots that are filled in the order of the pattern only
ORDERED = frozenset({"space", "global", "dtype", "type", "atype", "btype", "d", "s", "a", "b", "c"})

ROWS: tuple[tuple[str, str, str], ...] = (
    # integer arithmetic (9.7.1, 9.7.2)
    ("int.add", f"add type={INT}", "d a b"),
    ("int.add.sat", "add sat type=s32", "d a b"),
    ("int.sub", f"sub type={INT}", "d a b"),
    ("int.sub.sat", "sub sat type=s32", "d a b"),
    ("int.add.cc", "add cc type=u32|s32|u64|s64", "d a b"),
    ("int.addc", "addc cc? type=u32|s32|u64|s64", "d a b"),
    ("int.sub.cc", "sub cc type=u32|s32|u64|s64", "d a b"),
    ("int.subc", "subc cc? type=u32|s32|u64|s64", "d a b"),
    ("int.mad.cc", "mad mode=lo|hi cc type=u32|s32|u64|s64", "d a b c"),
    ("int.madc", "madc mode=lo|hi cc? type=u32|s32|u64|s64", "d a b c"),
    ("int.mul", f"mul mode=lo|hi type={INT}", "d a b"),
    ("int.mul.wide", "mul wide type=s16|u16|s32|u32", "d a b"),
    ("int.mad", f"mad mode=lo|hi type={INT}", "d a b c"),
    ("int.mad.wide", "mad wide type=s16|u16|s32|u32", "d a b c"),
    ("int.mad.sat", "mad hi sat type=s32", "d a b c"),
    ("int.mul24", "mul24 mode=lo|hi type=s32|u32", "d a b"),
    ("int.mad24", "mad24 mode=lo|hi type=s32|u32", "d a b c"),
    ("int.mad24.sat", "mad24 hi sat type=s32", "d a b c"),
    ("int.sad", f"sad type={INT}", "d a b c"),
    ("int.div", f"div type={INT}", "d a b"),
    ("int.rem", f"rem type={INT}", "d a b"),
    ("int.abs", "abs type=s16|s32|s64", "d a"),
    ("int.neg", "neg type=s16|s32|s64", "d a"),
    ("int.min", f"min type={INT}", "d a b"),
    ("int.max", f"max type={INT}", "d a b"),
    ("int.min.relu", "min relu type=s32", "d a b"),
    ("int.max.relu", "max relu type=s32", "d a b"),
    ("int.add2", "add type=u16x2|s16x2", "d a b"),
    ("int.min2", "min type=u16x2", "d a b"),
    ("int.min2", "min relu? type=s16x2", "d a b"),
    ("int.max2", "max type=u16x2", "d a b"),
    ("int.max2", "max relu? type=s16x2", "d a b"),
    ("int.popc", "popc type=b32|b64", "d a"),
    ("int.clz", "clz type=b32|b64", "d a"),
    ("int.bfind", "bfind shiftamt? type=u32|s32|u64|s64", "d a"),
    ("int.fns", "fns type=b32", "d a b c"),
    ("int.brev", "brev type=b32|b64", "d a"),
    ("int.bfe", "bfe type=u32|s32|u64|s64", "d a b c"),
    ("int.bfi", "bfi type=b32|b64", "d a b c e"),
    ("int.szext", "szext mode=clamp|wrap type=u32|s32", "d a b"),
    ("int.bmsk", "bmsk mode=clamp|wrap type=b32", "d a b"),
    ("int.dp4a", "dp4a atype=u32|s32 btype=u32|s32", "d a b c"),
    ("int.dp2a", "dp2a mode=lo|hi atype=u32|s32 btype=u32|s32", "d a b c"),
    # logic, shift, permute (9.7.8)
    ("bit.and", f"and type=pred|{BITS}", "d a b"),
    ("bit.or", f"or type=pred|{BITS}", "d a b"),
    ("bit.xor", f"xor type=pred|{BITS}", "d a b"),
    ("bit.not", f"not type=pred|{BITS}", "d a"),
    ("bit.cnot", f"cnot type={BITS}", "d a"),
    ("bit.lop3", "lop3 type=b32", "d a b c lut"),
    ("bit.lop3.bool", "lop3 bool=or|and type=b32", "d a b c lut p"),
    ("bit.shl", f"shl type={BITS}", "d a b"),
    ("bit.shr", f"shr type={BITS}|{INT}", "d a b"),
    ("bit.shf", "shf dir=l|r mode=clamp|wrap type=b32", "d a b c"),
    ("bit.prmt", "prmt type=b32 mode=f4e|b4e|rc8|ecl|ecr|rc16?", "d a b c"),
    # comparison and selection (9.7.6, 9.7.7)
    ("int.setp", f"setp cmp={ICMP} type={BITS}|{INT}", "d a b"),
    ("int.setp.bool", f"setp cmp={ICMP} bool={BOOL} type={BITS}|{INT}", "d a b c"),
    ("float.setp", f"setp cmp={FCMP} ftz? type=f32|f64|f16|bf16", "d a b"),
    ("float.setp.bool", f"setp cmp={FCMP} bool={BOOL} ftz? type=f32|f64|f16|bf16", "d a b c"),
    ("half2.setp", f"setp cmp={FCMP} ftz? type=f16x2|bf16x2", "d a b"),
    ("half2.setp.bool", f"setp cmp={FCMP} bool={BOOL} ftz? type=f16x2|bf16x2", "d a b c"),
    ("int.set", f"set cmp={ICMP} dtype={SET} type={BITS}|{INT}", "d a b"),
    ("int.set.bool", f"set cmp={ICMP} bool={BOOL} dtype={SET} type={BITS}|{INT}", "d a b c"),
    ("float.set", f"set cmp={FCMP} ftz? dtype={SET} type=f32|f64", "d a b"),
    ("float.set.bool", f"set cmp={FCMP} bool={BOOL} ftz? dtype={SET} type=f32|f64", "d a b c"),
    ("float.set", f"set cmp={FCMP} ftz? dtype={SET16} type=f16|bf16", "d a b"),
    ("float.set.bool", f"set cmp={FCMP} bool={BOOL} ftz? dtype={SET16} type=f16|bf16", "d a b c"),
    ("half2.set", f"set cmp={FCMP} ftz? dtype=f16x2|u32|s32 type=f16x2", "d a b"),
    ("half2.set", f"set cmp={FCMP} dtype=bf16x2|u32|s32 type=bf16x2", "d a b"),
    (
        "half2.set.bool",
        f"set cmp={FCMP} bool={BOOL} ftz? dtype=f16x2|u32|s32 type=f16x2",
        "d a b c",
    ),
    (
        "half2.set.bool",
        f"set cmp={FCMP} bool={BOOL} dtype=bf16x2|u32|s32 type=bf16x2",
        "d a b c",
    ),
    ("selp", f"selp type={BITS}|{INT}|f32|f64", "d a b p"),
    ("slct.int", f"slct dtype={BITS}|{INT}|f32|f64 type=s32", "d a b c"),
    ("slct.float", f"slct ftz? dtype={BITS}|{INT}|f32|f64 type=f32", "d a b c"),
    # moves and conversions (9.7.9)
    ("mov", f"mov type=pred|{BITS}|{INT}|f32|f64|f16|bf16", "d a"),
    ("cvta", "cvta to? space=global|shared|shared::cta|local|const|param size=u32|u64", "d a"),
    ("isspacep", "isspacep space=global|shared|shared::cta|local|const|param", "d a"),
    ("cvt.int", f"cvt sat? d={INT8} s={INT8}", "d a"),
    ("cvt.int.float", f"cvt rnd={RND} sat? d=f16|bf16|f32|f64 s={INT8}", "d a"),
    ("cvt.float.int", f"cvt rnd={RNDI} ftz? sat? d={INT8} s=f16|bf16|f32|f64", "d a"),
    ("cvt.float", f"cvt rnd={RND}? ftz? sat? d=f16|bf16|f32|f64 s=f16|bf16|f32|f64", "d a"),
    ("cvt.relu", "cvt rnd=rn|rz relu satfinite? d=f16|bf16 s=f32", "d a"),
    ("cvt.satfinite", "cvt rnd=rn|rz satfinite d=f16|bf16 s=f32", "d a"),
    ("cvt.integral", f"cvt rnd={RNDI} ftz? sat? d=f16|f32|f64 s=f16|f32|f64", "d a"),
    ("cvt.half2", "cvt rnd=rn|rz relu? satfinite? d=f16x2|bf16x2 s=f32", "d a b"),
    ("cvt.tf32", "cvt rnd=rna|rn|rz d=tf32 s=f32", "d a"),
    ("cvt.pack", "cvt pack sat d=u16|s16 s=s32", "d a b"),
    ("cvt.pack8", "cvt pack sat d=u8|s8 s=s32 c=b32", "d a b c"),
    # float arithmetic (9.7.3, 9.7.4)
    ("float.add", f"add rnd={RND}? ftz? sat? type=f32", "d a b"),
    ("float.add", f"add rnd={RND}? type=f64", "d a b"),
    ("float.sub", f"sub rnd={RND}? ftz? sat? type=f32", "d a b"),
    ("float.sub", f"sub rnd={RND}? type=f64", "d a b"),
    ("float.mul", f"mul rnd={RND}? ftz? sat? type=f32", "d a b"),
    ("float.mul", f"mul rnd={RND}? type=f64", "d a b"),
    ("float.fma", f"fma rnd={RND} ftz? sat? type=f32", "d a b c"),
    ("float.fma", f"fma rnd={RND} type=f64", "d a b c"),
    ("float.fma", f"mad rnd={RND}? ftz? sat? type=f32", "d a b c"),
    ("float.fma", f"mad rnd={RND}? type=f64", "d a b c"),
    ("half.add", f"add rnd=rn? ftz? sat? type={HALF}", "d a b"),
    ("half.add", f"add rnd=rn? type={BF}", "d a b"),
    ("half.sub", f"sub rnd=rn? ftz? sat? type={HALF}", "d a b"),
    ("half.sub", f"sub rnd=rn? type={BF}", "d a b"),
    ("half.mul", f"mul rnd=rn? ftz? sat? type={HALF}", "d a b"),
    ("half.mul", f"mul rnd=rn? type={BF}", "d a b"),
    ("half.fma", f"fma rnd=rn ftz? sat? type={HALF}", "d a b c"),
    ("half.fma", f"fma rnd=rn ftz? relu type={HALF}", "d a b c"),
    ("half.fma", f"fma rnd=rn relu? type={BF}", "d a b c"),
    ("float.div", "div mode=approx|full ftz? type=f32", "d a b"),
    ("float.div", f"div rnd={RND} ftz? type=f32", "d a b"),
    ("float.div", f"div rnd={RND} type=f64", "d a b"),
    ("float.rcp", "rcp approx ftz? type=f32", "d a"),
    ("float.rcp", f"rcp rnd={RND} ftz? type=f32", "d a"),
    ("float.rcp", f"rcp rnd={RND} type=f64", "d a"),
    ("float.rcp", "rcp approx ftz type=f64", "d a"),
    ("float.sqrt", "sqrt approx ftz? type=f32", "d a"),
    ("float.sqrt", f"sqrt rnd={RND} ftz? type=f32", "d a"),
    ("float.sqrt", f"sqrt rnd={RND} type=f64", "d a"),
    ("float.rsqrt", "rsqrt approx ftz? type=f32|f64", "d a"),
    ("float.ex2", "ex2 approx ftz? type=f32", "d a"),
    ("half.ex2", f"ex2 approx type={HALF}", "d a"),
    ("half.ex2", f"ex2 approx ftz type={BF}", "d a"),
    ("float.lg2", "lg2 approx ftz? type=f32", "d a"),
    ("float.sin", "sin approx ftz? type=f32", "d a"),
    ("float.cos", "cos approx ftz? type=f32", "d a"),
    ("float.tanh", "tanh approx type=f32", "d a"),
    ("half.tanh", f"tanh approx type={HALF}|{BF}", "d a"),
    ("float.neg", "neg ftz? type=f32", "d a"),
    ("float.neg", "neg type=f64", "d a"),
    ("half.neg", f"neg ftz? type={HALF}", "d a"),
    ("half.neg", f"neg type={BF}", "d a"),
    ("float.abs", "abs ftz? type=f32", "d a"),
    ("float.abs", "abs type=f64", "d a"),
    ("half.abs", f"abs ftz? type={HALF}", "d a"),
    ("half.abs", f"abs type={BF}", "d a"),
    ("float.min", "min ftz? NaN? type=f32", "d a b"),
    ("float.min", "min type=f64", "d a b"),
    ("float.max", "max ftz? NaN? type=f32", "d a b"),
    ("float.max", "max type=f64", "d a b"),
    ("float.min.xorsign", "min ftz? NaN? xorsign abs type=f32", "d a b"),
    ("float.max.xorsign", "max ftz? NaN? xorsign abs type=f32", "d a b"),
    ("half.min", f"min ftz? NaN? type={HALF}", "d a b"),
    ("half.min", f"min NaN? type={BF}", "d a b"),
    ("half.max", f"max ftz? NaN? type={HALF}", "d a b"),
    ("half.max", f"max NaN? type={BF}", "d a b"),
    ("float.copysign", "copysign type=f32|f64", "d a b"),
    ("float.testp", "testp test=finite|infinite|number|notanumber type=f32|f64", "d a"),
    ("float.testp.class", "testp test=normal|subnormal type=f32|f64", "d a"),
    # memory (9.7.9)
    ("ld", f"ld sem=weak|volatile? space={SPACE}? {LD}", "d m"),
    ("ld", f"ld sem=relaxed|acquire scope={SCOPE} space={SPACE}? {LD}", "d m"),
    ("ld", f"ld space=global {LD} nc", "d m"),
    ("ld", f"ldu space=global? vec=v2|v4? type={MEM}", "d m"),
    ("st", f"st sem=weak|volatile? space={SPACE}? {ST}", "m a"),
    ("st", f"st sem=relaxed|release scope={SCOPE} space={SPACE}? {ST}", "m a"),
    ("prefetch", "prefetch space=global|local? level=L1|L2", "m"),
    (
        "atom.add",
        f"atom sem=relaxed|acquire|release|acq_rel? scope={SCOPE}? space=global|shared|shared::cta?"
        " add noftz? type=u32|s32|u64|f32|f64|f16|bf16|f16x2|bf16x2",
        "d m a",
    ),
    (
        "red.add",
        f"red sem=relaxed|release? scope={SCOPE}? space=global|shared|shared::cta?"
        " add noftz? type=u32|s32|u64|f32|f64|f16|bf16|f16x2|bf16x2",
        "m a",
    ),
    ("atom.op", f"atom {ATOM} op=min|max type=u32|s32|u64|s64", "d m a"),
    ("atom.op", f"atom {ATOM} op=and|or|xor type=b32|b64", "d m a"),
    ("atom.op", f"atom {ATOM} op=inc|dec type=u32", "d m a"),
    ("atom.exch", f"atom {ATOM} exch type=b32|b64", "d m a"),
    ("atom.cas", f"atom {ATOM} cas type=b16|b32|b64", "d m a b"),
    ("red.op", f"red {RED} op=min|max type=u32|s32|u64|s64", "m a"),
    ("red.op", f"red {RED} op=and|or|xor type=b32|b64", "m a"),
    ("red.op", f"red {RED} op=inc|dec type=u32", "m a"),
    (
        "cp.async",
        f"cp async cop=ca|cg space=shared|shared::cta global prefetch={PREFETCH}?",
        "m n size src?",
    ),
    ("cp.async.commit", "cp async commit_group", ""),
    ("cp.async.wait", "cp async wait_group", "n"),
    ("cp.async.wait", "cp async wait_all", ""),
    # warps and matrices (9.7.13, 9.7.14)
    (
        "ldmatrix",
        "ldmatrix sync aligned m8n8 num=x1|x2|x4 trans? space=shared|shared::cta? b16",
        "d m",
    ),
    ("mma", "mma sync aligned shape=m16n8k16|m16n8k8 row col d=f32 a=f16 b=f16 c=f32", "d a b c"),
    ("mma", "mma sync aligned shape=m16n8k16|m16n8k8 row col d=f16 a=f16 b=f16 c=f16", "d a b c"),
    ("mma", "mma sync aligned shape=m16n8k16|m16n8k8 row col d=f32 a=bf16 b=bf16 c=f32", "d a b c"),
    ("mma", "mma sync aligned shape=m16n8k8|m16n8k4 row col d=f32 a=tf32 b=tf32 c=f32", "d a b c"),
    (
        "mma.int",
        "mma sync aligned shape=m16n8k32|m16n8k16 row col satfinite? d=s32 a=s8|u8 b=s8|u8 c=s32",
        "d a b c",
    ),
    ("shfl", "shfl sync mode=up|down|bfly|idx b32", "d a b c mask"),
    ("vote", "vote sync mode=all|any|uni pred", "d p mask"),
    ("vote.ballot", "vote sync ballot b32", "d p mask"),
    ("match.any", "match any sync type=b32|b64", "d a mask"),
    ("match.all", "match all sync type=b32|b64", "d a mask"),
    ("redux", "redux sync op=add|min|max type=u32|s32", "d a mask"),
    ("redux", "redux sync op=and|or|xor type=b32", "d a mask"),
    ("activemask", "activemask b32", "d"),
    # synchronization
    ("bar.sync", "bar cta? sync", "id count?"),
    ("bar.sync", "barrier cta? sync aligned?", "id count?"),
    ("bar.arrive", "bar cta? arrive", "id count"),
    ("bar.arrive", "barrier cta? arrive aligned?", "id count"),
    ("bar.red", "bar cta? red op=popc u32", "d id count? p"),
    ("bar.red", "bar cta? red op=and|or pred", "d id count? p"),
    ("bar.red", "barrier cta? red op=popc aligned? u32", "d id count? p"),
    ("bar.red", "barrier cta? red op=and|or aligned? pred", "d id count? p"),
    ("bar.warp", "bar warp sync", "mask"),
    ("fence", "membar level=cta|gl|sys", ""),
    ("fence", f"fence sem=sc|acq_rel|acquire|release? scope={SCOPE}", ""),
    # control (9.7.12)
    ("bra", "bra uni?", "target"),
    ("brx.idx", "brx idx uni?", "n targets"),
    ("call", "call uni?", "args?"),
    ("ret", "ret uni?", ""),
    ("exit", "exit", ""),
    ("trap", "trap", ""),
    ("nanosleep", "nanosleep u32", "a"),
)


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a pattern: the words it takes, and the slot it fills."""

    slot: str
    words: frozenset[str]
    optional: bool


@dataclass(frozen=True, slots=True)
class Form:
    """A row of the table, its pattern split into elements."""

    name: str
    pattern: str
    elements: tuple[Element, ...]
    roles: tuple[str, ...]
    least: int


@dataclass(frozen=True)
class Match:
    """A form and what an opcode puts into its slots ("" where it puts nothing)."""

    form: Form
    slots: dict[str, str]


def _element(word: str) -> Element:
    optional = word.endswith("?")
    slot, _, words = word.rstrip("?").partition("=")
    return Element(slot, frozenset((words or slot).split("|")), optional)


def _form(name: str, pattern: str, operands: str) -> Form:
    elements = tuple(_element(word) for word in pattern.split()[1:])
    roles = operands.split()
    least = sum(not role.endswith("?") for role in roles)
    return Form(name, pattern, elements, tuple(role.rstrip("?") for role in roles), least)


FORMS: tuple[Form, ...] = tuple(_form(*row) for row in ROWS)
_BY_OPCODE: dict[str, list[Form]] = {}
for _f in FORMS:
    _BY_OPCODE.setdefault(_f.pattern.split()[0], []).append(_f)


def _fill(form: Form, modifiers: tuple[str, ...]) -> dict[str, str] | None:
    slots = {element.slot: "" for element in form.elements}
    last = -1  # the last ordered element that is filled
    for modifier in modifiers:
        for i, element in enumerate(form.elements):
            ordered = element.slot in ORDERED
            if slots[element.slot] or modifier not in element.words or (ordered and i < last):
                continue
            slots[element.slot] = modifier
            last = i if ordered else last
            break
        else:
            return None
    missing = any(not e.optional and not slots[e.slot] for e in form.elements)
    return None if missing else slots


@lru_cache(maxsize=4096)
def match(opcode: tuple[str, ...]) -> Match | None:
    """The form of an opcode (split at dots), or None if no row takes all of it."""
    for form in _BY_OPCODE.get(opcode[0], ()):
        slots = _fill(form, opcode[1:])
        if slots is not None:
            return Match(form, slots)
    return None
