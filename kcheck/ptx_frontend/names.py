"""Which bare words are registers: the scopes that the parser is in."""

from __future__ import annotations

from kcheck.ptx_frontend.registers import splits


class Names:
    """Declared names, innermost scope last.

    Inline assembly declares registers without a `%` (`p`, `rx`), so that only the declarations
    tell a register from a variable or a label.
    """

    def __init__(self) -> None:
        self.symbols: set[str] = set()  # variables whose name begins with `%`, anywhere
        self._scopes: list[tuple[dict[str, bool], dict[str, int]]] = [({}, {})]

    def open(self) -> None:
        """Enter a scope."""
        self._scopes.append(({}, {}))

    def close(self) -> None:
        """Leave it."""
        self._scopes.pop()

    def declare(self, name: str, count: int | None, register: bool) -> None:
        """A register or variable, or a range of `count` registers."""
        names, ranges = self._scopes[-1]
        if not register and name[0] == "%":
            self.symbols.add(name)
        if count is None:
            names[name] = register
        else:
            ranges[name] = max(count, ranges.get(name, 0))

    def is_register(self, name: str) -> bool:
        """Whether a word is a register or special register: declared, or as its `%` suggests."""
        if name == "WARP_SZ" or (name[0] == "%" and name not in self.symbols):
            return True
        for names, ranges in reversed(self._scopes):
            if name in names:
                return names[name]
            if ranges and any(n < ranges.get(prefix, 0) for prefix, n in splits(name)):
                return True
        return False
