"""`kcheck launch ...`."""

from __future__ import annotations

from pathlib import Path

import click

from kcheck.cli.answer import Answer
from kcheck.cli.group import commands
from kcheck.cli.options import FILE


@commands.group()
def launch() -> None:
    """Work with launch files (X.launch.yaml beside X.ptx)."""


@launch.command()
@click.argument("ptx", type=FILE)
@click.option("--kernel", metavar="NAME", help="The entry, where the PTX has several.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def init(ptx: Path, kernel: str | None, force: bool) -> Answer:
    """Write a skeleton launch file beside PTX; what it can't know says FILL.

    \b
    Example:
      kcheck launch init kernel.ptx      # writes kernel.launch.yaml
    """
    from kcheck.launch_file import SUFFIX
    from kcheck.launch_init import launch_skeleton
    from kcheck.ptx_frontend.lower import lower
    from kcheck.ptx_frontend.parser import parse_file
    from kcheck.verdict import UsageError

    target = ptx.with_name(ptx.stem + SUFFIX)
    if target.exists() and not force:
        raise UsageError(f"{target}: exists already; --force overwrites it")
    target.write_text(launch_skeleton(lower(parse_file(ptx), kernel)), encoding="utf-8")
    return Answer(0, f"wrote {target}: fill in what says FILL, check what says CHANGE")
