"""Which state files are in, without reading them."""

from __future__ import annotations

import os
from collections.abc import Iterator


def stamps(top: str) -> Iterator[tuple[str, int, int]]:
    """Path, size in bytes and time of the last change (ns) of a file, or of all files below a
    folder, links followed. What can't be read is left out.
    """
    try:
        status = os.stat(top)
        found = sorted(_below(top)) if os.path.isdir(top) else []
    except OSError:
        return
    yield top, status.st_size, status.st_mtime_ns
    yield from found


def _below(top: str) -> Iterator[tuple[str, int, int]]:
    folders, linked = [top], {os.path.realpath(top)}
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if not entry.is_dir():
                    status = entry.stat(follow_symlinks=entry.is_file())
                    yield entry.path, status.st_size, status.st_mtime_ns
                    continue
                if entry.is_symlink():  # once, else a link to a folder above has no end
                    real = os.path.realpath(entry.path)
                    if real in linked:
                        continue
                    linked.add(real)
                folders.append(entry.path)
