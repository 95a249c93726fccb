"""``docs/metrics.md`` is what a running scheduler serves."""

from __future__ import annotations

import re

from tests.docs import metrics_page


async def test_the_table_is_what_a_running_process_offers() -> None:
    page = await metrics_page.served()
    documented = re.findall(r"^\| `.*$", metrics_page.PAGE.read_text(), re.MULTILINE)
    assert len(documented) > 50
    assert metrics_page.rows(page) == documented, "python -m tests.docs.metrics_page writes it"


def test_the_page_is_the_generated_one() -> None:
    assert metrics_page.PAGE.read_text().startswith(metrics_page.HEAD)
