"""`validate=` for tilelang.compile, tilelang.jit, tilelang.par_compile and tilelang.autotune.

tilelang has no place for an argument of its own: the functions are replaced while this is
enabled. What `@tilelang.jit(validate=...)` asks for is kept on the object that it makes.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable
from threading import RLock
from typing import Any

from kcheck.passes.tilelang.compiled import overheard, validated
from kcheck.passes.tilelang.installed import tilelang
from kcheck.passes.tilelang.tuning import tuned, tuner_with_options
from kcheck.passes.tilelang.wishes import ATTRIBUTE, asked, asking
from kcheck.passes.validation import Validate

_lock = RLock()
# (owner, name, what was there before)
_replaced: list[tuple[Any, str, Any]] = []
# prim_funcs that `par_compile` hands to threads, which inherit no context: id -> options
_handed: dict[int, Validate | bool] = {}


def enable() -> None:
    """Teach tilelang the argument `validate`. Nothing happens if it knows it."""
    with _lock:
        if _replaced:
            return
        package = tilelang()
        module = importlib.import_module("tilelang.jit")
        tuner = importlib.import_module("tilelang.autotuner.tuner")
        compiler = importlib.import_module("tilelang.contrib.nvcc")
        wrappers = {
            "compile": _compile(module.compile),
            "par_compile": _par_compile(module.par_compile),
            "jit": _jit(module.jit),
        }
        for owner in (module, package):
            for name, wrapper in wrappers.items():
                _replace(owner, name, wrapper)
        for name in ("compile", "par_compile"):
            _replace(module.JITImpl, name, _remembering(getattr(module.JITImpl, name)))
        _replace(tuner.AutoTuner, "run", tuned(tuner.AutoTuner.run))
        _replace(compiler, "compile_cuda", overheard(compiler.compile_cuda))
        made = tuner_with_options(tuner.AutoTuneImpl.get_tunner)
        _replace(tuner.AutoTuneImpl, "get_tunner", made)


def disable() -> None:
    """Restore tilelang as it was."""
    with _lock:
        while _replaced:
            owner, name, before = _replaced.pop()
            setattr(owner, name, before)


def _replace(owner: Any, name: str, wrapper: Any) -> None:
    _replaced.append((owner, name, getattr(owner, name)))
    setattr(owner, name, wrapper)


def _compile(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile(*args: Any, validate: Validate | bool | None = None, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        func = given.get("func")
        chosen = asked(validate, _handed.get(id(func)))
        if chosen is None or not hasattr(func, "buffer_map"):  # no prim_func: tilelang says so
            return original(*args, **kwargs)
        return validated(given, chosen, lambda: original(*args, **kwargs))

    return compile


def _par_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def par_compile(
        funcs: Iterable[Any], *args: Any, validate: Validate | bool | None = None, **kwargs: Any
    ) -> Any:
        chosen = asked(validate)
        every = list(funcs)
        mine: dict[int, Validate | bool] = {id(func): chosen or False for func in every}
        _handed.update(mine)
        try:
            return original(every, *args, **kwargs)
        finally:
            for key in mine:
                _handed.pop(key, None)

    return par_compile


def _jit(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def jit(func: Any = None, *, validate: Validate | bool | None = None, **kwargs: Any) -> Any:
        def marked(made: Any) -> Any:
            setattr(made, ATTRIBUTE, validate)
            return made

        if func is not None:
            return marked(original(func, **kwargs))
        decorator = original(**kwargs)
        return lambda func: marked(decorator(func))

    return jit


def _remembering(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of JITImpl under what its decorator asked for."""

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        with asking(getattr(self, ATTRIBUTE, None)):
            return method(self, *args, **kwargs)

    return wrapper
