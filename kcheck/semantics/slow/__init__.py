"""The slow evaluator: the oracle for instructions, races and witnesses; shares no other code."""

from kcheck.semantics.slow.confirm import Confirmation, confirm_race
from kcheck.semantics.slow.conflicts import Race, Side
from kcheck.semantics.slow.double import Double
from kcheck.semantics.slow.enclosure import Enclosure
from kcheck.semantics.slow.errors import (
    Ambiguous,
    BudgetExceeded,
    Inexact,
    Unevaluated,
    Unsupported,
)
from kcheck.semantics.slow.exact import Exact
from kcheck.semantics.slow.machine import SlowMachine, SlowResult
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.rounded import Rounded
from kcheck.semantics.slow.state import SlowFinding
from kcheck.semantics.slow.units import UNDEF, UNWRITTEN, Real

__all__ = [
    "UNDEF",
    "UNWRITTEN",
    "Ambiguous",
    "BudgetExceeded",
    "Confirmation",
    "Double",
    "Enclosure",
    "Exact",
    "Inexact",
    "Number",
    "Race",
    "Real",
    "Rounded",
    "Side",
    "SlowFinding",
    "SlowMachine",
    "SlowResult",
    "Unevaluated",
    "Unsupported",
    "confirm_race",
]
