"""What a command answers, and how that is printed."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kcheck.verdict import Verdict

USAGE = 2
COLOURS = {0: "green", 1: "red", 3: "yellow", 4: "magenta"}


@dataclass(frozen=True)
class Answer:
    """What a command prints on stdout, and its exit code; `colour` is for the first word."""

    code: int
    text: str
    colour: str | None = None


def verdict_answer(verdict: Verdict, as_json: bool, code: int) -> Answer:
    """The report of a verdict."""
    if as_json:
        from kcheck.report.json import to_json, verdict_object

        return Answer(code, to_json(verdict_object(verdict)))
    from kcheck.report.text import verdict_text

    return Answer(code, verdict_text(verdict), COLOURS[verdict.exit_code])


def show(answer: Answer) -> int:
    """Print an answer. Colour only on a terminal."""
    if sys.stdout is None:  # closed by the caller
        return answer.code
    text = answer.text
    if answer.colour and not os.environ.get("NO_COLOR"):
        head, _, rest = text.partition(" ")
        text = f"{click.style(head, fg=answer.colour, bold=True)} {rest}"
    try:
        click.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        return output_error(error)
    return answer.code


def output_error(error: OSError) -> int:
    """The answer can't be written (a full disk): say so, and fail no second time at exit."""
    print(f"kcheck: cannot write: {error}", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return USAGE
