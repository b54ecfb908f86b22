"""Integer arithmetic (PTX ISA 9.7.1, 9.7.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.slow.decode import Describe, Pure, handles, pure
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.operands import ABSORB, Decoder, Slots, kind_bits
from kcheck.semantics.slow.state import Step, Thread

Numbers = type[Number]


def limits(kind: str) -> tuple[int, int]:
    """The least and the largest value of an integer type."""
    bits = kind_bits(kind)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def saturate(value: int, kind: str) -> int:
    """The nearest value of an integer type."""
    low, high = limits(kind)
    return max(low, min(high, value))


def truncated_div(a: int, b: int) -> Any:
    """a / b towards 0; by 0 it is unspecified, which is taken as undefined."""
    if not b:
        return ABSORB
    return abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))


def truncated_rem(a: int, b: int) -> Any:
    """a - b (a / b): the sign of a."""
    return a - b * truncated_div(a, b) if b else ABSORB


def _same(arity: int, function: Callable[..., Any], address: bool = False) -> Describe:
    """Operands and result of one type."""

    def describe(slots: Slots, numbers: Numbers) -> Pure:
        kind = slots["type"]
        return Pure(kind, (kind,) * arity, function, address=address)

    return describe


def _saturated(arity: int, function: Callable[..., int]) -> Describe:
    def describe(slots: Slots, numbers: Numbers) -> Pure:
        kind = slots["type"]
        return Pure(kind, (kind,) * arity, lambda *values: saturate(function(*values), kind))

    return describe


pure("int.add")(_same(2, lambda a, b: a + b, address=True))


@pure("int.sub")
def _sub(slots: Slots, numbers: Numbers) -> Pure:
    kind = slots["type"]
    return Pure(kind, (kind, kind), lambda a, b: a - b, address=True, difference=True)


pure("int.add.sat")(_saturated(2, lambda a, b: a + b))
pure("int.sub.sat")(_saturated(2, lambda a, b: a - b))
pure("int.div")(_same(2, truncated_div))
pure("int.rem")(_same(2, truncated_rem))
pure("int.abs")(_same(1, abs))
pure("int.neg")(_same(1, lambda a: -a))
pure("int.min")(_same(2, min, address=True))
pure("int.max")(_same(2, max, address=True))
pure("int.min.relu")(_same(2, lambda a, b: max(min(a, b), 0)))
pure("int.max.relu")(_same(2, lambda a, b: max(a, b, 0)))
pure("int.sad")(_same(3, lambda a, b, c: c + abs(a - b)))


@pure("int.mul")
def _mul(slots: Slots, numbers: Numbers) -> Pure:
    kind = slots["type"]
    shift = kind_bits(kind) if slots["mode"] == "hi" else 0
    return Pure(kind, (kind, kind), lambda a, b: a * b >> shift)


@pure("int.mad")
def _mad(slots: Slots, numbers: Numbers) -> Pure:
    kind = slots["type"]
    shift = kind_bits(kind) if slots["mode"] == "hi" else 0
    return Pure(kind, (kind,) * 3, lambda a, b, c: (a * b >> shift) + c, address=True)


@pure("int.mad.sat")
def _mad_sat(slots: Slots, numbers: Numbers) -> Pure:
    return Pure("s32", ("s32",) * 3, lambda a, b, c: saturate((a * b >> 32) + c, "s32"))


def wide(kind: str) -> str:
    """The type of twice the width."""
    return f"{kind[0]}{2 * kind_bits(kind)}"


@pure("int.mul.wide")
def _mul_wide(slots: Slots, numbers: Numbers) -> Pure:
    kind = slots["type"]
    return Pure(wide(kind), (kind, kind), lambda a, b: a * b)


@pure("int.mad.wide")
def _mad_wide(slots: Slots, numbers: Numbers) -> Pure:
    kind = slots["type"]
    result = wide(kind)
    return Pure(result, (kind, kind, result), lambda a, b, c: a * b + c, address=True)


def _product24(slots: Slots) -> Callable[[int, int], int]:
    """The product of the low 24 bits, its low 32 or its high 32 of 48 bits."""
    signed, shift = slots["type"] == "s32", 16 if slots["mode"] == "hi" else 0

    def low24(a: int) -> int:
        a &= 0xFFFFFF
        return a - (1 << 24) if signed and a >> 23 else a

    return lambda a, b: low24(a) * low24(b) >> shift


def _wrapped(value: int, kind: str) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if kind == "s32" and value >> 31 else value


@pure("int.mul24")
def _mul24(slots: Slots, numbers: Numbers) -> Pure:
    kind = slots["type"]
    return Pure(kind, (kind, kind), _product24(slots))


@pure("int.mad24")
def _mad24(slots: Slots, numbers: Numbers) -> Pure:
    kind, product = slots["type"], _product24(slots)
    return Pure(kind, (kind,) * 3, lambda a, b, c: product(a, b) + c)


@pure("int.mad24.sat")
def _mad24_sat(slots: Slots, numbers: Numbers) -> Pure:
    product = _product24({**slots, "mode": "hi"})
    return Pure(
        "s32", ("s32",) * 3, lambda a, b, c: saturate(_wrapped(product(a, b), "s32") + c, "s32")
    )


def _lanes(value: int, kind: str, width: int) -> list[int]:
    """The signed or unsigned fields of a 32-bit word, low end first."""
    half = 1 << width - 1
    fields = [value >> at & (2 * half - 1) for at in range(0, 32, width)]
    return [f - 2 * half if kind[0] == "s" and f & half else f for f in fields]


def _by_halves(function: Callable[[int, int], int]) -> Describe:
    """Words of two 16-bit fields; `.relu` cuts each result at 0."""

    def describe(slots: Slots, numbers: Numbers) -> Pure:
        kind, relu = slots["type"], slots.get("relu")

        def word(a: int, b: int) -> int:
            pairs = zip(_lanes(a, kind, 16), _lanes(b, kind, 16), strict=True)
            results = [function(x, y) for x, y in pairs]
            low, high = (max(0, r) if relu else r for r in results)
            return (high & 0xFFFF) << 16 | (low & 0xFFFF)

        return Pure("u32", ("u32", "u32"), word)

    return describe


pure("int.add2")(_by_halves(lambda a, b: a + b))
pure("int.min2")(_by_halves(min))
pure("int.max2")(_by_halves(max))


def _dot(slots: Slots, width: int, first: int) -> Pure:
    """c + sum of a's fields of `width` bits times b's bytes from the `first` on."""
    a_kind, b_kind = slots["atype"], slots["btype"]
    result = "s32" if "s32" in (a_kind, b_kind) else "u32"

    def function(a: int, b: int, c: int) -> int:
        pairs = zip(_lanes(a, a_kind, width), _lanes(b, b_kind, 8)[first:], strict=False)
        return c + sum(x * y for x, y in pairs)

    return Pure(result, (a_kind, b_kind, result), function)


@pure("int.dp4a")
def _dp4a(slots: Slots, numbers: Numbers) -> Pure:
    return _dot(slots, 8, 0)


@pure("int.dp2a")
def _dp2a(slots: Slots, numbers: Numbers) -> Pure:
    return _dot(slots, 16, 2 if slots["mode"] == "hi" else 0)


# extended precision: the carry flag lives in the thread ------------------------------------------


@handles("int.add.cc", "int.addc", "int.sub.cc", "int.subc", "int.mad.cc", "int.madc")
def _carrying(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    opcode, kind = instr.opcode[0], "u" + slots["type"][1:]
    takes, gives = opcode.endswith("c"), "cc" in instr.opcode
    negates = opcode.startswith("sub")
    bits = kind_bits(kind)
    put = decoder.store(instr.operands[0], kind)
    operand_kind = slots["type"] if opcode.startswith("mad") else kind
    loads = [decoder.load(op, operand_kind) for op in instr.operands[1:]]
    shift = bits if slots.get("mode") == "hi" else 0
    mask = (1 << bits) - 1

    def step(t: Thread) -> None:
        values = [load(t) for load in loads]
        if ABSORB in values or (takes and t.carry is None):
            put(t, ABSORB)
            t.carry = None if gives else t.carry
            return
        if len(values) == 3:
            a, b = values[0] * values[1] >> shift & mask, values[2] & mask
        else:
            a, b = values
        carry = (t.carry or 0) if takes else 0
        total = a - b - carry if negates else a + b + carry
        put(t, total & mask)
        if gives:
            t.carry = total >> bits & 1

    return step
