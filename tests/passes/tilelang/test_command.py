"""`kcheck tilelang`: programs of a file, the table, JSON, snapshots, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcheck.check import equivalent
from kcheck.cli import main

FILE = """
import tilelang
import tilelang.language as T
from tilelang.language import copy  # not a program

def make(n=1004):
    @T.prim_func
    def add(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 256), threads=128) as bx:
            for i in T.Parallel(256):
                Y[bx * 256 + i] = X[bx * 256 + i] + 1.0
    return add

good = make()

@tilelang.jit(target={"kind": "cuda", "arch": "sm_80"})
def needs_arguments(n):
    return make(n)
"""
BAD = """
@tilelang.jit(pass_configs={"tl.disable_safe_memory_legalize": True})
def bad(n: int = 1004):
    return make(n)
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main(["tilelang", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "program.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_all_programs_are_proved(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, file)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "proved good"
    assert lines[1].split() == ["rung", "lines", "changed", "verdict"]
    assert lines[2].split()[0] == "all"
    assert "proved exact" in lines[2]
    assert len(lines) == 3


def test_a_wrong_program_is_refuted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with file.open("a", encoding="utf-8") as more:
        more.write(BAD)
    code, out, _ = run(capsys, file)
    assert code == 1
    assert "proved good" in out
    assert "refuted bad" in out
    assert "add: tl.disable_safe_memory_legalize: bounds.global: " in out
    assert "program.py:11" in out
    assert list(Path("kcheck-reports").glob("add-*/report.txt"))
    code, out, _ = run(capsys, f"{file}:bad", "--json", "--no-bisect")
    found = json.loads(out)["programs"]
    assert code == 1
    assert [one["program"] for one in found] == ["bad"]
    assert found[0]["rung"] is None
    assert found[0]["verdict"]["reason"] == "bounds.global"
    place = found[0]["verdict"]["findings"][0]["locations"][0]["source"]
    assert place[0] == "program.py:11"
    assert place[1].startswith("subject.cu:")


def test_snapshots_are_pairs_that_kcheck_proves(
    file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = run(capsys, f"{file}:make", "--ladder", "--snapshots", tmp_path / "rungs")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:]] == [
        "none", "vectorize", "split_pattern",
    ]  # fmt: skip
    paths = sorted((tmp_path / "rungs" / "make").glob("*.ptx"))
    assert [path.stem for path in paths] == ["00_none", "01_vectorize", "02_split_pattern"]
    assert equivalent(paths[0], paths[1]).verdict == "proved"
    assert paths[0].with_suffix(".cu").exists()


def test_against_a_function(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with file.open("a", encoding="utf-8") as more:
        more.write("def right(X):\n    return X + 1\n\ndef wrong(X):\n    return X + 2\n")
    code, out, _ = run(capsys, f"{file}:good", "--reference", f"{file}:right")
    assert (code, out.splitlines()[0]) == (0, "proved good")
    code, out, _ = run(capsys, f"{file}:good", "--reference", f"{file}:wrong")
    assert code == 1
    assert "add: none: value.mismatch: Y[" in out
    code, _, err = run(capsys, file, "--reference", f"{file}:missing")
    assert (code, "no `missing` in it" in err) == (2, True)


@pytest.mark.parametrize(
    ("suffix", "text", "message"),
    [
        (":nothing", "", "no `nothing` in it"),
        (":needs_arguments", "", "needs_arguments: "),
        (":copy", "", "copy: "),
        ("", "raise ValueError('no')", "ValueError: no"),
    ],
)
def test_usage_errors(
    suffix: str, text: str, message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(FILE + text, encoding="utf-8")
    code, _, err = run(capsys, f"{file}{suffix}")
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_file_without_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty_program.py"
    path.write_text("x = 1\n", encoding="utf-8")
    code, _, err = run(capsys, path)
    assert code == 2
    assert "name one that makes a prim_func" in err
    code, _, err = run(capsys, tmp_path / "missing.py")
    assert code == 2
    assert "missing.py" in err
