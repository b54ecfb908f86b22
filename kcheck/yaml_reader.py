"""A strict reader of small YAML documents: every error names file, line and key.

It works on the text of the nodes, so that a buffer may be called `no`, and `1e-06` is a number
(YAML 1.1 takes the one for a boolean and the other for a string).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from kcheck.launch import LaunchError

FILL = "FILL"  # what a skeleton says where the user has to write something

_INTEGER = re.compile(r"[+-]?(0x[0-9a-fA-F]{1,16}|[0-9]{1,20})\Z")
_REAL = re.compile(r"[+-]?(\.inf|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)\Z")
_BOOLEAN = {"true": True, "True": True, "false": False, "False": False}


def read_yaml(text: str, file: str) -> Reader:
    """The root of the one document in `text`. LaunchError if it isn't YAML, or is empty."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else file
        problem = getattr(error, "problem", None) or "unreadable characters"
        raise LaunchError(f"{where}: not YAML: {problem}") from error
    except RecursionError as error:
        raise LaunchError(f"{file}: nested too deeply") from error
    if node is None:
        raise LaunchError(f"{file}: empty; expected a launch (kernel, grid, block, params)")
    return Reader(node, file, "")


@dataclass(frozen=True)
class Reader:
    """A node, and the key (`params[2].shape`) under which it was reached."""

    node: yaml.Node
    file: str
    key: str

    def error(self, found: str, expected: str) -> LaunchError:
        """One line: file, line, key, what was found, what is expected."""
        line = self.node.start_mark.line + 1
        return LaunchError(
            f"{self.file}:{line}: {self.key or 'launch'}: found {found}; expected {expected}"
        )

    def pairs(self) -> list[tuple[str, Reader]]:
        """The entries of a mapping. LaunchError if it is none, or a key occurs twice."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(self._shown(), "a mapping (key: value)")
        pairs: dict[str, Reader] = {}
        for name_node, node in self.node.value:
            if not isinstance(name_node, yaml.ScalarNode):
                raise self.error("a key that isn't a word", "words as keys")
            name = str(name_node.value)
            reader = Reader(node, self.file, f"{self.key}.{name}" if self.key else name)
            if name in pairs:
                raise reader.error("the key twice", "it once")
            pairs[name] = reader
        return list(pairs.items())

    def keys(self, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
        """LaunchError unless the mapping has all `required` keys and no unknown ones."""
        found = dict(self.pairs())
        for name, reader in found.items():
            if name not in required + optional:
                raise reader.error(f"an unknown key `{name}`", ", ".join(required + optional))
        for name in required:
            if name not in found:
                raise self.error(f"no key `{name}`", f"the keys {', '.join(required)}")

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self.pairs())

    def __getitem__(self, name: str) -> Reader:
        for key, reader in self.pairs():
            if key == name:
                return reader
        raise self.error(f"no key `{name}`", "it")

    def is_list(self) -> bool:
        """Whether the node is a list."""
        return isinstance(self.node, yaml.SequenceNode)

    def items(self) -> list[Reader]:
        """The items of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error(self._shown(), "a list")
        return [
            Reader(node, self.file, f"{self.key}[{i}]") for i, node in enumerate(self.node.value)
        ]

    def walk(self) -> Iterator[Reader]:
        """All scalars below, in order."""
        stack, seen = [self], 0
        while stack:
            reader = stack.pop()
            seen += 1
            if seen > 1_000_000:  # an alias inside itself, or aliases of aliases
                raise self.error("more than a million entries", "a small document")
            if isinstance(reader.node, yaml.MappingNode):
                stack.extend(child for _, child in reversed(reader.pairs()))
            elif isinstance(reader.node, yaml.SequenceNode):
                stack.extend(reversed(reader.items()))
            else:
                yield reader

    def says(self, word: str) -> bool:
        """Whether the node is this bare word."""
        return self._plain() == word

    def string(self) -> str:
        """A word, quoted or not."""
        if not isinstance(self.node, yaml.ScalarNode) or not self.node.value:
            raise self.error(self._shown(), "a word")
        return str(self.node.value)

    def choice(self, words: tuple[str, ...]) -> str:
        """One of `words`."""
        word = self.string()
        if word not in words:
            raise self.error(f"`{word}`", f"one of {', '.join(words)}")
        return word

    def boolean(self) -> bool:
        """true or false."""
        value = _BOOLEAN.get(self._plain())
        if value is None:
            raise self.error(self._shown(), "true or false")
        return value

    def integer(self, low: int, high: int) -> int:
        """An integer from `low` to `high`."""
        text = self._plain()
        value = int(text, 0 if "x" in text else 10) if _INTEGER.match(text) else None
        if value is None or not low <= value <= high:
            raise self.error(self._shown(), f"an integer from {low} to {high}")
        return value

    def integers(self, low: int) -> tuple[int, ...]:
        """A list of integers below 2^63, at least `low`."""
        return tuple(item.integer(low, 2**63 - 1) for item in self.items())

    def real(self) -> float:
        """A number that a double can hold, or `.inf`."""
        text = self._plain()
        value = float(text.replace(".inf", "inf")) if _REAL.match(text) else math.nan
        if math.isnan(value) or (math.isinf(value) and "inf" not in text):
            raise self.error(self._shown(), "a number")
        return value

    def _plain(self) -> str:
        """The text of an unquoted scalar, else an empty text."""
        node = self.node
        return str(node.value) if isinstance(node, yaml.ScalarNode) and not node.style else ""

    def _shown(self) -> str:
        if isinstance(self.node, yaml.MappingNode):
            return "a mapping"
        if isinstance(self.node, yaml.SequenceNode):
            return "a list"
        return f"`{self.node.value}`" if self.node.value else "nothing"
