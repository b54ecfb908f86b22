"""Who asks for validation: an argument, the decorator of a function, or the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kcheck.passes.validation import Validate
from kcheck.verdict import UsageError

# on what `tilelang.jit` makes
ATTRIBUTE = "kcheck_validate"
SWITCH = "KCHECK_VALIDATE"
_wish: ContextVar[Validate | bool | None] = ContextVar("kcheck_validate", default=None)


def asked(*wishes: Validate | bool | None) -> Validate | None:
    """The options of the first of these that says anything, else of the surrounding `asking`,
    else of the environment; None: not to validate. UsageError for what is no wish.
    """
    switch = os.environ.get(SWITCH, "").lower() in ("1", "true", "yes", "on")
    wish = next((w for w in (*wishes, _wish.get()) if w is not None), switch)
    if not isinstance(wish, (bool, Validate)):
        raise UsageError(f"validate={wish!r}: expected a bool or a kcheck.Validate")
    return wish if isinstance(wish, Validate) else Validate() if wish else None


@contextmanager
def asking(wish: Validate | bool | None) -> Iterator[None]:
    """Compiles in this context are asked for so; None changes nothing."""
    token = _wish.set(_wish.get() if wish is None else wish)
    try:
        yield
    finally:
        _wish.reset(token)
