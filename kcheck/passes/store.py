"""Verdicts on disk, by the content of what they are about (DESIGN.md 8).

Only `proved` is kept: a refutation is made again, with its files.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import kcheck
from kcheck.passes.validation import digest
from kcheck.verdict import Verdict

FOLDER = "KCHECK_CACHE_DIR"
# what of a proved verdict is kept
_FIELDS = ("method", "error_bound_log2", "ctas", "seconds", "statistics")
_TUPLES = ("outputs", "ledger", "kernels")


@cache
def version() -> str:
    """What tells one state of kcheck from another: its version, and its code."""
    root = Path(kcheck.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))]
    return digest(kcheck.__version__, *texts)


def folder() -> Path:
    """Where verdicts are kept: $KCHECK_CACHE_DIR, else the user's folder for caches."""
    given = os.environ.get(FOLDER)
    if given:
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "kcheck"


def verdict_key(*texts: str) -> str:
    """The name of a verdict: of all that it depends on, and kcheck's own state."""
    return digest(version(), *texts)


def load(kind: str, key: str) -> dict[str, Any] | None:
    """The object stored under a key, or None. A file that can't be read counts as none."""
    try:
        found = json.loads((folder() / kind / f"{key}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def save(kind: str, key: str, value: dict[str, Any]) -> None:
    """Store an object; what fails leaves nothing behind, and is no error: it is a cache."""
    target = folder() / kind / f"{key}.json"
    with suppress(OSError, TypeError, ValueError):
        target.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(value)
        descriptor, name = tempfile.mkstemp(dir=target.parent, suffix=".part")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, target)
        except OSError:
            Path(name).unlink(missing_ok=True)


def load_verdict(key: str) -> Verdict | None:
    """The verdict `proved` under a key, or None."""
    found = load("verdicts", key)
    if found is None or found.get("key") != key:
        return None
    try:
        kept = {name: found[name] for name in _FIELDS}
        kept |= {name: tuple(found[name]) for name in _TUPLES}
    except (KeyError, TypeError):
        return None
    return Verdict("proved", None, **kept)


def save_verdict(key: str, verdict: Verdict) -> None:
    """Keep a verdict, if it is `proved`."""
    if verdict.verdict == "proved":
        kept = {name: getattr(verdict, name) for name in (*_FIELDS, *_TUPLES)}
        save("verdicts", key, {"key": key, **kept})
