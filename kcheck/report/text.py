"""A verdict as text for people."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np

from kcheck.verdict import Finding, Location, Verdict, Witness, element, number_text

# more findings and next steps than this are counted, not printed
SHOWN = 6
# entries of an input that are printed
INLINE = 8
# how the scripts of a witness are run, by suffix
RUN = {".py": "python {0}", ".cu": "nvcc -o witness {0} -lcuda && ./witness   (needs a GPU)"}
# how a finding was confirmed, where that is worth a line
CONFIRMED = {
    "schedules": "confirmed by two schedules that order the two accesses differently",
    "definition": "confirmed by its definition: nothing orders them in a second evaluator's log",
    "no": "seen, not confirmed",
}
RELATION = {"proved": "=", "proved-for-cta": "=", "refuted": "!="}


def verdict_text(verdict: Verdict, width: int = 100) -> str:
    """The report, without a newline at its end: a head line, then indented details."""
    lines = [_head(verdict)]
    if verdict.witness:
        lines += _witness_lines(verdict.witness)
    for finding in verdict.findings[:SHOWN]:
        lines += finding_lines(finding)
    if len(verdict.findings) > SHOWN:
        lines.append(f"  and {len(verdict.findings) - SHOWN} more findings (--json has all)")
    lines += _wrapped("try: ", "; ".join(verdict.next_steps[:SHOWN]), width)
    lines += _wrapped("assumes: ", "; ".join(verdict.ledger), width)
    return "\n".join(lines)


def _head(verdict: Verdict) -> str:
    """`verdict  reason  element  a = b   n of m outputs, k CTAs, method (error < 2^-N), 1.1 s`."""
    parts = [verdict.verdict]
    if verdict.reason:
        parts.append(verdict.reason)
    if verdict.witness:
        parts.append(element(verdict.witness.buffer, verdict.witness.index))
    if any(verdict.kernels):
        reference, subject = verdict.kernels
        relation = RELATION.get(verdict.verdict, "?=")
        parts.append(f"{reference} {relation} {subject}" if reference else subject)
    equal, compared = verdict.outputs
    facts = []
    if compared:
        facts.append(f"{equal} of {compared} outputs")
    if verdict.ctas:
        facts.append(f"{verdict.ctas} {'CTA' if verdict.ctas == 1 else 'CTAs'}")
    if verdict.method:
        facts.append(f"{verdict.method}{_bound(verdict.error_bound_log2)}")
    facts.append(f"{verdict.seconds:.1f} s")
    return "  ".join(parts) + "   " + ", ".join(facts)


def _bound(log2: float | None) -> str:
    # -112.9 is a bound of 2^-112: never round towards a smaller error
    return "" if log2 is None else f" (error < 2^-{int(-log2)})"


def _witness_lines(witness: Witness) -> list[str]:
    name = element(witness.buffer, witness.index)
    lines = [
        f"  {name} = {_enclosure(witness.reference)} in the reference",
        f"  {name} = {_enclosure(witness.subject)} in the subject",
    ]
    saved = f", saved in {witness.path}" if witness.path else ""
    lines.append(f"  on an input of the family `{witness.family}`{saved}")
    if witness.inputs:
        lines.append(f"  {_input(witness)}")
    return lines + [f"  run both on it: {RUN[Path(x).suffix].format(x)}" for x in witness.scripts]


def _input(witness: Witness) -> str:
    """`A[0,3] = 1, B[3,5] = -2, else 0`, or how many entries there are."""
    entries = witness.entries
    if len(entries) > INLINE:
        values = [value for *_, value in entries]
        total = sum(np.size(x) for x in witness.inputs.values())
        return (
            f"{len(entries)} of {total} entries are not 0: {number_text(min(values))} to "
            f"{number_text(max(values))}"
        )
    shown = [
        f"{element(name, index) if index else name} = {number_text(x)}"
        for name, index, x in entries
    ]
    return ", ".join([*shown, "else 0"]) if shown else "all entries are 0"


def _enclosure(bounds: tuple[float, float]) -> str:
    """The value, with as many digits as its two bounds share, or both bounds."""
    low, high = bounds
    if low == high:
        return number_text(low)
    for digits in range(9, 3, -1):
        shown = f"{low:.{digits}g}"
        if shown == f"{high:.{digits}g}":
            return shown
    return f"[{number_text(low)}, {number_text(high)}]"


def finding_lines(finding: Finding) -> list[str]:
    """The reason and the side, then each place with its instruction."""
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    side = "" if finding.side == "kernel" else f", {finding.side}"
    lines = [f"  {finding.reason}{side}: {finding.message}{times}"]
    lines += [f"    {_place(location)}" for location in finding.locations]
    lines += [f"    {CONFIRMED[finding.confirmed]}"] if finding.confirmed in CONFIRMED else []
    found = finding.first_difference
    if found is None:
        return lines
    return [
        *lines,
        f"    first difference: {_made(found.subject, found.subject_at)} in the subject",
        f"      against {_made(found.reference, found.reference_at)} in the reference",
    ]


def _made(formula: str, place: Location | None) -> str:
    return formula if place is None else f"{_place(place)}   makes {formula}"


def _place(location: Location) -> str:
    who = [
        f"{word} ({','.join(map(str, index))})"
        for word, index in (("thread", location.thread), ("CTA", location.cta))
        if index is not None
    ]
    by = f"   by {', '.join(who)}" if who else ""
    of = f"   of {', '.join(location.source)}" if location.source else ""
    return f"{location.file}:{location.line}: {location.text}{by}{of}"


def _wrapped(label: str, text: str, width: int) -> list[str]:
    if not text:
        return []
    return textwrap.wrap(
        label + text,
        width,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
