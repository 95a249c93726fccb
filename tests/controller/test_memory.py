"""What a process uses, and what it gives back."""

from __future__ import annotations

import mmap
import platform

import pytest

from scheduler.controller.memory import InUse, give_back

MEBIBYTE = 2**20


def test_what_is_in_use_grows_with_what_is_held() -> None:
    before = InUse.now()
    objects = [object() for _ in range(100_000)]
    # Pages that no earlier test has left.
    with mmap.mmap(-1, 64 * MEBIBYTE) as pages:
        pages.write(b"x" * len(pages))
        after = InUse.now()
        assert after.resident_bytes - before.resident_bytes >= len(pages) // 2
        assert after.blocks - before.blocks >= len(objects)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked to")
def test_what_is_free_between_what_is_in_use_is_given_back() -> None:
    held = [b"x" * 9_000 for _ in range(16_000)]
    some = held[::16]
    del held
    before = InUse.now().resident_bytes
    give_back()
    assert before - InUse.now().resident_bytes > 64 * MEBIBYTE
    assert len(some) == 1_000
