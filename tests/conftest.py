"""Random examples are the same at every run, so that a change is judged by what it changes.

`pytest --hypothesis-profile=default` draws new ones. And what the tests say in the end.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.corpus import DECLARED

settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")

PAIR = "test_corpus.py::test_equal_pair_is_proved"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many TileLang pairs were proved."""
    met = {
        outcome: [r for r in terminalreporter.getreports(outcome) if PAIR in r.nodeid]
        for outcome in ("passed", "failed", "skipped")
    }
    if any(met.values()):
        counts = ", ".join(f"{len(reports)} {outcome}" for outcome, reports in met.items())
        terminalreporter.write_line(f"TileLang pairs declared equal ({DECLARED}): {counts}")
