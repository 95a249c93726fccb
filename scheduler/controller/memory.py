"""The process's memory: how much is in use, and free pages given back to the system.

The C library keeps what is freed between blocks that are in use. uvloop allocates 256 KiB for each connection over TLS,
and what is allocated while it is open lies behind it: where connections came and went, seven a minute, such holes grew
by 1 MiB a minute.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from typing import Final, NamedTuple

_RESIDENT: Final = "/proc/self/statm"
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class InUse(NamedTuple):
    """What the process uses."""

    blocks: int
    """The number of blocks of Python's allocator in use: all objects of at most 512 bytes."""
    resident_bytes: int
    """Bytes of memory of the process; 0 where it is unknown. A few objects may hold much that is in no block, as
    connections hold buffers for TLS."""

    @classmethod
    def now(cls) -> InUse:
        resident_bytes = 0
        with suppress(OSError), open(_RESIDENT, "rb") as file:
            resident_bytes = int(file.read().split()[1]) * _PAGE_BYTES
        return cls(sys.getallocatedblocks(), resident_bytes)

    def has_doubled_since(self, before: InUse) -> bool:
        """Whether the blocks or the bytes have doubled: then objects in cycles may be as much as all others."""
        return self.blocks >= 2 * before.blocks or self.resident_bytes >= 2 * before.resident_bytes > 0


def give_back() -> None:
    """Give free pages back to the system, where the C library is glibc: 0.6 ms a MiB, 0.01 ms without any."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
