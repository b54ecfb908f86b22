"""From an instruction to a bound step, once per kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from kcheck.ptx_frontend.forms import Form, match
from kcheck.ptx_frontend.tree import Instr, Not, Operand
from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.operands import (
    ABSORB,
    Decoder,
    Get,
    Load,
    Put,
    Slots,
    kind_bits,
)
from kcheck.semantics.slow.state import Signal, Step, Stop, Thread
from kcheck.semantics.slow.units import (
    UNDEF,
    Pointer,
    Real,
    Undef,
    Unit,
    as_real,
    concat,
    slice_bits,
)

Handler = Callable[[Decoder, Instr, Slots], Step]
HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Registers the handler of forms."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


@dataclass(frozen=True)
class Pure:
    """An instruction that only maps values: kinds of result and operands, and the function.

    `halves`: the kinds are those of one half of a packed pair, and the function maps each half.
    `address`: the result stays in the buffer of its operands' addresses; but the `difference`
    of two addresses is a number.
    """

    result: str
    args: tuple[str, ...]
    function: Callable[..., Any]
    halves: bool = False
    address: bool = False
    difference: bool = False


Describe = Callable[[Slots, "type[Number]"], Pure]


def pure(*names: str) -> Callable[[Describe], Describe]:
    """Registers forms by a function from their slots (and the number class) to what they map."""

    def register(describe: Describe) -> Describe:
        def handler(decoder: Decoder, instr: Instr, slots: Slots) -> Step:
            return _bind(decoder, instr, describe(slots, decoder.numbers))

        for name in names:
            HANDLERS[name] = handler
        return describe

    return register


def _bind(decoder: Decoder, instr: Instr, spec: Pure) -> Step:
    target, *sources = instr.operands
    if spec.halves:
        return _bind_halves(decoder, target, sources, spec)
    put = decoder.store(target, spec.result)
    loads = [decoder.load(op, kind) for op, kind in zip(sources, spec.args, strict=True)]
    function = spec.function
    if spec.address:
        gets = [decoder.raw(op, kind_bits(k)) for op, k in zip(sources, spec.args, strict=True)]
        return _address_step(put, gets, loads, spec)
    return _step(put, loads, function)


def _step(put: Put, loads: list[Load], function: Callable[..., Any]) -> Step:
    if len(loads) == 1:
        (load,) = loads

        def one(t: Thread) -> None:
            a = load(t)
            put(t, ABSORB if a is ABSORB else function(a))

        return one
    if len(loads) == 2:
        first, second = loads

        def two(t: Thread) -> None:
            a = first(t)
            b = second(t)
            put(t, ABSORB if a is ABSORB or b is ABSORB else function(a, b))

        return two

    def many(t: Thread) -> None:
        values = [load(t) for load in loads]
        put(t, ABSORB if ABSORB in values else function(*values))

    return many


def _address_step(put: Put, gets: list[Get], loads: list[Load], spec: Pure) -> Step:
    def step(t: Thread) -> None:
        values = [load(t) for load in loads]
        if ABSORB in values:
            put(t, ABSORB)
            return
        units, result = [get(t) for get in gets], spec.function(*values)
        if spec.difference and all(type(unit) is Pointer for unit in units):
            put(t, result)
        else:
            put(t, keep_home(units, result))

    return step


def keep_home(units: Sequence[Unit], result: Any) -> Any:
    """The result of an operation on addresses, in the buffer that they all lie in."""
    homes = [unit.home for unit in units if type(unit) is Pointer]
    if not homes or not isinstance(result, int):
        return result
    return Pointer(result, homes[0] if all(home == homes[0] for home in homes) else None)


def _bind_halves(decoder: Decoder, target: Operand, sources: list[Operand], spec: Pure) -> Step:
    gets = [decoder.raw(op, 32) for op in sources]
    put = decoder.store(target, "b32")
    numbers, fmt = decoder.numbers, spec.result

    def half(units: list[Unit], low: int) -> Any:
        values: list[Any] = []
        for unit, kind in zip(units, spec.args, strict=True):
            value = as_real(slice_bits(unit, low, 16), kind, numbers)
            if isinstance(value, Undef):
                return ABSORB
            values.append(value)
        return spec.function(*values)

    def step(t: Thread) -> None:
        units = [get(t) for get in gets]
        put(t, concat((as_unit(half(units, low), fmt), 16) for low in (0, 16)))

    return step


def as_unit(value: Any, fmt: str) -> Unit:
    """A number (or ABSORB) as a unit of a float format."""
    return UNDEF if value is ABSORB else Real(fmt, value.rounded(fmt))


def decode(decoder: Decoder, instr: Instr) -> Step:
    """The step of one instruction, guard and all; unknown forms fail when executed."""
    try:
        step = _unguarded(decoder, instr)
    except Unsupported as error:
        step = _refuse(error.reason)
    if instr.guard is None:
        return step
    operand = Not(instr.guard.reg) if instr.guard.negated else instr.guard.reg
    return _guarded(decoder.load(operand, "pred"), step, instr)


def _unguarded(decoder: Decoder, instr: Instr) -> Step:
    found = match(instr.opcode)
    handler = HANDLERS.get(found.form.name) if found else None
    if found is None or handler is None:
        raise Unsupported(f"unsupported.{instr.name}")
    if found.form.name != "call" and not _fits(found.form, len(instr.operands)):
        raise Unsupported("unsupported.operands")
    return handler(decoder, instr, found.slots)


def _fits(form: Form, count: int) -> bool:
    return form.least <= count <= len(form.roles)


def _refuse(reason: str) -> Step:
    def step(t: Thread) -> NoReturn:
        raise Unsupported(reason)

    return step


def _guarded(predicate: Load, step: Step, instr: Instr) -> Step:
    branches = instr.opcode[0] in ("bra", "brx")
    reason = "undefined.branch" if branches else "undefined.predicate"

    def guarded(t: Thread) -> Signal | None:
        value = predicate(t)
        if value is ABSORB:
            t.cta.find(reason, f"the guard of {instr.name} is undefined", instr, t)
            if branches:
                raise Stop
            return None
        return step(t) if value else None

    return guarded
