"""Launch files: what is read, what is refused and with which words, what is written."""

from __future__ import annotations

import dataclasses
import string
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kcheck.launch import (
    ANYTHING,
    DTYPE_BYTES,
    FLOATS,
    Launch,
    LaunchError,
    Promise,
    Scalar,
    Tensor,
    TensorMap,
)
from kcheck.launch_file import (
    dump_launch,
    find_launch,
    load_launch,
    parse_launch,
    with_fields,
)

GOOD = """\
kernel: k
grid: [4, 2, 1]
block: [128, 1, 1]
dynamic_shared: 1024
params:
- {name: A, dtype: f16, shape: [8, 16], role: in}
- {name: C, dtype: f32, shape: [8], role: out, init: zero}
- {name: n, dtype: s32, role: scalar, value: 42}
- {name: eps, dtype: f32, role: scalar, value: 1e-06}
- {name: scale, dtype: f32, role: scalar, value: symbolic}
"""

TENSORMAP = """\
kernel: k
grid: [1, 1, 1]
block: [32, 1, 1]
dynamic_shared: 0
params:
- {name: A_desc, role: tensormap, tensormap: {of: A, dims: [16, 8], strides: [2, 32], box: [16, 8],
    element_strides: [1, 1], interleave: 0, swizzle: 64B, fill: zero},
  buffer: {name: A, dtype: f16, shape: [8, 16], role: in}}
"""

IM2COL = """\
kernel: k
grid: [1, 1, 1]
block: [32, 1, 1]
dynamic_shared: 0
params:
- name: A_desc
  role: tensormap
  tensormap: {of: A, mode: im2col, dims: [8, 9, 9, 1], strides: [2, 16, 144, 1296],
    element_strides: [1, 1, 1, 1], lower_corner: [-1, -1], upper_corner: [-1, -1],
    pixels_per_column: 64, channels_per_pixel: 8, interleave: none, swizzle: none, fill: nan}
  buffer: {name: A, dtype: f16, shape: [1, 9, 9, 8], role: in}
"""


def edited(old: str, new: str, text: str = GOOD) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def with_param(param: str) -> str:
    return "kernel: k\ngrid: [1, 1, 1]\nblock: [1, 1, 1]\ndynamic_shared: 0\nparams:\n- " + param


def read_error(text: str) -> str:
    with pytest.raises(LaunchError) as caught:
        parse_launch(text, "K.launch.yaml")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("K.launch.yaml")
    return message


def test_good() -> None:
    launch = parse_launch(GOOD, "K.launch.yaml")
    assert (launch.kernel, launch.grid, launch.block) == ("k", (4, 2, 1), (128, 1, 1))
    assert (launch.ctas, launch.threads, launch.dynamic_shared) == (8, 128, 1024)
    assert launch.params == (
        Tensor("A", "f16", (8, 16), "in"),
        Tensor("C", "f32", (8,), "out", init="zero"),
        Scalar("n", "s32", 42),
        Scalar("eps", "f32", 1e-6),
        Scalar("scale", "f32", None),
    )
    assert list(launch.buffers) == ["A", "C"]
    assert launch.path == "K.launch.yaml"


def test_words_that_yaml_takes_for_something_else() -> None:
    launch = parse_launch(with_param("{name: no, dtype: f32, shape: [2], role: in}"))
    assert launch.params[0].name == "no"


def test_tensormaps() -> None:
    (tiled,) = parse_launch(TENSORMAP).params
    assert isinstance(tiled, TensorMap)
    assert tiled.fields["mode"] == "tiled"
    assert tiled.fields["box"] == [16, 8]
    assert tiled.fields["swizzle"] == "64B"
    assert tiled.buffer == Tensor("A", "f16", (8, 16), "in")
    (im2col,) = parse_launch(IM2COL).params
    assert isinstance(im2col, TensorMap)
    assert im2col.fields["lower_corner"] == [-1, -1]
    assert im2col.fields["channels_per_pixel"] == 8


# what is changed in GOOD, into what, and the error from the line number on
BAD = [
    ("kernel: k\n", "", ":1: launch: found no key `kernel`"),
    ("kernel: k", "kernel: k\ngird: [1]", ":2: gird: found an unknown key `gird`"),
    ("kernel: k", "kernel: k\nkernel: l", ":2: kernel: found the key twice"),
    ("kernel: k", "kernel: [k]", ":1: kernel: found a list; expected a word"),
    ("[4, 2, 1]", "[4, 2]", ":2: grid: found 2 numbers; expected 3 (x, y, z)"),
    ("[4, 2, 1]", "[4, 0, 1]", ":2: grid[1]: found `0`; expected an integer from 1 to 65535"),
    ("[4, 2, 1]", "[4, 2.0, 1]", ":2: grid[1]: found `2.0`; expected an integer"),
    ("[4, 2, 1]", "[4, '2', 1]", ":2: grid[1]: found `2`; expected an integer"),
    ("[4, 2, 1]", "[4, [2], 1]", ":2: grid[1]: found a list; expected an integer"),
    ("[4, 2, 1]", "8", ":2: grid: found `8`; expected a list"),
    ("[128, 1, 1]", "[1024, 2, 1]", ":3: block: found 2048 threads; expected at most 1024"),
    ("[128, 1, 1]", "[1, 1, 128]", ":3: block[2]: found `128`; expected an integer from 1 to 64"),
    ("1024", "-1", ":4: dynamic_shared: found `-1`"),
    ("1024", "99999999999", ":4: dynamic_shared: found `99999999999`"),
    ("[8, 16]", "[8, -16]", ":6: params[0].shape[1]: found `-16`"),
    ("[8, 16]", "8", ":6: params[0].shape: found `8`; expected a list"),
    ("f16", "float16", ":6: params[0].dtype: found `float16`; expected one of f64, f32"),
    ("role: in}", "role: input}", ":6: params[0].role: found `input`; expected one of in, out"),
    ("role: in}", "role: in, init: zero}", ":6: params[0].init: found role in"),
    ("role: in}", "role: in, compare: false}", ":6: params[0].compare: found role in"),
    ("role: in}", "role: in, strides: [16]}", ":6: params[0].strides: found 1 strides"),
    ("role: in}", "role: in, values: [1]}", ":6: params[0].values: found 1 values"),
    ("init: zero", "init: one", ":7: params[1].init: found `one`; expected one of undef, zero"),
    ("init: zero", "compare: 1", ":7: params[1].compare: found `1`; expected true or false"),
    ("init: zero", "values: [1]", ":7: params[1].values: found role out"),
    ("name: C", "name: A", ":7: params[1].name: found `A` again; expected distinct names"),
    ("value: 42", "value: 4.2", ":8: params[2].value: found `4.2`; expected an integer"),
    ("value: 42", "value: 2147483648", ":8: params[2].value: found `2147483648`"),
    ("value: 42", "value: true", ":8: params[2].value: found `true`"),
    ("value: 42", "valeu: 42", ":8: params[2].valeu: found an unknown key `valeu`"),
    (", value: 42", "", ":8: params[2]: found no key `value`"),
    ("1e-06", "tiny", ":9: params[3].value: found `tiny`; expected a number"),
    ("1e-06", ".nan", ":9: params[3].value: found `.nan`; expected a number"),
    ("1e-06", "1e39", ":9: params[3].value: found 1e+39; expected a number that f32 can hold"),
    ("1e-06", "1e999", ":9: params[3].value: found `1e999`; expected a number"),
    ("role: in}", "role: in, range: [1]}", ":6: params[0].range: found 1 numbers, [1.0]"),
    ("role: in}", "role: in, range: [2, 1]}", ":6: params[0].range: found 2 numbers, [2.0, 1.0]"),
    ("role: in}", "role: in, range: 1}", ":6: params[0].range: found `1`; expected a list"),
    ("role: in}", "role: in, range: [.inf, .inf]}", ":6: params[0].range: found [inf, inf]"),
    ("role: in}", "role: in, positive: 1}", ":6: params[0].positive: found `1`; expected true"),
    ("role: in}", "role: in, nonzero: false}", ":6: params[0].nonzero: found `false`"),
    (
        "role: in}",
        "role: in, range: [-1, 0], positive: true}",
        ":6: params[0].positive: found that no number is left",
    ),
    ("role: in}", "role: in, divisible: 2}", ":6: params[0].divisible: found an unknown key"),
    ("init: zero", "nonzero: true", ":7: params[1].nonzero: found role out"),
    ("value: 42", "value: 42, divisible: 4", ":8: params[2].divisible: found 42 among the known"),
    (
        "value: 42",
        "value: symbolic, range: [0, 9007199254740993]",
        ":8: params[2].range: found [0.0, 9007199254740992.0]; expected ends below 2^53",
    ),
    ("value: 42", "value: 42, divisible: 0", ":8: params[2].divisible: found `0`"),
    ("1e-06", "1e-06, range: [1, 2]", ":9: params[3].range: found 1e-06 among the known values"),
    ("1e-06", "1e-06, divisible: 2", ":9: params[3].divisible: found dtype f32"),
    ("1024", "1024\nalias: [A, D]", ":5: alias[1]: found `D`; expected one of A, C"),
    ("1024", "1024\nalias: [A]", ":5: alias: found 1 names; expected two or more"),
    ("1024", "1024\nalias: [A, C]", ":5: alias[1]: found `C`, not like `A`; expected one dtype"),
    ("1024", "1024\nalias: [A, A]", ":5: alias[1]: found `A` again; expected each name once"),
    ("1024", "1024\nalias: [C, C]", ":5: alias[0]: found `C` with known contents"),
    ("1024", "1024\ncluster: [3, 1, 1]", ":5: cluster: found [3, 1, 1]; expected a divisor"),
    ("1024", "1024\nexterns: [f]", ":5: externs: found a list; expected a mapping"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD, ids=[f"{o}->{n}" for o, n, _ in BAD])
def test_refused(old: str, new: str, message: str) -> None:
    assert read_error(edited(old, new)).startswith("K.launch.yaml" + message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("of: A", "of: B", "params[0].tensormap.of: found `B`; expected the name of its buffer"),
        ("box: [16, 8]", "box: [16]", "params[0].tensormap.box: found 1 numbers; expected 2"),
        ("swizzle: 64B", "swizzle: 65B", "params[0].tensormap.swizzle: found `65B`"),
        ("fill: zero", "fill: zero, x: 1", "params[0].tensormap.x: found an unknown key `x`"),
        ("dims: [16, 8]", "dims: []", "params[0].tensormap.dims: found 0 dimensions"),
        ("name: A,", "name: A_desc,", "params[0].tensormap.of: found `A`"),
    ],
)
def test_refused_tensormaps(old: str, new: str, message: str) -> None:
    assert message in read_error(edited(old, new, TENSORMAP))


@pytest.mark.parametrize("text", ["", "# nothing", "42", "[1, 2]", "kernel: [", "\x00", "a: b: c"])
def test_no_launch_at_all(text: str) -> None:
    read_error(text)


def test_alias_bomb() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "more than a million entries" in read_error("\n".join(lines))


def test_two_tensormaps_of_one_buffer() -> None:
    again = TENSORMAP.split("params:\n")[1].replace("A_desc", "A_store")
    assert len(parse_launch(TENSORMAP + again).buffers) == 1
    other = again.replace("shape: [8, 16]", "shape: [16, 8]")
    assert "buffer `A` once more, with other properties" in read_error(TENSORMAP + other)


def test_fill() -> None:
    text = edited("[4, 2, 1]", "[FILL, 1, 1]").replace("[8]", "[FILL]")
    assert read_error(text).endswith("still to fill in (FILL): grid[0], params[1].shape[0]")


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("s32", "[1, -2]", np.array([1, -2], np.int32)),
        ("u64", "[1, 0xffffffffffffffff]", np.array([1, 2**64 - 1], np.uint64)),
        ("f32", "[0.1, -.inf]", np.array([0.1, -np.inf], np.float32)),
        ("bf16", "[0.5, 3]", np.array([0.5, 3], np.float32)),
    ],
)
def test_values(dtype: str, values: str, expected: NDArray[Any]) -> None:
    param = f"{{name: I, dtype: {dtype}, shape: [2], role: in, values: {values}}}"
    (tensor,) = parse_launch(with_param(param)).params
    assert isinstance(tensor, Tensor)
    assert tensor.values is not None
    assert tensor.values.dtype == expected.dtype
    np.testing.assert_array_equal(tensor.values, expected)


@pytest.mark.parametrize(
    ("dtype", "values", "message"),
    [
        ("u8", "[1, 256]", "params[0].values[1]: found `256`; expected an integer from 0 to 255"),
        ("bf16", "[0.1, 1]", "params[0].values: found a value between two of the format"),
        ("e4m3", "[1, 1]", "params[0].values: found dtype e4m3"),
        ("f32", "[1, x]", "params[0].values[1]: found `x`; expected a number"),
        ("f32", "absent.npy", "params[0].values: found"),
    ],
)
def test_bad_values(dtype: str, values: str, message: str) -> None:
    param = f"{{name: I, dtype: {dtype}, shape: [2], role: in, values: {values}}}"
    assert message in read_error(with_param(param))


def test_values_from_npy(tmp_path: Path) -> None:
    path = tmp_path / "K.launch.yaml"
    path.write_text(with_param("{name: I, dtype: s32, shape: [2, 3], role: in, values: i.npy}"))
    np.save(tmp_path / "i.npy", np.arange(6, dtype=np.int32).reshape(2, 3))
    (tensor,) = load_launch(path).params
    assert isinstance(tensor, Tensor)
    assert tensor.values is not None
    assert tensor.values.tolist() == [0, 1, 2, 3, 4, 5]
    np.save(tmp_path / "i.npy", np.arange(6, dtype=np.int64))
    with pytest.raises(LaunchError, match=r"i\.npy of dtype int64; expected dtype int32"):
        load_launch(path)
    np.save(tmp_path / "i.npy", np.arange(5, dtype=np.int32))
    with pytest.raises(LaunchError, match=r"found 5 values, shape \[5\]; expected \[2, 3\]"):
        load_launch(path)
    (tmp_path / "i.npy").write_bytes(b"no array")
    with pytest.raises(LaunchError, match=r"params\[0\]\.values: found .*i\.npy"):
        load_launch(path)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="can't read the launch file"):
        load_launch(tmp_path / "absent.launch.yaml")
    with pytest.raises(LaunchError, match="can't read the launch file"):
        load_launch(tmp_path)
    binary = tmp_path / "b.launch.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LaunchError, match="not a launch file"):
        load_launch(binary)


def test_find_launch(tmp_path: Path) -> None:
    assert find_launch(tmp_path / "a.b.ptx") is None
    (tmp_path / "a.b.launch.yaml").write_text(GOOD)
    assert find_launch(tmp_path / "a.b.ptx") == tmp_path / "a.b.launch.yaml"


NAMES = st.text(string.ascii_letters + string.digits + "_$. -#:'\"", min_size=1, max_size=8)
SIZES = st.integers(0, 2**40)


@st.composite
def promises(draw: st.DrawFn) -> Promise:
    low = draw(st.sampled_from([-np.inf, -64.0, 0.0, 0.1]))
    high = draw(st.sampled_from([np.inf, 8.0, 16.25]))
    return Promise(low, high, draw(st.booleans()))


@st.composite
def tensors(draw: st.DrawFn, name: str) -> Tensor:
    shape = tuple(draw(st.lists(SIZES, max_size=3)))
    role = draw(st.sampled_from(["in", "out", "inout"]))
    rank = len(shape)
    return Tensor(
        name=name,
        dtype=draw(st.sampled_from(sorted(DTYPE_BYTES))),
        shape=shape,
        role=role,
        strides=tuple(draw(st.lists(SIZES, min_size=rank, max_size=rank)))
        if draw(st.booleans())
        else None,
        init=draw(st.sampled_from(["undef", "zero"])) if role == "out" else "undef",
        compare=draw(st.booleans()) if role != "in" else True,
        promise=draw(promises()) if role != "out" else ANYTHING,
    )


@st.composite
def scalars(draw: st.DrawFn, name: str) -> Scalar:
    dtype = draw(st.sampled_from(sorted(DTYPE_BYTES)))
    value: int | float | None = draw(st.none() | st.integers(0, 127))
    if dtype in FLOATS and value is not None:
        value = draw(st.floats(-400, 400) | st.just(-np.inf))
    if value is not None:
        return Scalar(name, dtype, value)
    divisor = 1 if dtype in FLOATS else draw(st.sampled_from([1, 1, 8]))
    return Scalar(name, dtype, value, dataclasses.replace(draw(promises()), divisible=divisor))


@st.composite
def launches(draw: st.DrawFn) -> Launch:
    names = draw(st.lists(NAMES, unique=True, max_size=4))
    params = tuple(draw(tensors(name) | scalars(name)) for name in names)
    return Launch(
        kernel=draw(NAMES),
        grid=draw(st.tuples(*[st.integers(1, 9)] * 3)),
        block=draw(st.tuples(*[st.integers(1, 9)] * 3)),
        params=params,
        dynamic_shared=draw(st.integers(0, 200_000)),
        externs=draw(st.dictionaries(NAMES, NAMES, max_size=2)),
    )


@given(launches())
def test_what_is_written_reads_back(launch: Launch) -> None:
    assert parse_launch(dump_launch(launch)) == launch


IN_PLACE = """\
kernel: k
grid: [1, 1, 1]
block: [32, 1, 1]
dynamic_shared: 0
alias: [[A, C], [B, D, E]]
params:
- {name: A, dtype: f32, shape: [8], role: in, positive: true}
- {name: B, dtype: f16, shape: [8], role: out}
- {name: C, dtype: f32, shape: [8], role: out}
- {name: D, dtype: f16, shape: [8], role: inout, range: [-1, 1], nonzero: true}
- {name: E, dtype: f16, shape: [8], role: in, range: [-1, 1], nonzero: true}
- {name: n, dtype: s32, role: scalar, value: 48, divisible: 16, positive: true}
"""


def test_preconditions() -> None:
    launch = parse_launch(IN_PLACE)
    assert launch.alias == (("A", "C"), ("B", "D", "E"))
    assert launch.sharing("C") == ("A", "C")
    assert launch.sharing("B") == ("D", "E", "B")  # whose contents it has comes first
    assert launch.buffers["A"].promise == Promise(0.0, np.inf, nonzero=True)
    assert launch.buffers["D"].promise == Promise(-1.0, 1.0, nonzero=True)
    assert launch.params[5].promise == Promise(0.0, np.inf, True, 16)  # type: ignore[union-attr]
    one = parse_launch(IN_PLACE.replace("[[A, C], [B, D, E]]", "[A, C]"))
    assert one.alias == (("A", "C"),)
    assert one.sharing("B") == ("B",)


@pytest.mark.parametrize("text", [GOOD, TENSORMAP, IM2COL, IN_PLACE])
def test_written_launches_read_back(text: str) -> None:
    launch = parse_launch(text)
    assert parse_launch(dump_launch(launch)) == launch


def test_values_are_written() -> None:
    values = np.array([1, 2], np.int32)
    launch = parse_launch(with_param("{name: I, dtype: s32, shape: [2], role: in}"))
    (tensor,) = launch.params
    assert isinstance(tensor, Tensor)
    known = dataclasses.replace(tensor, values=values)
    text = dump_launch(dataclasses.replace(launch, params=(known,)))
    (read,) = parse_launch(text).params
    assert isinstance(read, Tensor)
    np.testing.assert_array_equal(read.values, values)


@given(st.text(max_size=60))
def test_no_text_crashes_the_reader(text: str) -> None:
    with suppress(LaunchError):
        parse_launch(text)


@given(st.integers(0, len(GOOD) + len(IM2COL)), st.sampled_from("[]{}:,-&*!|>'\"% \t\n0x."))
def test_no_mutation_crashes_the_reader(at: int, char: str) -> None:
    for text in (GOOD, IM2COL):
        with suppress(LaunchError):
            parse_launch(text[:at] + char + text[at + 1 :])


def test_launches_with_other_values_are_other_launches() -> None:
    launch = parse_launch(GOOD)
    some = with_fields(launch, {"A": {"values": [1] * 128}})
    assert some == with_fields(launch, {"A": {"values": [1] * 128}})
    assert some not in (launch, with_fields(launch, {"A": {"values": [1] * 127 + [2]}}))


def test_fields_are_read_as_in_a_file() -> None:
    launch = with_fields(parse_launch(GOOD), {"A": {"range": [-1, 1]}, "scale": {"positive": True}})
    assert launch.buffers["A"].promise == Promise(-1, 1)
    assert launch == parse_launch(dump_launch(launch))
    with pytest.raises(LaunchError, match=r"^given: A:1: range: found 1 numbers"):
        with_fields(launch, {"A": {"range": [1]}}, "given")
    with pytest.raises(LaunchError, match=r"^inputs: `B` is no parameter; there are A, C, n"):
        with_fields(launch, {"B": {"positive": True}})


@pytest.mark.parametrize("key", ["shape", "role", "dtype", "name", "compare", "init", "divisible"])
def test_what_is_known_does_not_change_what_is_launched(key: str) -> None:
    launch = parse_launch(GOOD)
    with pytest.raises(LaunchError, match=rf"A: {key}: .*; expected values, range, positive, non"):
        with_fields(launch, {"A": {key: 1}})
    with pytest.raises(LaunchError, match=r"n: shape: .*; expected value, range, .*divisible"):
        with_fields(launch, {"n": {"shape": [1]}})
