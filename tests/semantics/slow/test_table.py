"""Every form of the table has a handler."""

from kcheck.ptx_frontend.forms import ROWS
from kcheck.semantics.slow import machine  # noqa: F401  (fills the table)
from kcheck.semantics.slow.decode import HANDLERS


def test_forms_and_handlers_are_the_same_names() -> None:
    assert set(HANDLERS) == {name for name, _, _ in ROWS}
