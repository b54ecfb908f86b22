"""One function in several forms, with branches, selects and maxima, optimized and not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kcheck.check import equivalent
from kcheck.launch import Launch, Param, Tensor
from kcheck.verdict import Verdict

DATA = Path(__file__).parent / "data" / "branches"
SOURCES = {name: (DATA / f"{name}_O3.ptx").read_text() for name in ("branches", "argmax")}
KERNELS = {
    kernel: name
    for name, text in SOURCES.items()
    for kernel in re.findall(r"\.visible \.entry (\w+)\(", text)
}
REFERENCES = {kernel.partition("_")[0]: kernel for kernel in reversed(KERNELS)}
LANES = 8


def launch(kernel: str) -> Launch:
    """One CTA; some kernels read their neighbours 32, 64 and 96 elements further on."""
    family = kernel.partition("_")[0]
    params: list[Param] = [Tensor("x", "f32", (128,), "in")]
    if family.startswith("argmax"):
        params += [Tensor(n, t, (LANES,), "out") for n, t in (("index", "s32"), ("best", "f32"))]
    else:
        init = "zero" if family == "sums" else "undef"
        params.append(Tensor("out", "f32", (LANES,), "out", init=init))
    return Launch(kernel, (1, 1, 1), (LANES, 1, 1), tuple(params))


def verdict(subject: str, optimized: bool) -> Verdict:
    """The subject against the first form of its function, which is not optimized."""
    reference = REFERENCES[subject.partition("_")[0]]
    files = [DATA / f"{KERNELS[subject]}_{o}.ptx" for o in ("O0", "O3" if optimized else "O0")]
    return equivalent(
        *files,
        kernel=reference,
        subject_kernel=subject,
        launch=launch(reference),
        subject_launch=launch(subject),
        seed=1,
    )


FORMS = [kernel for kernel in KERNELS if "_bad_" not in kernel]
WRONG = [kernel for kernel in KERNELS if "_bad_" in kernel]


def test_the_kernels_branch() -> None:
    for kernel in FORMS:
        if kernel.endswith("_branch"):
            text = (DATA / f"{KERNELS[kernel]}_O0.ptx").read_text()
            assert re.search(rf"entry {kernel}\([^}}]*@!?%p\d+ bra", text), kernel


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("kernel", FORMS)
def test_forms_of_one_function_are_proved_equal(kernel: str, optimized: bool) -> None:
    found = verdict(kernel, optimized)
    assert (found.verdict, found.method, found.findings) == ("proved", "exact", ())


@pytest.mark.parametrize("kernel", WRONG)
def test_wrong_ones_are_refuted_at_their_store(kernel: str) -> None:
    found = verdict(kernel, True)
    assert (found.verdict, found.reason) == ("refuted", "value.mismatch")
    assert found.witness is not None
    place = found.findings[0].locations[-1]
    assert place.text.startswith("st.global.")
    entry = SOURCES[KERNELS[kernel]].split("\n").index(f".visible .entry {kernel}(")
    end = SOURCES[KERNELS[kernel]].split("\n").index("}", entry)
    assert entry < place.line <= end


def test_ties_tell_the_first_from_the_last() -> None:
    witness = verdict("argmax4_bad_tie", True).witness
    assert witness is not None
    assert witness.buffer == "index"
    x = witness.inputs["x"].reshape(-1)[: 4 * LANES].reshape(LANES, 4)[witness.index[0]]
    assert (x == x.max()).sum() > 1
