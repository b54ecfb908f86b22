"""Translation validation for GPU kernels."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcheck.check import equivalent, safe
    from kcheck.launch import Launch, LaunchError, Promise, Scalar, Tensor, TensorMap
    from kcheck.launch_file import load_launch, parse_launch
    from kcheck.passes.validation import Validate, ValidationError, ValidationWarning
    from kcheck.ptx_frontend.errors import KernelChoiceError, PtxError
    from kcheck.running import RunResult, run
    from kcheck.verdict import Finding, Location, UsageError, Verdict, Witness

__version__ = "0.1.0"
__all__ = [
    "Finding",
    "KernelChoiceError",
    "Launch",
    "LaunchError",
    "Location",
    "Promise",
    "PtxError",
    "RunResult",
    "Scalar",
    "Tensor",
    "TensorMap",
    "UsageError",
    "Validate",
    "ValidationError",
    "ValidationWarning",
    "Verdict",
    "Witness",
    "equivalent",
    "load_launch",
    "parse_launch",
    "run",
    "safe",
]

# public name -> module; loaded at first use, so that `import kcheck` costs nothing
_HOMES = {
    "check": ("equivalent", "safe"),
    "launch": ("Launch", "LaunchError", "Promise", "Scalar", "Tensor", "TensorMap"),
    "launch_file": ("load_launch", "parse_launch"),
    "passes.validation": ("Validate", "ValidationError", "ValidationWarning"),
    "ptx_frontend.errors": ("KernelChoiceError", "PtxError"),
    "running": ("RunResult", "run"),
    "verdict": ("Finding", "Location", "UsageError", "Verdict", "Witness"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"kcheck.{home}"), name)
    raise AttributeError(f"module 'kcheck' has no attribute '{name}'")
