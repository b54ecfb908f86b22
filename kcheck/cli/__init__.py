"""`kcheck ...`: arguments in, check.py called, report out.

Modules that cost time to import are imported by the command that needs them.
"""

from __future__ import annotations

import os
import sys

import click

from kcheck.cli import check, demo, equiv, launch, run, tilelang  # noqa: F401 each adds its command
from kcheck.cli.answer import Answer, show
from kcheck.cli.errors import internal_error, usage_error, usage_message
from kcheck.cli.group import commands

INTERRUPTED, BROKEN_PIPE = 130, 141


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code (DESIGN.md 3). Never raises."""
    arguments = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in arguments
    try:
        answer = commands.main(args=arguments, prog_name="kcheck", standalone_mode=False)
        if not isinstance(answer, Answer):  # --help and --version print by themselves
            return int(answer or 0)
        return show(answer)
    except click.ClickException as error:
        return usage_error(f"{error.format_message()} (kcheck --help shows how)", as_json)
    except (click.Abort, KeyboardInterrupt):
        print("kcheck: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # what still sits in the buffer must not fail again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        message = usage_message(error)
        if message is not None:
            return usage_error(message, as_json)
        return internal_error(error, as_json)
