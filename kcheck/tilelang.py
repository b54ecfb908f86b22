"""Importing this teaches tilelang `validate=`: a compile fails if an optimization was wrong.

    import kcheck.tilelang
    kernel = tilelang.compile(func, target={"kind": "cuda", "arch": "sm_80"}, validate=True)

`validate=` is an argument of tilelang.compile, par_compile and jit; autotuning validates each
configuration of a function whose `jit` has it. KCHECK_VALIDATE=1 asks for all of them.
"""

from __future__ import annotations

from kcheck.passes.tilelang.plugin import disable, enable
from kcheck.passes.tilelang.tuning import refused
from kcheck.passes.validation import Validate, ValidationError, ValidationWarning

__all__ = ["Validate", "ValidationError", "ValidationWarning", "disable", "enable", "refused"]

enable()
