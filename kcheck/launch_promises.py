"""The preconditions of a launch file: what the user promises of inputs, and shared buffers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kcheck.launch import ANYTHING, FLOATS, Param, Promise, Tensor
from kcheck.yaml_reader import Reader

# integers below this are float64s
EXACT = 2**53
# keys of a tensor or a scalar; an integer scalar has `divisible` too
PROMISES = ("range", "positive", "nonzero")


def promise(reader: Reader, dtype: str, known: Any) -> Promise:
    """The precondition of a parameter. LaunchError for one that nothing, or `known`, keeps."""
    found = ANYTHING
    keys = [key for key in (*PROMISES, "divisible") if key in reader]
    for key in keys:
        found = found.meet(_one(reader[key], key, dtype))
        if found.empty:
            raise reader[key].error("that no number is left", "a number that keeps all of them")
    kept = found.holds(known)
    if keys and not kept.all():
        number = np.asarray(known)[~kept][0]
        raise reader[keys[0]].error(f"{number} among the known values", "values that keep it")
    return found


def _one(reader: Reader, key: str, dtype: str) -> Promise:
    if key == "range":
        ends = [item.real() for item in reader.items()]
        if len(ends) != 2 or not ends[0] <= ends[1]:
            raise reader.error(f"{len(ends)} numbers, {ends}", "[least, greatest]")
        if ends[0] == math.inf or ends[1] == -math.inf:
            raise reader.error(str(ends), "a range with a finite number")
        if dtype not in FLOATS and any(EXACT <= abs(end) < math.inf for end in ends):
            raise reader.error(str(ends), "ends below 2^53: they are kept as float64")
        return Promise(ends[0], ends[1])
    if key == "divisible":
        if dtype in FLOATS:
            raise reader.error(f"dtype {dtype}", "divisible only for integers")
        return Promise(divisible=reader.integer(1, 2**31 - 1))
    if not reader.boolean():
        raise reader.error("`false`", f"{key}: true, or no such key")
    return Promise(low=0.0, nonzero=True) if key == "positive" else Promise(nonzero=True)


def promise_fields(given: Promise) -> dict[str, Any]:
    """The keys that `promise` reads back."""
    fields: dict[str, Any] = {}
    if given.positive:
        fields["positive"] = True
    else:
        if (given.low, given.high) != (-math.inf, math.inf):
            fields["range"] = [given.low, given.high]
        if given.nonzero:
            fields["nonzero"] = True
    if given.divisible != 1:
        fields["divisible"] = given.divisible
    return fields


def promise_words(name: str, given: Promise) -> list[str]:
    """A precondition in words, for the ledger; [] if it says nothing."""
    words = []
    if given.positive:
        words.append(f"`{name}` > 0")
    else:
        low = f"{given.low:.17g} <= " if given.low > -math.inf else ""
        high = f" <= {given.high:.17g}" if given.high < math.inf else ""
        if low or high:
            words.append(f"{low}`{name}`{high}")
        if given.nonzero:
            words.append(f"`{name}` is not 0")
    if given.divisible != 1:
        words.append(f"`{name}` is a multiple of {given.divisible}")
    return words


def aliases(reader: Reader, params: tuple[Param, ...]) -> tuple[tuple[str, ...], ...]:
    """Groups of names of parameters that are one buffer: `[A, C]`, or a list of such lists."""
    items = reader.items()
    groups = [item.items() for item in items] if items and items[0].is_list() else [items]
    tensors = {p.name: p for p in params if isinstance(p, Tensor)}
    seen: set[str] = set()
    found = []
    for group in groups:
        names = [item.choice(tuple(tensors)) for item in group]
        if len(names) < 2:
            raise reader.error(f"{len(names)} names", "two or more that are one buffer")
        first = tensors[names[0]]
        for item, name in zip(group, names, strict=True):
            if name in seen:
                raise item.error(f"`{name}` again", "each name once")
            seen.add(name)
            other = tensors[name]
            same = other.role == "out" or first.role == "out" or other.promise == first.promise
            if _outline(other) != _outline(first) or not same:
                expected = "one dtype, shape and strides, and the same preconditions if any"
                raise item.error(f"`{name}`, not like `{first.name}`", expected)
            if other.values is not None or other.init != "undef":
                raise item.error(f"`{name}` with known contents", "no values: or init: there")
        found.append(tuple(names))
    return tuple(found)


def _outline(tensor: Tensor) -> tuple[object, ...]:
    return tensor.dtype, tensor.shape, tensor.strides
