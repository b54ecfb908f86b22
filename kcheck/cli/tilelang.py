"""`kcheck tilelang`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcheck.cli.answer import COLOURS, Answer
from kcheck.cli.group import commands
from kcheck.cli.options import JSON, MEMORY, SEED, TIME

if TYPE_CHECKING:
    from kcheck.passes.tilelang.validate import Validation
    from kcheck.passes.validation import Outcome
    from kcheck.verdict import Verdict

FOLDER = click.Path(file_okay=False, path_type=Path)


@commands.command()
@click.argument("program", metavar="FILE.py[:FUNC]")
@click.option("--target", metavar="ARCH", help="[default: the jit function's own, else sm_80]")
@click.option(
    "--reference",
    metavar="FILE.ptx|FILE.py:NAME",
    help="What the kernel must equal: a PTX file, a prim_func, or a function of arrays.",
)
@click.option("--ladder", is_flag=True, help="Show the rungs, and prove nothing.")
@click.option("--every-rung", is_flag=True, help="Prove each rung equal to the one below it.")
@click.option(
    "--bisect/--no-bisect",
    default=True,
    show_default=True,
    help="Where the kernel is not proved: find the first rung that is not.",
)
@click.option("--snapshots", type=FOLDER, help="Write PTX, CUDA and launch of each rung there.")
@click.option(
    "--report",
    type=FOLDER,
    default=Path("kcheck-reports"),
    show_default=True,
    help="Gets a folder for each kernel that is not proved.",
)
@SEED
@TIME
@MEMORY
@JSON
def tilelang(
    program: str,
    target: str | None,
    reference: str | None,
    ladder: bool,
    snapshots: Path | None,
    as_json: bool,
    **options: Any,
) -> Answer:
    """Prove that TileLang's optimizations did not change the programs of FILE.py.

    \b
    Examples:
      kcheck tilelang gemm.py
      kcheck tilelang gemm.py:make_gemm --target sm_80 --every-rung
      kcheck tilelang gemm.py --ladder --snapshots rungs
      kcheck tilelang gemm.py:gemm --reference spec.py:product

    FUNC is a prim_func, a jit function, or a function that makes a prim_func; the last two are
    called without arguments. Without it: all prim_funcs and jit functions of the file.
    """
    from kcheck.passes.tilelang.programs import named, programs
    from kcheck.passes.tilelang.request import cuda, request
    from kcheck.passes.tilelang.validate import Validation
    from kcheck.passes.validation import Validate

    path, _, name = program.partition(":")
    chosen = Validate(reference=reference and named(reference), **options)
    shown = []
    for found in programs(Path(path), name or None):
        given = {key: value for key, value in found.options.items() if key != "target"}
        where = cuda(target) if target else found.options.get("target") or cuda("sm_80")
        validation = Validation(request(found.func, where, **given), chosen)
        if ladder:
            shown.append(Shown(found.name, [(*row, None) for row in validation.climbed()]))
        else:
            outcome = validation.own()
            rows = [(s.rung, s.changed, s.verdict) for s in outcome.steps]
            shown.append(Shown(found.name, rows, outcome))
        if snapshots is not None:
            _write(validation, snapshots / found.name)
    code = min((one.code for one in shown), key=(1, 4, 3, 0).index)
    if as_json:
        return Answer(code, _json(shown))
    return Answer(code, "\n\n".join(map(table, shown)), None if ladder else COLOURS[code])


@dataclass(frozen=True)
class Shown:
    """One program: rungs, changed lines and verdicts, and what came of it if anything was to be
    proved.
    """

    name: str
    rows: Sequence[tuple[str, int, Verdict | None]]
    outcome: Outcome | None = None

    @property
    def code(self) -> int:
        """The exit code for this program."""
        return 0 if self.outcome is None else self.outcome.verdict.exit_code


def _write(validation: Validation, folder: Path) -> None:
    """The rungs of a ladder as `NN_name.*`."""
    from kcheck.passes.tilelang.validate import side

    for number, (name, rung) in enumerate(validation.distinct()):
        stem = f"{number:02}_{name.replace(' ', '_')}"
        replace(side("subject", rung), name=stem).write(folder)


def table(shown: Shown) -> str:
    """The verdict, a line for each comparison, and the report where it is not proved."""
    outcome = shown.outcome
    word = "ladder" if outcome is None else outcome.verdict.verdict
    width = max((len(row[0]) for row in shown.rows), default=4)
    lines = [f"{word} {shown.name}", f"  {'rung':{width}}  lines changed  verdict"]
    for rung, changed, verdict in shown.rows:
        lines.append(f"  {rung:{width}}  {changed:13}  {_said(verdict)}".rstrip())
    if outcome is not None and outcome.verdict.verdict != "proved":
        lines += [f"  {line}" for line in outcome.report().splitlines()]
    return "\n".join(lines)


def _said(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    words = (verdict.verdict, verdict.method, verdict.reason)
    return f"{' '.join(word for word in words if word)}, {verdict.seconds:.1f} s"


def _json(shown: list[Shown]) -> str:
    from kcheck.report.json import to_json, verdict_object

    def verdict(found: Verdict | None) -> Any:
        return None if found is None else verdict_object(found)

    rows = []
    for one in shown:
        steps = [
            {"rung": rung, "changed": changed, "verdict": verdict(found)}
            for rung, changed, found in one.rows
        ]
        row: dict[str, Any] = {"program": one.name, "steps": steps}
        if one.outcome is not None:
            row |= {
                "rung": one.outcome.rung,
                "verdict": verdict(one.outcome.verdict),
                "folder": one.outcome.folder and str(one.outcome.folder),
                "seconds": dict(one.outcome.seconds),
            }
        rows.append(row)
    return to_json({"programs": rows})
