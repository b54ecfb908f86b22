"""Progress: silent at first, then a line now and then, or a bar on a terminal."""

from __future__ import annotations

from io import StringIO

from kcheck.report.progress import Progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines() -> None:
    stream, clock = StringIO(), Clock()
    with Progress(stream, clock) as progress:
        for clock.now in (0.0, 1.9):
            progress("reference", 0.1)
        assert stream.getvalue() == ""
        for clock.now in (2.0, 3.0, 7.0, 7.2, 9.0, 12.0):
            progress("subject", clock.now / 20)
    assert stream.getvalue().splitlines() == [
        "kcheck: subject 10%",
        "kcheck: subject 35%",
        "kcheck: subject 60%",
    ]


def test_bar() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(stream, clock) as progress:
        progress("reference", 0.1)
        assert stream.getvalue() == ""
        clock.now = 3.0
        progress("subject", 0.5)
    assert "subject" in stream.getvalue()
