"""Progress of long work, on the error stream only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

DELAY = 2.0  # seconds of silence: short work shows nothing
EVERY = 5.0  # seconds between two plain lines


class Progress:
    """Called with a stage and the fraction of it that is done (0 to 1).

    A bar on a terminal, else a plain line now and then.
    """

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.stream = stream or sys.stderr
        self.clock = clock
        self.due = clock() + DELAY
        self.bar: Bar | None = None
        self.task: TaskID | None = None

    def __call__(self, stage: str, fraction: float) -> None:
        """Show it, if it is time."""
        if self.clock() < self.due:
            return
        if self.stream.isatty():
            self._draw(stage, fraction)
            return
        self.due = self.clock() + EVERY
        print(f"kcheck: {stage} {fraction:.0%}", file=self.stream, flush=True)

    def _draw(self, stage: str, fraction: float) -> None:
        if self.bar is None or self.task is None:
            from rich.console import Console
            from rich.progress import Progress as Bar

            self.bar = Bar(console=Console(file=self.stream), transient=True)
            self.task = self.bar.add_task(stage, total=1.0)
            self.bar.start()
        self.bar.update(self.task, description=stage, completed=fraction)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
