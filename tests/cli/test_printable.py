"""Texts of tenants and servers do not steer the terminal on which they are shown."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.cli.asking import Source, show_page
from scheduler.cli.complaint import complain
from scheduler.cli.printable import printable_page

STEERS = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f\r"


@pytest.mark.parametrize("place", ["pod", "key", "list"])
def test_no_text_of_a_page_has_control_characters(place: str) -> None:
    page = {"pod": {"pod": STEERS}, "key": {STEERS: 1}, "list": {"messages": [["ok\tand\n", STEERS]]}}[place]
    shown = str(printable_page(msgspec.json.encode(page))).replace("\\\\", "\\")
    assert "\\x1b]0;title\\x07\\x1b[2J\\x9b31m\\x7f\\x0d" in shown
    raw = msgspec.json.decode(msgspec.json.encode(printable_page(msgspec.json.encode(page))))
    assert STEERS not in str(raw)


def test_a_page_without_them_is_as_it_was() -> None:
    page = {
        "pod": "default/web-1",
        "message": "0/3 nodes\tare\navailable: 3 Insufficient cpu. Grüße",
        "numbers": [1, None],
    }
    assert printable_page(msgspec.json.encode(page)) == page


def test_what_a_command_prints_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    body = msgspec.json.encode({"message": STEERS})
    source = Source(lambda _path, _question: body)
    assert show_page("/page", source, False, lambda page, console: console.print(page["message"], markup=False)) == 0
    complain(f"the scheduler says {STEERS}")
    written = capsys.readouterr()
    for stream in (written.out, written.err):
        assert "title" in stream
        assert not set(STEERS) & set(stream) & {"\x1b", "\x07", "\x9b", "\x7f", "\r"}
