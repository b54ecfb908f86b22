"""`kcheck demo`."""

from __future__ import annotations

from kcheck.cli.answer import Answer
from kcheck.cli.group import commands


@commands.command()
def demo() -> Answer:
    """Check two GEMM kernels that TileLang compiled, and a broken copy of one."""
    from kcheck.demo import demonstrate
    from kcheck.report.progress import Progress

    with Progress() as progress:
        good, text = demonstrate(progress)
    return Answer(0 if good else 4, text)
