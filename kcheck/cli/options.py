"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

STRICT = click.option(
    "--strict", is_flag=True, help="Lanes that store equal values to one address are a race."
)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
TIME = click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Then the answer is what is known so far.",
)
MEMORY = click.option(
    "--memory-limit",
    type=click.IntRange(min=1),
    metavar="MB",
    help="The same for the memory of the process.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, no text.")
SEED = click.option("--seed", type=click.IntRange(min=0), help="Makes a run reproducible.")
LAUNCH = click.option(
    "--launch", type=FILE, help="Launch file of the (reference) kernel. [default: beside the PTX]"
)
