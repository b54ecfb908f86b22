"""Autotuning: every configuration is validated, and a wrong one is dropped and named."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from kcheck.passes.tilelang.compiled import LOG, validated
from kcheck.passes.tilelang.wishes import ATTRIBUTE, asked, asking
from kcheck.passes.validation import ValidationError

REFUSED = "kcheck_refused"
# the key of a configuration that is for the compiler
CONFIGS = "pass_configs"


def tuner_with_options(original: Callable[..., Any]) -> Callable[..., Any]:
    """AutoTuneImpl.get_tunner: the tuner keeps what the decorator of the function asked for."""

    @functools.wraps(original)
    def get_tunner(self: Any) -> Any:
        tuner = original(self)
        setattr(tuner, ATTRIBUTE, getattr(self.jit_impl, ATTRIBUTE, None))
        refused: list[tuple[dict[str, Any], ValidationError]] = []
        setattr(tuner, REFUSED, refused)
        setattr(self, REFUSED, refused)
        return tuner

    return get_tunner


def tuned(original: Callable[..., Any]) -> Callable[..., Any]:
    """AutoTuner.run with each configuration validated where it is compiled.

    Grouped compilation builds its kernels past `tilelang.compile`: it is not used then. A result
    from the tuner's own cache is validated before it is given out.
    """
    signature = inspect.signature(original)

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        chosen = asked(getattr(self, ATTRIBUTE, None))
        if chosen is None:
            return original(self, *args, **kwargs)
        refused = getattr(self, REFUSED, [])
        setattr(self, REFUSED, refused)
        seen: list[Any] = []
        compile_it, self.jit_elaborate = self._ensure_jit_functions()

        def compile_one(**config: Any) -> Any:
            try:
                with asking(chosen):
                    kernel = compile_it(**dict(config))
            except ValidationError as error:
                refused.append((config, error))
                LOG.warning("configuration %s is dropped: %s", config, error)
                raise
            seen.append(kernel)
            return kernel

        self.jit_compile = compile_one
        bound = signature.bind(self, *args, **kwargs)
        if "enable_grouped_compile" in signature.parameters:
            bound.arguments["enable_grouped_compile"] = False
        result = original(*bound.args, **bound.kwargs)
        if not any(kernel is result.kernel for kernel in seen):
            kernel = result.kernel
            configs = dict(kernel.pass_configs or {}) | (result.config or {}).get(CONFIGS, {})
            given = {"func": kernel.prim_func, "target": self.compile_args.target}
            given |= {"out_idx": self.compile_args.out_idx, "pass_configs": configs}
            validated(given, chosen, lambda: kernel)
        return result

    return run


def refused(function: Any) -> list[tuple[dict[str, Any], ValidationError]]:
    """The configurations of a tuned function (or AutoTuner) that its last run dropped, and why."""
    return list(getattr(function, REFUSED, []))
