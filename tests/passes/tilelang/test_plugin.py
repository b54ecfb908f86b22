"""`validate=` in all the places where tilelang compiles, and none of it when disabled."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcheck.passes.tilelang import compiled, installed, nvcc
from kcheck.passes.tilelang.validate import Validation
from kcheck.passes.validation import Validate, ValidationError, ValidationWarning
from kcheck.verdict import UsageError
from tests.passes.tilelang import kernels
from tests.passes.tilelang.breaking import added_pass
from tests.passes.tilelang.support import COMPILE, TARGET, asked

UNSAFE = {"tl.disable_safe_memory_legalize": True}


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Words for what was validated, in order: the verdict, and whether it was known."""
    found: list[str] = []
    finish = compiled.Job.finish

    def watched(self: compiled.Job, kernel: Any) -> Any:
        outcome = finish(self, kernel)
        word = "known" if outcome.cached else "new"
        found.append(f"{outcome.kernel} {outcome.verdict.verdict} {word}")
        return outcome

    monkeypatch.setattr(compiled.Job, "finish", watched)
    return found


def test_a_validated_kernel_is_the_very_same(
    enabled: Any, fresh_cache: Path, verdicts: list[str]
) -> None:
    """Fresh, from tilelang's memory, and from its disk, where it has no artifact any more."""
    from tilelang.cache import _dispatch_map

    func = kernels.add(1004)
    kernel = enabled.compile(func, **COMPILE, validate=True)
    assert enabled.compile(func, **COMPILE) is kernel
    start = time.perf_counter()
    assert enabled.compile(func, **COMPILE, validate=True) is kernel
    seconds = time.perf_counter() - start
    assert verdicts == ["add proved new", "add proved known"]
    assert seconds < 0.5  # 5 ms on an idle machine
    _dispatch_map["tvm_ffi"]._memory_cache.clear()
    again = enabled.compile(func, **COMPILE, validate=True)
    assert again is not kernel
    assert again.artifact is None
    for path in fresh_cache.rglob("*.json"):
        path.unlink()
    assert enabled.compile(func, **COMPILE, validate=True) is again
    assert verdicts[2:] == ["add proved known", "add proved new"]


def test_a_kernel_that_is_right_is_not_lowered_again(
    enabled: Any, fresh_cache: Path, verdicts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the reference is; and the PTX is asked for when tilelang calls nvcc, not after."""
    from kcheck.passes.tilelang import ladder, lowering, validate

    lowered: list[bool] = []
    heard: list[set[str]] = []
    lower, outcome = lowering.lower, Validation.outcome

    def counted(*args: Any, **kwargs: Any) -> Any:
        lowered.append(True)
        return lower(*args, **kwargs)

    def noted(self: Validation, *args: Any) -> Any:
        heard.append(set(self._heard))
        return outcome(self, *args)

    for module in (ladder, validate):
        monkeypatch.setattr(module, "lower", counted)
    monkeypatch.setattr(Validation, "outcome", noted)
    kernel = enabled.compile(kernels.add(1016), **COMPILE, validate=True)
    assert verdicts == ["add proved new"]
    assert len(lowered) == 1
    assert heard == [{kernel.get_kernel_source()}]


def test_nothing_is_validated_unless_asked_for(enabled: Any, verdicts: list[str]) -> None:
    func = kernels.add(1004)
    enabled.compile(func, **COMPILE)
    enabled.compile(func, **COMPILE, validate=False)
    assert verdicts == []


def test_the_environment_asks_for_it(
    enabled: Any, verdicts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCHECK_VALIDATE", "1")
    enabled.compile(kernels.add(1004), **COMPILE)
    enabled.compile(kernels.add(1004), **COMPILE, validate=False)
    assert len(enabled.par_compile([kernels.add(1004)], **COMPILE, validate=False)) == 1
    assert [word.split()[1] for word in verdicts] == ["proved"]
    with pytest.raises(AssertionError, match="must be a PrimFunc"):
        enabled.compile(7, **COMPILE)


def test_lazy_and_eager_jit(enabled: Any, verdicts: list[str], tmp_path: Path) -> None:
    jitted = enabled.jit(kernels.add, **COMPILE, validate=True)
    assert jitted(1004) is not None
    assert jitted(1004) is jitted(1004)
    assert [word.split()[:2] for word in verdicts] == [["add", "proved"]]
    wrong = enabled.jit(**COMPILE, pass_configs=UNSAFE, validate=Validate(report=tmp_path))(
        kernels.add
    )
    with pytest.raises(ValidationError, match=r"bounds\.global"):
        wrong(1004)
    assert enabled.jit(**COMPILE, pass_configs=UNSAFE)(kernels.add)(1004) is not None


def test_par_compile(enabled: Any, verdicts: list[str], tmp_path: Path) -> None:
    """Its threads inherit no context; one wrong kernel is an error, or None."""
    good, bad = kernels.add(1024), kernels.add(1004)
    options = Validate(report=tmp_path)
    found = enabled.par_compile(
        [good, bad], **COMPILE, pass_configs=UNSAFE, validate=options, ignore_error=True
    )
    assert [kernel is None for kernel in found] == [False, True]
    with pytest.raises(ValidationError, match=r"bounds\.global"):
        enabled.par_compile([bad], **COMPILE, pass_configs=UNSAFE, validate=options)
    jitted = enabled.jit(**COMPILE, pass_configs=UNSAFE, validate=options)(kernels.add)
    with pytest.raises(ValidationError):
        jitted.par_compile([{"n": 1004}])
    verdicts.clear()
    assert len(enabled.par_compile([good], **COMPILE)) == 1
    assert verdicts == []


def test_threads_do_not_disturb_one_another(enabled: Any, verdicts: list[str]) -> None:
    kept: list[Any] = []

    def compile_it(validate: bool) -> None:
        kept.append(enabled.compile(kernels.add(1004), **COMPILE, validate=validate))

    threads = [threading.Thread(target=compile_it, args=(flag,)) for flag in (True, False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 3
    assert [word.split()[1] for word in verdicts] == ["proved"] * 2


def test_what_can_not_be_validated(
    enabled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warned of by default, an error or nothing if so asked; kcheck's own failures as well."""
    func = kernels.scale_rows()
    with pytest.warns(ValidationWarning, match=r"dynamic-shape: .* m, .*; try: .*\"m\": 128"):
        enabled.compile(func, **COMPILE, validate=True)
    with pytest.raises(ValidationError, match="dynamic-shape"):
        enabled.compile(func, **COMPILE, validate=Validate(on_undecided="error"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ValidationWarning)
        enabled.compile(func, **COMPILE, validate=Validate(on_undecided="ignore"))
        enabled.compile(func, **COMPILE, validate=Validate(shapes={"m": 3}))

    def fails(*_: Any) -> Any:
        raise ZeroDivisionError("by accident")

    monkeypatch.setattr(Validation, "compare", fails)
    with pytest.warns(ValidationWarning, match=r"internal.ZeroDivisionError.*traceback is in"):
        enabled.compile(kernels.add(1020), **COMPILE, validate=True)


def test_inputs_with_a_promise(enabled: Any, fresh_cache: Path, tmp_path: Path) -> None:
    """A verdict is kept for the inputs that it was made for."""
    func = kernels.picked()

    def compiled(index: dict[str, Any]) -> Any:
        options = Validate(inputs={"L": index}, on_undecided="error", report=tmp_path)
        return enabled.compile(func, **COMPILE, pass_configs=unguarded, validate=options)

    unguarded = {"tl.disable_safe_memory_legalize": True}
    values = np.arange(64)
    assert compiled({"range": [0, 99]})
    assert compiled({"values": values})
    values[63] = 100
    with pytest.raises(ValidationError, match=r"bounds.global"):
        compiled({"values": values})
    with pytest.raises(ValidationError, match=r"unsupported.symbolic-address"):
        compiled({"range": [0, 100]})
    file = tmp_path / "index.npy"
    np.save(file, np.arange(64, dtype=np.int32))
    assert compiled({"values": str(file)})
    np.save(file, values.astype(np.int32))
    with pytest.raises(ValidationError, match=r"bounds.global"):
        compiled({"values": str(file)})
    np.save(file, np.arange(64))
    with pytest.raises(UsageError, match=r"index.npy of dtype int64; expected dtype int32"):
        compiled({"values": str(file)})
    with pytest.raises(UsageError, match="`M` is no parameter"):
        enabled.compile(func, **COMPILE, validate=Validate(inputs={"M": {"positive": True}}))


def test_a_changed_compiler_is_noticed(
    enabled: Any, fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict that is kept is about the CUDA text that it was made for."""
    func = kernels.add(1008)
    enabled.compile(func, **COMPILE, validate=True)
    environment = importlib.import_module("tilelang.env").env
    monkeypatch.setattr(environment, "is_cache_enabled", lambda: False)
    with added_pass(monkeypatch, "wrong_sign"):
        assert enabled.compile(func, **COMPILE) is not None
        with pytest.raises(ValidationError, match=r"test\.wrong_sign: value\.mismatch"):
            enabled.compile(func, **COMPILE, validate=Validate(report=tmp_path))


def test_a_changed_grid_is_noticed(
    enabled: Any, fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CUDA text does not hold the launch: of a kernel compiled just now, and of one from
    tilelang's disk, which has forgotten its launch.
    """
    from tilelang.cache import _dispatch_map

    func = kernels.add(2048)  # without a tail: no guard in the text
    environment = importlib.import_module("tilelang.env").env
    options = Validate(report=tmp_path, on_undecided="error")
    with monkeypatch.context() as patch:
        patch.setattr(environment, "is_cache_enabled", lambda: False)
        good = enabled.compile(func, **COMPILE, validate=options)
        with added_pass(monkeypatch, "half_grid"):
            bad = enabled.compile(func, **COMPILE)
            assert bad.get_kernel_source() == good.get_kernel_source()
            with pytest.raises(ValidationError, match=r"test\.half_grid: value\.unwritten"):
                enabled.compile(func, **COMPILE, validate=options)
    with added_pass(monkeypatch, "half_grid"):
        enabled.compile(func, **COMPILE)
    _dispatch_map["tvm_ffi"]._memory_cache.clear()
    for _ in range(2):
        with pytest.raises(ValidationError, match=r"unsupported\.not-reproduced: .*cache on disk"):
            enabled.compile(func, **COMPILE, validate=options)
        for path in fresh_cache.rglob("*.json"):
            path.unlink()


def test_a_changed_header_is_noticed(
    enabled: Any, fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The PTX is made from the headers too: the CUDA text is the same, what it means is not."""
    environment = importlib.import_module("tilelang.env")
    templates = tmp_path / "templates"
    original = Path(environment.TILELANG_TEMPLATE_PATH, "tl_templates")
    shutil.copytree(original, templates / "tl_templates")
    monkeypatch.setattr(environment, "TILELANG_TEMPLATE_PATH", str(templates))
    func = kernels.row_sum()
    options = Validate(reference=lambda x: x.sum(1), report=tmp_path, bisect=False)
    enabled.compile(func, **COMPILE, validate=options)
    header = templates / "tl_templates/cuda/reduce.h"
    text = header.read_text(encoding="utf-8")
    header.write_text(text.replace("return x + y;", "return x + x;", 1), encoding="utf-8")
    with pytest.raises(ValidationError, match=r"value\.mismatch"):
        enabled.compile(func, **COMPILE, validate=options)


def test_what_ptx_is_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options, variables, and files in the folders that these name, behind links too."""
    header = tmp_path / "mine" / "deep" / "a.h"
    header.parent.mkdir(parents=True)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "mine")
    (tmp_path / "mine" / "round").symlink_to(tmp_path / "mine")
    seen: list[str] = []

    def differs(*flags: str) -> bool:
        seen.append(nvcc.surroundings(asked(kernels.add(), compile_flags=list(flags))))
        return seen.count(seen[-1]) == 1

    plain = (f"-I{tmp_path / 'folder'}",)
    assert differs()
    assert differs(*plain)
    assert not differs(*plain)
    for text in ("#define A 1\n", "#define AB 1\n"):
        header.write_text(text, encoding="utf-8")
        assert differs(*plain)
    assert differs("--system-include", str(tmp_path / "mine"))
    for name in ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "CPATH"):
        monkeypatch.setenv(name, f"-include {header}" if "FLAGS" in name else str(header.parent))
        assert differs()
        header.write_text(f"// {name}\n", encoding="utf-8")
        assert differs()
        assert not differs()


def test_disable_restores_what_was_there() -> None:
    import tilelang

    from kcheck.passes.tilelang.plugin import disable, enable

    module = importlib.import_module("tilelang.jit")
    tuner = importlib.import_module("tilelang.autotuner.tuner")
    nvcc = importlib.import_module("tilelang.contrib.nvcc")
    disable()

    def state() -> list[Any]:
        names = ("compile", "par_compile", "jit")
        found = [getattr(owner, name) for owner in (tilelang, module) for name in names]
        found += [module.JITImpl.compile, module.JITImpl.par_compile]
        found += [nvcc.compile_cuda, tuner.AutoTuner.run]
        return [*found, tuner.AutoTuneImpl.get_tunner]

    before = state()
    enable()
    enable()
    assert not any(a is b for a, b in zip(state(), before, strict=True))
    disable()
    assert state() == before
    with pytest.raises(TypeError, match="validate"):
        tilelang.compile(kernels.add(), validate=True)


def test_importing_kcheck_changes_nothing_and_the_module_does() -> None:
    code = (
        "import tilelang, kcheck, kcheck.check\n"
        "before = tilelang.compile\n"
        "import kcheck.tilelang as k\n"
        "assert tilelang.compile is not before\n"
        "k.disable()\n"
        "assert tilelang.compile is before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_arguments_that_mean_nothing(enabled: Any) -> None:
    with pytest.raises(UsageError, match=r"expected a bool or a kcheck\.Validate"):
        enabled.compile(kernels.add(), **COMPILE, validate="yes")
    with pytest.raises(UsageError, match="on_undecided='shout': expected warn, error, ignore"):
        Validate(on_undecided="shout")
    for wrong in (5, [1], {"L": 5}, {"L": None}, {3: {"range": [0, 1]}}):
        with pytest.raises(UsageError, match=r'expected \{"name": \{"range"'):
            Validate(inputs=wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"L: values: absent\.npy: .*; expected a list"):
        Validate(inputs={"L": {"values": "absent.npy"}})


def test_a_release_that_was_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    import tilelang

    monkeypatch.setattr(tilelang, "__version__", "9.9.9")
    installed.tilelang.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"tried with tilelang 0\.1\.15; this is 9\.9\.9"):
            installed.tilelang()
    finally:
        installed.tilelang.cache_clear()


def test_without_tilelang_there_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tilelang", None)
    installed.tilelang.cache_clear()
    try:
        with pytest.raises(UsageError, match=r"pip install 'kcheck\[tilelang\]'"):
            installed.tilelang()
    finally:
        installed.tilelang.cache_clear()


def test_targets_of_others_are_left_alone(enabled: Any) -> None:
    """Validation asked for by the environment does not break compiles for other devices."""
    from kcheck.passes.tilelang.request import Unsupported, request

    with pytest.raises(Unsupported) as error:
        request(kernels.add(), "c")
    assert error.value.form == "target"
    assert request(kernels.add(), TARGET).name == "add"
