"""The command line: options, exit codes, what goes to which stream. The check itself is faked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kcheck.check
import kcheck.running
from kcheck.cli import main
from kcheck.cli.equiv import parse_map
from kcheck.cli.errors import printable
from kcheck.cli.run import load_arrays
from kcheck.launch import LaunchError
from kcheck.ptx_frontend.errors import PtxError
from kcheck.ptx_frontend.source import Source, Span
from kcheck.verdict import EXIT, Finding, UsageError, Verdict

PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u32 k_2)
.reqntid 32
{
	.reg .b64 %rd<5>;
	.reg .f32 %f<3>;
	ld.param.u64 %rd1, [k_0];
	ld.param.u64 %rd2, [k_1];
	ld.global.f32 %f1, [%rd1];
	st.global.f32 [%rd2], %f1;
	ret;
}
"""

Capture = pytest.CaptureFixture[str]


class Fake:
    """Stands in for `equivalent`: keeps its arguments, returns or raises what it is told."""

    def __init__(self) -> None:
        self.answer: Verdict | Exception | type[BaseException] = Verdict("proved")
        self.arguments: dict[str, Any] = {}

    def __call__(self, reference: Path, subject: Path, **options: Any) -> Verdict:
        self.arguments = {"reference": reference, "subject": subject, **options}
        if isinstance(self.answer, Verdict):
            return self.answer
        raise self.answer


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake()
    monkeypatch.setattr(kcheck.check, "equivalent", fake)
    return fake


@pytest.fixture
def ptx(tmp_path: Path) -> str:
    path = tmp_path / "k.ptx"
    path.write_text(PTX)
    return str(path)


def test_options_reach_the_check(fake: Fake, ptx: str, tmp_path: Path) -> None:
    options = f"--launch {ptx} --subject-launch {ptx} --kernel k --subject-kernel s --cta 3"
    options += f" --map A=x,B=y --map C=z --seed 7 --no-safety --witness-dir {tmp_path}"
    options += " --engine field --time-limit 2.5 --memory-limit 900"
    options += " --mask-literal -1e30 --mask-literal -10000"
    assert main(["equiv", ptx, ptx, *options.split()]) == 0
    path = Path(ptx)
    assert callable(fake.arguments.pop("progress"))
    assert fake.arguments == {
        "reference": path,
        "subject": path,
        "launch": path,
        "subject_launch": path,
        "kernel": "k",
        "subject_kernel": "s",
        "cta": 3,
        "mapping": {"A": "x", "B": "y", "C": "z"},
        "seed": 7,
        "safety": False,
        "strict": False,
        "engine": "field",
        "time_limit": 2.5,
        "memory_limit": 900,
        "mask_literals": (-1e30, -1e4),
        "witness_dir": tmp_path,
    }


def test_defaults(fake: Fake, ptx: str) -> None:
    assert main(["equiv", ptx, ptx]) == 0
    assert fake.arguments["safety"] is True
    assert fake.arguments["mapping"] == {}
    for name in ("launch", "subject_launch", "kernel", "subject_kernel", "cta", "seed"):
        assert fake.arguments[name] is None


@pytest.mark.parametrize(("verdict", "code"), EXIT.items())
def test_exit_codes(fake: Fake, ptx: str, verdict: str, code: int, capsys: Capture) -> None:
    fake.answer = Verdict(verdict, "some.reason")
    assert main(["equiv", ptx, ptx]) == code
    out, err = capsys.readouterr()
    assert out.startswith(f"{verdict}  some.reason")
    assert "\x1b" not in out
    assert err == ""


@pytest.mark.parametrize(
    ("verdict", "code"), [("proved-for-cta", 0), ("undecided", 3), ("refuted", 1)]
)
def test_accept_cta(fake: Fake, ptx: str, verdict: str, code: int) -> None:
    fake.answer = Verdict(verdict)
    assert main(["equiv", ptx, ptx, "--cta", "0", "--accept", "cta"]) == code


def test_json_is_one_object(fake: Fake, ptx: str, capsys: Capture) -> None:
    fake.answer = Verdict("refuted", "value.mismatch", findings=(Finding("r", "m", "both"),))
    assert main(["equiv", ptx, ptx, "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["reason"] == "value.mismatch"
    assert err == ""


SPAN = Span(Source("k.ptx", "add.u32 x;"), 0, 3)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UsageError("bad map"), "kcheck: bad map"),
        (LaunchError("k.launch.yaml:1: grid"), "kcheck: k.launch.yaml:1: grid"),
        (PtxError(SPAN, "expected `,`"), "kcheck: k.ptx:1:1: expected `,`"),
        (FileNotFoundError(2, "No such file", "x.ptx"), "kcheck: x.ptx: No such file"),
        (IsADirectoryError(21, "Is a directory", "x"), "kcheck: x: Is a directory"),
    ],
)
def test_usage_errors(fake: Fake, ptx: str, error: Exception, line: str, capsys: Capture) -> None:
    fake.answer = error
    assert main(["equiv", ptx, ptx]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == line
    assert main(["equiv", ptx, ptx, "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "usage-error"
    assert answer["message"] == str(error) or line == f"kcheck: {answer['message']}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing command"),
        (["prove"], "No such command 'prove'"),
        (["equiv", "PTX"], "Missing argument 'SUBJECT'"),
        (["equiv", "PTX", "absent.ptx"], "'absent.ptx' does not exist"),
        (["equiv", "PTX", "."], "File '.' is a directory"),
        (["equiv", "PTX", "PTX", "--cta", "-1"], "-1 is not in the range"),
        (["equiv", "PTX", "PTX", "--accept", "all"], "'all' is not 'cta'"),
        (["equiv", "PTX", "PTX", "--map", "A"], "--map A: expected REFERENCE=SUBJECT"),
        (["equiv", "PTX", "PTX", "--nosafety"], "No such option"),
        (["run", "PTX", "--input", "PTX"], "not a .npz file of plain arrays"),
    ],
)
def test_bad_arguments(
    fake: Fake, ptx: str, arguments: list[str], message: str, capsys: Capture
) -> None:
    assert main([ptx if word == "PTX" else word for word in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("kcheck: ")
    assert err.count("\n") == 1


def test_internal_error(fake: Fake, ptx: str, capsys: Capture) -> None:
    fake.answer = ZeroDivisionError("boom")
    assert main(["equiv", ptx, ptx, "--json"]) == 4
    out, err = capsys.readouterr()
    assert err == ""
    answer = json.loads(out)
    assert (answer["verdict"], answer["reason"]) == ("error", "internal.ZeroDivisionError")
    file = Path(answer["next_steps"][0].split(" is in ")[1])
    try:
        text = file.read_text()
    finally:
        file.unlink()
    assert "ZeroDivisionError: boom" in text
    assert "Traceback" in text


def test_interrupt(fake: Fake, ptx: str, capsys: Capture) -> None:
    fake.answer = KeyboardInterrupt
    assert main(["equiv", ptx, ptx]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err.strip() == "kcheck: interrupted"


def test_broken_pipe(ptx: str) -> None:
    """A reader that goes away early gets no traceback."""
    code = (
        "import sys, kcheck.check, kcheck.cli, kcheck.verdict\n"
        "long = kcheck.verdict.Verdict('proved', ledger=('assumption ' * 200_000,))\n"
        "kcheck.check.equivalent = lambda *a, **k: long\n"
        "sys.exit(kcheck.cli.main(sys.argv[1:]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, "equiv", ptx, ptx],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()
        assert process.wait() == 141
    assert error == b""


def test_version_and_help(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"kcheck {kcheck.__version__}\n"
    assert main(["--help"]) == 0
    assert "kcheck equiv" in capsys.readouterr().out
    assert main(["equiv", "--help"]) == 0
    assert "--no-safety" in capsys.readouterr().out


def test_help_imports_nothing_dear() -> None:
    code = (
        "import sys, kcheck.cli\n"
        "assert kcheck.cli.main(['--help']) == 0\n"
        "dear = {'numpy', 'sympy', 'yaml', 'rich', 'kcheck.check'} & set(sys.modules)\n"
        "assert not dear, dear\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_run(monkeypatch: pytest.MonkeyPatch, ptx: str, tmp_path: Path, capsys: Capture) -> None:
    given: dict[str, Any] = {}

    def execute(kernel: Path, **options: Any) -> kcheck.running.RunResult:
        given.update(options, kernel=kernel)
        return kcheck.running.RunResult(
            outputs={"C": np.array([1.0, 3.0], np.float32)},
            statistics={"instructions": 12},
            findings=given["findings"],
        )

    monkeypatch.setattr(kcheck.running, "run", execute)
    np.savez(tmp_path / "in.npz", A=np.arange(3))
    out = tmp_path / "out.npz"
    given["findings"] = ()
    files = ["--input", str(tmp_path / "in.npz"), "--output", str(out)]
    assert main(["run", ptx, "--seed", "5", "--kernel", "k", *files]) == 0
    assert given["kernel"] == Path(ptx)
    assert (given["seed"], given["kernel_name"]) == (5, "k")
    assert given["inputs"]["A"].tolist() == [0, 1, 2]
    with np.load(out) as saved:
        assert saved["C"].tolist() == [1.0, 3.0]
    text = capsys.readouterr().out
    assert "C: float32 [2], 1 to 3" in text
    assert "instructions: 12" in text
    given["findings"] = (Finding("bounds.global", "m", "reference"),)
    assert main(["run", ptx, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["reason"] == "bounds.global"
    given["findings"] = (Finding("unsupported.wgmma", "m", "reference"),)
    assert main(["run", ptx]) == 3


def test_launch_init(ptx: str, capsys: Capture) -> None:
    target = Path(ptx).with_suffix(".launch.yaml")
    assert main(["launch", "init", ptx]) == 0
    assert str(target) in capsys.readouterr().out
    first = target.read_text()
    assert "{name: p1, dtype: f32, shape: [FILL], role: out}" in first
    target.write_text("mine")
    assert main(["launch", "init", ptx]) == 2
    assert "exists already" in capsys.readouterr().err
    assert target.read_text() == "mine"
    assert main(["launch", "init", ptx, "--force"]) == 0
    assert target.read_text() == first


def test_parse_map() -> None:
    assert parse_map(()) == {}
    assert parse_map(("A=x, B=y", "C=z")) == {"A": "x", "B": "y", "C": "z"}
    for bad in ("", "A", "A=", "=x", "A=x,", "A=x,A=y"):
        with pytest.raises(UsageError, match="--map"):
            parse_map((bad,))


def test_load_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", a=np.array([object()]))
    np.save(tmp_path / "o.npy", np.arange(3))
    (tmp_path / "text.npz").write_text("text")
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("o.npz", "o.npy", "text.npz", "empty.npz"):
        with pytest.raises(UsageError, match=r"not a \.npz file of plain arrays"):
            load_arrays(tmp_path / name)


def test_printable() -> None:
    assert printable("a\x1b[31m\tb\nc" + "d" * 400) == "a\ufffd[31m\tb\nc" + "d" * 299
