"""Scopes of a kernel while it is flattened, and the unique names of what they declare."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from kcheck.ptx_frontend.registers import splits
from kcheck.ptx_frontend.tree import Reg


class Declarations:
    """All declarations so far, in order: the k-th one of a name is called `name@k` (k > 1)."""

    def __init__(self) -> None:
        self._count = 0
        self._single: dict[str, list[int]] = {}
        self._ranges: dict[str, list[tuple[int, int]]] = {}

    def add(self, name: str, count: int | None = None) -> int:
        """A declaration's serial number; `count` makes it a range of registers."""
        self._count += 1
        if count is None:
            self._single.setdefault(name, []).append(self._count)
        else:
            self._ranges.setdefault(name, []).append((self._count, count))
        return self._count

    def unique(self, name: str, serial: int) -> str:
        """The unique name of what declaration `serial` calls `name`."""
        before = bisect_left(self._single.get(name, ()), serial)
        for prefix, number in splits(name):
            for earlier, count in self._ranges.get(prefix, ()):
                before += earlier < serial and number < count
        return f"{name}@{before + 1}" if before else name


class Scope:
    """One scope. `labels`: name -> number; `tables`: `.branchtargets` -> numbers of its labels."""

    def __init__(self, parent: Scope | None, declarations: Declarations) -> None:
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[int, ...]] = {}
        self._declarations = declarations
        self._registers: dict[str, tuple[int, str]] = {}
        self._ranges: dict[str, tuple[int, str, int]] = {}
        self._variables: dict[str, str] = {}
        self._found: dict[str, tuple[Reg, str] | None] = {}

    def declares(self, name: str) -> bool:
        """Whether this scope itself declares a name (or a range of that name)."""
        return name in self._registers or name in self._ranges or name in self._variables

    def add_register(self, name: str, type_name: str, count: int | None) -> None:
        """Declare a register, or a range of `count`."""
        serial = self._declarations.add(name, count)
        self._found.clear()
        if count is None:
            self._registers[name] = (serial, type_name)
        else:
            self._ranges[name] = (serial, type_name, count)

    def add_variable(self, name: str, unique: str | None = None) -> str:
        """Declare a variable, or give one that exists (`unique`) another name; its unique name."""
        if unique is None:
            unique = self._declarations.unique(name, self._declarations.add(name))
        self._variables[name] = unique
        return unique

    def register(self, name: str) -> tuple[Reg, str] | None:
        """The unique register behind a name and its type."""
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def variable(self, name: str) -> str | None:
        """The unique name of the variable behind a name."""
        return next((s._variables[name] for s in self._chain() if name in s._variables), None)

    def label(self, name: str) -> int | None:
        """The number of the label behind a name."""
        return next((s.labels[name] for s in self._chain() if name in s.labels), None)

    def table(self, name: str) -> tuple[int, ...] | None:
        """The numbers of the labels that `.branchtargets` lists under a name."""
        return next((s.tables[name] for s in self._chain() if name in s.tables), None)

    def _chain(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def _find(self, name: str) -> tuple[Reg, str] | None:
        if name in self._registers:
            return self._unique(name, *self._registers[name])
        for prefix, number in splits(name):
            serial, type_name, count = self._ranges.get(prefix, (0, "", 0))
            if number < count:
                return self._unique(name, serial, type_name)
        return self.parent.register(name) if self.parent else None

    def _unique(self, name: str, serial: int, type_name: str) -> tuple[Reg, str]:
        return Reg(self._declarations.unique(name, serial)), type_name
