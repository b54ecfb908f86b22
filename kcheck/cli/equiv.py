"""`kcheck equiv`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kcheck.cli.answer import Answer, verdict_answer
from kcheck.cli.group import commands
from kcheck.cli.options import FILE, JSON, LAUNCH, MEMORY, SEED, STRICT, TIME


@commands.command()
@click.argument("reference", type=FILE)
@click.argument("subject", type=FILE)
@LAUNCH
@click.option("--subject-launch", type=FILE, help="[default: beside SUBJECT, else the reference's]")
@click.option("--kernel", metavar="NAME", help="The entry, where the PTX has several.")
@click.option("--subject-kernel", metavar="NAME", help="[default: --kernel, else the only entry]")
@click.option(
    "--map", "maps", multiple=True, metavar="A=x,B=y", help="Reference name=subject name."
)
@click.option("--cta", type=click.IntRange(min=0), help="Check one CTA (linear index) only.")
@click.option("--accept", type=click.Choice(["cta"]), help="Exit 0 for proved-for-cta as well.")
@SEED
@click.option("--safety/--no-safety", default=True, help="Look for races in both kernels.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "term", "field", "ieee"]),
    default="auto",
    show_default=True,
    help="Exact proofs (term), identity testing (field), what serves (auto); or measure how far "
    "true formats drive both apart, which proves nothing (ieee).",
)
@STRICT
@click.option(
    "--literal-constants", is_flag=True, help="Float literals are exact: 0f3FB8AA3B is not log2 e."
)
@click.option(
    "--witness",
    "--witness-dir",
    "witness_dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("kcheck-witnesses"),
    show_default=True,
    help="Where the input of a refutation is saved, with programs that run both kernels on it.",
)
@TIME
@MEMORY
@click.option(
    "--mask-literal",
    "mask_literals",
    type=float,
    multiple=True,
    metavar="X",
    help="The number X stands for -infinity wherever it is written.",
)
@JSON
def equiv(maps: tuple[str, ...], accept: str | None, as_json: bool, **options: Any) -> Answer:
    """Decide whether SUBJECT computes what REFERENCE computes.

    \b
    Examples:
      kcheck equiv gemm_s0.ptx gemm_s2.ptx
      kcheck equiv ref.ptx opt.ptx --launch ref.launch.yaml --map A=x,B=y
      kcheck equiv ref.ptx opt.ptx --cta 0 --accept cta

    The launch file of K.ptx is K.launch.yaml beside it (`kcheck launch init K.ptx` writes one).
    """
    from kcheck.check import equivalent
    from kcheck.report.progress import Progress

    mapping = parse_map(maps)
    with Progress() as progress:
        verdict = equivalent(
            options.pop("reference"),
            options.pop("subject"),
            mapping=mapping,
            progress=progress,
            **options,
        )
    accepted = verdict.verdict == "proved-for-cta" and accept == "cta"
    return verdict_answer(verdict, as_json, 0 if accepted else verdict.exit_code)


def parse_map(maps: tuple[str, ...]) -> dict[str, str]:
    """`("A=x,B=y", "C=z")` as a mapping. UsageError if an entry isn't NAME=NAME, or repeats."""
    from kcheck.verdict import UsageError

    mapping: dict[str, str] = {}
    for entry in (entry for option in maps for entry in option.split(",")):
        name, equals, other = (part.strip() for part in entry.partition("="))
        if not (name and equals and other):
            raise UsageError(f"--map {entry}: expected REFERENCE=SUBJECT, as in --map A=x,B=y")
        if name in mapping:
            raise UsageError(f"--map {entry}: `{name}` is mapped twice")
        mapping[name] = other
    return mapping
