"""What went wrong, as the user is told it."""

from __future__ import annotations

import sys

from kcheck import __version__
from kcheck.cli.answer import USAGE, show, verdict_answer


def usage_message(error: Exception) -> str | None:
    """What to tell the user, if the error is about arguments or files, else None."""
    from kcheck.launch import LaunchError
    from kcheck.ptx_frontend.errors import KernelChoiceError, PtxError
    from kcheck.verdict import UsageError

    if isinstance(error, (UsageError, LaunchError, PtxError)):
        return str(error)
    if isinstance(error, KernelChoiceError):
        return f"{error} (--kernel NAME)" if error.names else str(error)
    files = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
    if isinstance(error, files):
        return f"{error.filename}: {error.strerror}"
    return None


def usage_error(message: str, as_json: bool) -> int:
    """One line on stderr (for a syntax error the place as well); exit code 2."""
    print(f"kcheck: {printable(message)}", file=sys.stderr)
    if as_json:
        from kcheck.report.json import to_json, usage_object

        print(to_json(usage_object(message)))
    return USAGE


def printable(text: str, width: int = 300) -> str:
    """The text without what would upset a terminal: control characters, endless lines."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    return "\n".join(line[:width] for line in shown.split("\n"))


def internal_error(error: Exception, as_json: bool) -> int:
    """Verdict `error`: the traceback goes to a file that is named."""
    import tempfile
    import traceback

    from kcheck.verdict import Verdict

    with tempfile.NamedTemporaryFile(
        "w", prefix="kcheck-", suffix=".traceback", delete=False, encoding="utf-8"
    ) as file:
        print(f"kcheck {__version__}", sys.argv, file=file)
        traceback.print_exception(error, file=file)
    reason = f"internal.{type(error).__name__}"
    hint = f"report this bug; the traceback is in {file.name}"
    return show(verdict_answer(Verdict("error", reason, next_steps=(hint,)), as_json, 4))
