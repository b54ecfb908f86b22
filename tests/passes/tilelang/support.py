"""What the tests ask of a program, with tilelang's own nvcc call left out: kcheck's part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kcheck.passes.tilelang.request import Request, request
from kcheck.passes.tilelang.validate import Validation
from kcheck.passes.validation import Outcome, Validate

TARGET = {"kind": "cuda", "arch": "sm_80"}
# how the tests compile: without a GPU, for one that they name
COMPILE: dict[str, Any] = {"target": TARGET, "execution_backend": "tvm_ffi"}


def asked(func: Any, **options: Any) -> Request:
    return request(func, TARGET, **options)


def outcome_of(
    func: Any, report: Path, options: dict[str, Any] | None = None, **request_options: Any
) -> Outcome:
    """Validate what tilelang would compile, without compiling it to a binary."""
    validation = Validation(
        asked(func, **request_options), Validate(report=report, **(options or {}))
    )
    return validation.own()
