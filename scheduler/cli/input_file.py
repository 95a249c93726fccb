"""Files that commands are given: by path, or standard input for ``-``."""

from __future__ import annotations

import sys
from pathlib import Path

from scheduler.config.documents import MAX_BYTES
from scheduler.errors import ConfigurationError, Fault


def read_input(path: str) -> bytes:
    """The file's bytes, at most one more than a document may have. Raises ConfigurationError."""
    try:
        if path == "-":
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError([Fault("", f"open {path}: {error.strerror or error}")]) from error
