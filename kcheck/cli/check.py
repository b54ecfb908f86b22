"""`kcheck check`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kcheck.cli.answer import Answer, verdict_answer
from kcheck.cli.group import commands
from kcheck.cli.options import FILE, JSON, LAUNCH, MEMORY, SEED, STRICT, TIME


@commands.command()
@click.argument("kernel", type=FILE)
@LAUNCH
@click.option("--kernel", "kernel_name", metavar="NAME", help="The entry, if there are several.")
@click.option("--cta", type=click.IntRange(min=0), help="Check one CTA (linear index) only.")
@click.option("--accept", type=click.Choice(["cta"]), help="Exit 0 for proved-for-cta as well.")
@STRICT
@SEED
@TIME
@MEMORY
@JSON
def check(kernel: Path, accept: str | None, as_json: bool, **options: Any) -> Answer:
    """Prove KERNEL free of races, deadlocks, bad accesses and undefined values.

    \b
    Examples:
      kcheck check kernel.ptx
      kcheck check kernel.ptx --launch kernel.launch.yaml --json
    """
    from kcheck.check import safe
    from kcheck.report.progress import Progress

    with Progress() as progress:
        verdict = safe(kernel, progress=progress, **options)
    accepted = verdict.verdict == "proved-for-cta" and accept == "cta"
    return verdict_answer(verdict, as_json, 0 if accepted else verdict.exit_code)
