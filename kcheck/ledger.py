"""The assumptions on which a verdict rests (DESIGN.md 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kcheck.canon.ranged import RangedDomain
from kcheck.launch import Launch, Tensor
from kcheck.outputs import Comparison
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.powers import HALVES, POWER
from kcheck.ptx_frontend.tree import Flt, Imm, Vec
from kcheck.semantics.codec import literal_bits
from kcheck.semantics.values import FMT_BYTES
from kcheck.vacuity import divides
from kcheck.verdict import Verdict

if TYPE_CHECKING:
    from kcheck.field_runs import FieldRun
    from kcheck.question import Question
    from kcheck.semantics.execution import Execution

SIDES = ("reference", "subject")
LOGARITHMS = frozenset({"lg2", "logf", "log2f", "log10f", "log1pf", POWER})
# what lies outside the domain of a function is no number
DOMAINS = {
    ("arguments of lg2 positive", "lg2"): LOGARITHMS,
    ("arguments of square roots not negative", "sqrt"): frozenset({"sqrt", "rsqrt", HALVES}),
}


def assumptions(
    question: Question, run: FieldRun, comparisons: dict[str, Comparison]
) -> tuple[str, ...]:
    """One line each; what both sides assume is said once."""
    return tuple(dict.fromkeys(_assumptions(question, run, comparisons)))


def _assumptions(
    question: Question, run: FieldRun, comparisons: dict[str, Comparison]
) -> Iterator[str]:
    sides = (question.reference, question.subject)
    if not question.safety:
        yield "race freedom NOT CHECKED (--no-safety)"
    exact = "" if question.identify else ", literals are exact"
    yield f"reals: rounding modes, .ftz and float formats mean nothing{exact}"
    yield from _literals(question, run)
    yield from _functions(run)
    yield from _launches(question.reference.launch, question.subject.launch)
    covered = f"all {question.reference.launch.ctas} CTAs run"
    yield covered if question.ctas is None else f"CTA {question.ctas[0]} only"
    yield "finite inputs"
    if any(map(divides, sides)):
        yield _within("divisors nonzero", run, "div")
    names = {idiom.name for side in (run.reference, run.subject) for idiom in side.idioms}
    for (assumption, name), opcodes in DOMAINS.items():
        if names & opcodes or any(i.opcode[0] in opcodes for s in sides for i in s.kernel.code):
            yield _within(assumption, run, name)
    others = "other " if any(side.launch.alias for side in sides) else ""
    yield f"{others}buffers do not alias, bases aligned to 256 bytes"
    for side in sides:
        for param in side.launch.params:
            if isinstance(param, Tensor) and param.values is not None:
                yield f"`{param.name}` holds the values: of {side.launch.path}"
            if isinstance(param, Tensor) and param.init == "zero":
                yield f"the host clears `{param.name}`"
    for side in sides:
        for variable in side.kernel.variables.values():
            if variable.space in ("global", "const") and variable.init is not None:
                yield f"the device variable `{variable.name}` holds its initializer"
    if any(side.plan.waits for side in sides):
        yield (
            "threads that others wait for come to run: CTAs start in order, and all are resident "
            "at once where one waits for a later one"
        )
    if any(side.plan.tickets for side in sides):
        yield "whoever drew the last ticket reads after that, with no fence of its own"
    yield from question.ledger
    yield from _lines_of(
        question,
        run,
        lambda side: [at for at, n in side.same_value.items() if n],
        "lanes store equal values to one address in the {name} (line {lines})",
    )
    yield from _lines_of(
        question,
        run,
        lambda side: side.extremes,
        "integer atomics take maxima or minima of floats by their bits in the {name}, "
        "none of which is -0.0 (line {lines})",
    )
    yield from _lines_of(
        question,
        run,
        lambda side: side.large_sums,
        "data and a large constant are added without rounding in the {name} (line {lines})",
    )
    yield from _idle(question, comparisons)
    if any(i.opcode[0] in ("atom", "red") for s in sides for i in s.kernel.code):
        yield "float atomics add in any order"
    if not question.safety and any(i.opcode[0] == "cp" for s in sides for i in s.kernel.code):
        yield "cp.async copies are complete when they are read (a matter of races)"
    chosen = " (chosen by the user)" if question.fixed else ""
    yield f"seed {question.seed}{chosen}, keyed hashes behave as random functions"
    yield "ptxas and the hardware below PTX are trusted"


def _literals(question: Question, run: FieldRun) -> Iterator[str]:
    """Literals that stood for other numbers than they are, with the first lines that hold them."""
    literals = {**run.reference.identified, **run.subject.identified}
    if not literals:
        return
    lines = [first_lines(side.kernel) for side in (question.reference, question.subject)]
    for (fmt, bits), ident in sorted(literals.items()):
        number = run.reference.reals.constants.number(ident)
        size = FMT_BYTES[fmt]
        found = [at.get((size, bits)) for at in lines]
        where = [f"{n} in the {side}" for n, side in zip(found, SIDES, strict=True) if n]
        written = f"0{'fd'[size == 8]}{bits:0{2 * size}X}"
        place = f" (line {', '.join(where)})" if where else ""
        yield f"literal {written} = {number}{place}"


def _functions(run: FieldRun) -> Iterator[str]:
    """Library functions that were recognized, with their first places."""
    places: dict[str, list[str]] = {}
    for name, side in zip(SIDES, (run.reference, run.subject), strict=True):
        for idiom in side.idioms:
            first, last = idiom.lines
            places.setdefault(idiom.name, []).append(f"{name} {first}-{last}")
    for function, found in sorted(places.items()):
        more = f", {len(found) - 4} more" if len(found) > 4 else ""
        yield f"{function} identified (lines {', '.join(found[:4])}{more})"


def first_lines(kernel: Kernel) -> dict[tuple[int, int], int]:
    """(bytes, bits) of each 4- and 8-byte literal -> the first line of the PTX that holds it."""
    lines: dict[tuple[int, int], int] = {}
    for instr in kernel.code:
        for operand in instr.operands:
            for item in operand.items if isinstance(operand, Vec) else (operand,):
                for size in (4, 8):
                    bits = None
                    if isinstance(item, Flt):
                        bits = literal_bits(item.bits, item.width, size)
                    elif isinstance(item, Imm):
                        bits = item.value & (1 << 8 * size) - 1
                    if bits is not None:
                        lines.setdefault((size, bits), instr.span.line)
    return lines


def method(verdict: Verdict) -> tuple[str, ...]:
    """What the answer rests on: engine, trials, theorem."""
    counts = {"trials": 0, "levels": 0, **verdict.statistics}
    rows = {
        "exact": "equality by exact normal forms",
        "identity-testing": f"equality by identity testing ({counts['trials']} trials, "
        f"{counts['levels']} levels, theorem in docs/identity-testing.md)",
        "happens-before": "safety by happens-before: one schedule stands for all",
    }
    return (rows[verdict.method],) if verdict.method in rows else ()


def _within(assumption: str, run: FieldRun, function: str) -> str:
    """The assumption, and whether it follows from the preconditions."""
    ranged = isinstance(run.domain, RangedDomain) and function not in run.domain.beyond
    return f"{assumption} (follows from the preconditions)" if ranged else assumption


def _lines_of(
    question: Question,
    run: FieldRun,
    chosen: Callable[[Execution], Iterable[int]],
    said: str,
) -> Iterator[str]:
    """What is said of some instructions of each side, with their lines."""
    alone = question.subject is question.reference
    sides = [("kernel" if alone else "subject", question.subject, run.subject)]
    if run.subject is not run.reference:
        sides.insert(0, ("reference", question.reference, run.reference))
    for name, side, execution in sides:
        code = side.kernel.code
        lines = sorted({code[at].span.line for at in chosen(execution)})
        if lines:
            where = ", ".join(map(str, lines[:4])) + (", ..." if len(lines) > 4 else "")
            yield said.format(name=name, lines=where)


def _launches(reference: Launch, subject: Launch) -> Iterator[str]:
    yield f"launch {_launch(reference)}"
    if _launch(reference) != _launch(subject):
        yield f"subject's launch {_launch(subject)}"


def _launch(launch: Launch) -> str:
    block = [n for n in launch.block]
    while len(block) > 1 and block[-1] == 1:
        block.pop()
    shared = f" dynamic shared {launch.dynamic_shared}" if launch.dynamic_shared else ""
    return f"grid {_by(launch.grid)} block {_by(tuple(block))}{shared}"


def _by(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers))


def _idle(question: Question, comparisons: dict[str, Comparison]) -> Iterator[str]:
    for name, c in comparisons.items():
        if c.idle.all():
            yield f"WARNING: nothing is written to `{name}`"
        elif c.constant:
            yield f"WARNING: `{name}` depends on no input"
        if c.partial.any():
            yield (
                f"{int(c.partial.sum())} elements of `{name}` are infinite or NaN in the reference "
                "for some inputs; where it is NaN (inf - inf, ...) nothing is compared"
            )
        if c.idle.any() and not c.idle.all():
            who = "neither side" if question.ctas is None else f"CTA {question.ctas[0]} of no side"
            yield f"{int(c.idle.sum())} elements of `{name}` are written by {who}"
