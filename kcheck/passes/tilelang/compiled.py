"""A kernel that tilelang has just compiled, or had: validate it, and say what came of it."""

from __future__ import annotations

import functools
import logging
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from kcheck.launch import Launch
from kcheck.launch_file import dump_launch
from kcheck.passes import store
from kcheck.passes.stamps import stamps
from kcheck.passes.tilelang import nvcc, references
from kcheck.passes.tilelang.installed import tilelang
from kcheck.passes.tilelang.launches import launch_of
from kcheck.passes.tilelang.lowering import lower
from kcheck.passes.tilelang.request import Request, Unsupported, request
from kcheck.passes.tilelang.validate import Validation, unsupported
from kcheck.passes.validation import (
    Outcome,
    Validate,
    ValidationError,
    ValidationWarning,
    digest,
)
from kcheck.verdict import Finding, UsageError, Verdict

LOG = logging.getLogger("kcheck")


# the compile that this thread is in the middle of
_running: ContextVar[Job | None] = ContextVar("kcheck_job", default=None)


@contextmanager
def hearing(job: Job) -> Iterator[None]:
    """What nvcc compiles in this context is for this job."""
    token = _running.set(None if job.known else job)
    try:
        yield
    finally:
        _running.reset(token)


def overheard(original: Callable[..., Any]) -> Callable[..., Any]:
    """tilelang's call of nvcc, heard by the job that it is for."""

    @functools.wraps(original)
    def compile_cuda(code: str, *args: Any, **kwargs: Any) -> Any:
        job = _running.get()
        if job is not None:
            job.validation.heard(code)
        return original(code, *args, **kwargs)

    return compile_cuda


@cache
def libraries() -> str:
    """What tells one tilelang from another: a text for keys."""
    package = tilelang()
    below = stamps(str(Path(package.__file__).parent))
    return f"{package.__version__} {[stamp for stamp in below if stamp[0].endswith('.so')]}"


def told() -> bool:
    """Are instrumentation tools registered with tilelang? They may change what it compiles."""
    from tilelang.instrumentation import compile_pass_instrumentation

    with compile_pass_instrumentation(reuse_existing=False) as session:
        return bool(session.tools)


class Job:
    """One compile, before and after: tilelang's own runs between the two.

    A verdict is found by what was asked for before anything is lowered, and believed if the kernel
    is the one that it was about: in its CUDA text, in the text of the program that launches it, and
    in the launch itself, which a kernel from tilelang's disk has forgotten.
    """

    def __init__(self, request: Request, options: Validate) -> None:
        self.request, self.options = request, options
        self.validation = Validation(request, options)
        self.known: Verdict | None = None
        self.around = nvcc.surroundings(request)
        self.about: dict[str, str | None] = {}
        self.keys = [key for key in (self._key(),) if key is not None and not told()]
        for key in self.keys:
            self.about = store.load("compiles", key) or {}
            self.known = store.load_verdict(about_key(key, self.about))
        if self.known is None:
            self.validation.start()

    def _key(self) -> str | None:
        reference = references.key(self.options.reference, self.request)
        if reference is None:
            return None
        kind = f"{self.options.every_rung} {self.options.reference is None}"
        texts = (self.request.key, self.options.key, kind, reference, libraries(), self.around)
        return store.verdict_key(*texts)

    def finish(self, kernel: Any) -> Outcome:
        """The outcome for the kernel; what fails in kcheck is an outcome as well."""
        try:
            about = told_about(self.request, kernel)
            if self.known is not None and self._believed(about):
                return Outcome(self.request.name, self.known, cached=True)
            launch = compiled_launch(self.request, kernel) or self._launch_again(kernel)
            outcome = self.validation.outcome(str(kernel.get_kernel_source()), launch)
        except Unsupported as error:
            return Outcome(self.request.name, unsupported(error))
        except UsageError:
            raise
        except Exception as error:
            return Outcome(self.request.name, internal(error))
        known = self.keys and about["host"] and self.around == nvcc.surroundings(self.request)
        if known and outcome.verdict.verdict == "proved":
            # lowering may rename variables of the prim_func in place: both texts are it
            for key in {*self.keys, self._key() or self.keys[0]}:
                store.save_verdict(about_key(key, about), outcome.verdict)
                store.save("compiles", key, about)
        return outcome

    def _believed(self, about: Mapping[str, str | None]) -> bool:
        """Is what is known about this very kernel?"""
        same = {name for name, value in about.items() if value and value == self.about.get(name)}
        return same >= {"source", "host"} and (about["launch"] is None or "launch" in same)

    def _launch_again(self, kernel: Any) -> Launch:
        """The launch of a kernel that has forgotten it, lowered again. Unsupported where that does
        not give the very program that launches the kernel.
        """
        lowered = lower(self.request, self.validation.ladder.own, tools=told(), host=True)
        if lowered.host != kernel.get_host_source():
            message = "the launch of a kernel from tilelang's cache on disk can't be made again"
            raise Unsupported("not-reproduced", f"{message}: clear that cache")
        return lowered.launch


def told_about(request: Request, kernel: Any) -> dict[str, str | None]:
    """What tells one compiled kernel from another, where it is known: its CUDA text, the text of
    the program that launches it, and its launch.
    """
    bare = replace(request, inputs={})  # they say nothing of the kernel, and may be long
    launch = compiled_launch(bare, kernel)
    host = kernel.get_host_source()
    return {
        "source": digest(str(kernel.get_kernel_source())),
        "host": digest(str(host)) if host else None,
        "launch": None if launch is None else dump_launch(launch),
    }


def about_key(key: str, about: Mapping[str, str | None]) -> str:
    """The name of the verdict on a kernel."""
    return store.verdict_key(key, *(str(about.get(n)) for n in ("source", "host", "launch")))


def compiled_launch(request: Request, kernel: Any) -> Launch | None:
    """The launch of a kernel, if it was compiled just now; one from the disk has forgotten it."""
    artifact = kernel.artifact
    functions = getattr(getattr(artifact, "device_mod", None), "functions", None)
    return None if functions is None else launch_of(request, artifact.device_mod)


def internal(error: Exception) -> Verdict:
    """The verdict where kcheck itself fails: the traceback goes to a file that is named."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="kcheck-", suffix=".traceback", delete=False, encoding="utf-8"
    ) as file:
        traceback.print_exception(error, file=file)
    reason = f"internal.{type(error).__name__}"
    found = Finding(reason, f"{error}; the traceback is in {file.name}", "both")
    return Verdict("error", reason, findings=(found,), next_steps=("report this bug",))


def settle(outcome: Outcome, options: Validate) -> None:
    """Raise ValidationError for a refuted kernel; where there is no answer, do what was asked."""
    verdict = outcome.verdict.verdict
    if verdict == "proved":
        LOG.info("%s: proved in %.1f s", outcome.kernel, outcome.verdict.seconds)
        return
    if verdict == "refuted" or options.on_undecided == "error":
        raise ValidationError(outcome)
    if options.on_undecided == "warn":
        steps = "; ".join(outcome.verdict.next_steps[:2])
        tries = f"; try: {steps}" if steps else ""
        warnings.warn(f"{outcome.headline}{tries}", ValidationWarning, stacklevel=3)


def validated(given: Mapping[str, Any], options: Validate, compile_it: Callable[[], Any]) -> Any:
    """Run a compile with its validation. `given`: the arguments of `tilelang.compile` by name.

    ValidationError, UsageError, or what the compile raises.
    """
    try:
        asked = request(
            given["func"],
            given.get("target"),
            out_idx=given.get("out_idx"),
            pass_configs=given.get("pass_configs"),
            compile_flags=given.get("compile_flags"),
            shapes=options.shapes,
            inputs=options.inputs,
        )
    except Unsupported as error:
        kernel = compile_it()
        settle(Outcome(str(given["func"].attrs["global_symbol"]), unsupported(error)), options)
        return kernel
    job = Job(asked, options)
    with hearing(job):
        kernel = compile_it()
    settle(job.finish(kernel), options)
    return kernel
