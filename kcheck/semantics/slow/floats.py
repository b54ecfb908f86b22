"""Float arithmetic over the reals, scalar and packed (PTX ISA 9.7.3 to 9.7.5).

Rounding modes and `.ftz` mean nothing; `.sat` clamps to [0, 1], `.relu` at 0.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.slow.decode import Describe, Pure, handles, pure
from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.formats import BITS
from kcheck.semantics.slow.integer import Numbers
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.operands import ABSORB, Decoder, Slots, kind_bits
from kcheck.semantics.slow.state import Step, Thread
from kcheck.semantics.slow.units import Real, Undef, Unit, as_real, bitwise


def finish(slots: Slots, value: Number) -> Number:
    """A result clamped as `.sat` or `.relu` say."""
    if slots.get("sat"):
        return value.clamp(0, 1)
    if slots.get("relu"):
        return relu(value)
    return value


def relu(value: Number) -> Number:
    """max(x, 0); a nan stays."""
    return value if value.is_nan else value.maximum(value.of(0))


def maximum(a: Number, b: Number) -> Number:
    """`max` without `.NaN`."""
    return a.maximum(b)


def minimum(a: Number, b: Number) -> Number:
    """`min` without `.NaN`."""
    return a.minimum(b)


def _strict(function: Callable[[Number, Number], Number]) -> Callable[[Number, Number], Number]:
    """`.NaN`: a nan if either is."""

    def checked(a: Number, b: Number) -> Number:
        return a if a.is_nan else b if b.is_nan else function(a, b)

    return checked


def reciprocal(a: Number) -> Number:
    """1 / x."""
    return a.of(1).div(a)


_OPERATIONS: dict[str, tuple[int, Callable[..., Number]]] = {
    "add": (2, lambda a, b: a.add(b)),
    "sub": (2, lambda a, b: a.sub(b)),
    "mul": (2, lambda a, b: a.mul(b)),
    "fma": (3, lambda a, b, c: a.fma(b, c)),
    "div": (2, lambda a, b: a.div(b)),
    "rcp": (1, reciprocal),
    "sqrt": (1, lambda a: a.sqrt()),
    "rsqrt": (1, lambda a: a.rsqrt()),
    "ex2": (1, lambda a: a.exp2()),
    "lg2": (1, lambda a: a.log2()),
    "sin": (1, lambda a: a.sin()),
    "cos": (1, lambda a: a.cos()),
    "tanh": (1, lambda a: a.tanh()),
}


def _arithmetic(name: str) -> Describe:
    arity, function = _OPERATIONS[name]

    def describe(slots: Slots, numbers: Numbers) -> Pure:
        kind = slots["type"]
        halves, fmt = kind.endswith("x2"), kind.removesuffix("x2")
        mode = slots.get("rnd", "")
        directed = mode in ("rz", "rm", "rp")
        if not (slots.get("sat") or slots.get("relu") or directed):
            return Pure(fmt, (fmt,) * arity, function, halves=halves)

        def finished(*values: Number) -> Number:
            value = function(*values)
            return finish(slots, value.rounded(fmt, mode) if directed else value)

        return Pure(fmt, (fmt,) * arity, finished, halves=halves)

    return describe


_HALVES = ("add", "sub", "mul", "fma", "ex2", "tanh")
for _name in _OPERATIONS:
    pure(f"float.{_name}")(_arithmetic(_name))
for _name in _HALVES:
    pure(f"half.{_name}")(_arithmetic(_name))


def _extremum(function: Callable[[Number, Number], Number]) -> Describe:
    def describe(slots: Slots, numbers: Numbers) -> Pure:
        kind = slots["type"]
        fmt = kind.removesuffix("x2")
        chosen = _strict(function) if slots.get("NaN") else function
        return Pure(fmt, (fmt, fmt), chosen, halves=kind.endswith("x2"))

    return describe


pure("float.max", "half.max")(_extremum(maximum))
pure("float.min", "half.min")(_extremum(minimum))


# neg, abs, copysign act on the sign bit: they keep the bits of integers -------------------------


def _sign_form(function: Callable[[int, int], int], real: Callable[[Number], Number]) -> Describe:
    def describe(slots: Slots, numbers: Numbers) -> Pure:
        kind = slots["type"]
        bits = kind_bits(kind)
        signs = 0x80008000 if kind.endswith("x2") else 1 << bits - 1

        def apply(a: Unit) -> Unit:
            if isinstance(a, Real) and bits == BITS[a.fmt]:
                return Real(a.fmt, real(a.number))
            return _whole(a, kind, numbers, lambda x: function(x, signs), real)

        return Pure(f"b{bits}", (f"b{bits}",), apply)

    return describe


def _whole(
    a: Unit,
    kind: str,
    numbers: Numbers,
    ints: Callable[[int], int],
    real: Callable[[Number], Number],
) -> Unit:
    """The sign operation on bits, or on the widened bf16 that an f32 register may hold."""
    if kind == "f32" and not isinstance(a, int):
        number = as_real(a, "f32", numbers)
        return number if isinstance(number, Undef) else Real("f32", real(number))
    return bitwise(ints, (a,), kind_bits(kind))


pure("float.neg", "half.neg")(_sign_form(lambda x, signs: x ^ signs, lambda x: x.neg()))
pure("float.abs", "half.abs")(_sign_form(lambda x, signs: x & ~signs, lambda x: x.absolute()))


@handles("float.copysign")
def _copysign(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """d = the magnitude of b with the sign of a."""
    kind = slots["type"]
    bits = kind_bits(kind)
    put = decoder.store(instr.operands[0], kind)
    sign_of = decoder.raw(instr.operands[1], bits)
    magnitude = decoder.load(instr.operands[2], kind)

    def step(t: Thread) -> None:
        source, value = sign_of(t), magnitude(t)
        if value is ABSORB or isinstance(source, Undef):
            put(t, ABSORB)
            return
        positive = value.absolute()
        put(t, positive.neg() if _negative(source, kind, decoder.numbers) else positive)

    return step


def _negative(unit: Unit, kind: str, numbers: Numbers) -> bool:
    """The sign bit; that of a real zero or nan is not known."""
    if isinstance(unit, int):
        return bool(unit >> kind_bits(kind) - 1 & 1)
    number = as_real(unit, kind, numbers)
    if isinstance(number, Undef) or number.is_nan:
        raise Unsupported("unsupported.sign-of-nan")
    if number.special is None and number.sign() == 0 and not number.positive_zero:
        raise Unsupported("unsupported.sign-of-zero")
    return number.negative()


@handles("float.min.xorsign", "float.max.xorsign")
def _xorsign(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
    """The extremum of the magnitudes, negative where one of the signs is."""
    target, *sources = instr.operands
    kind, bits = slots["type"], kind_bits(slots["type"])
    extremum = maximum if instr.opcode[0] == "max" else minimum
    function = _strict(extremum) if slots["NaN"] else extremum
    put = decoder.store(target, kind)
    raws = [decoder.raw(op, bits) for op in sources]
    loads = [decoder.load(op, kind) for op in sources]

    def step(t: Thread) -> None:
        x, y = (load(t) for load in loads)
        if x is ABSORB or y is ABSORB:
            put(t, ABSORB)
            return
        size = function(x.absolute(), y.absolute())
        first, second = (_negative(raw(t), kind, decoder.numbers) for raw in raws)
        put(t, size if first == second else size.neg())

    return step


_TESTS: dict[str, Callable[[Number], bool]] = {
    "finite": lambda a: a.special is None,
    "infinite": lambda a: a.special is not None and not a.is_nan,
    "number": lambda a: not a.is_nan,
    "notanumber": lambda a: a.is_nan,
}


@pure("float.testp")
def _testp(slots: Slots, numbers: Numbers) -> Pure:
    return Pure("pred", (slots["type"],), _TESTS[slots["test"]])


# the least normal number is 2 to this
_LEAST_NORMAL = {"f32": -126, "f64": -1022}


@pure("float.testp.class")
def _testp_class(slots: Slots, numbers: Numbers) -> Pure:
    """A zero is normal; where the number is not exactly known, its class is not."""
    least = Fraction(2) ** _LEAST_NORMAL[slots["type"]]
    subnormal = slots["test"] == "subnormal"

    def function(a: Number) -> bool:
        value = a.exact()
        if value is None:
            raise Unsupported("unsupported.testp")
        if not isinstance(value, Fraction):
            return False
        return (value != 0 and abs(value) < least) == subnormal

    return Pure("pred", (slots["type"],), function)
