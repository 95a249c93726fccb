"""``docs/metrics.md`` is what a running scheduler serves."""

from __future__ import annotations

import re

from scheduler.controller.report.groups import GroupMetrics
from scheduler.controller.report.instruments import Instruments
from tests.docs import metrics_page
from tests.docs.pages import DOCS


async def test_the_table_is_what_a_running_process_offers() -> None:
    page = await metrics_page.served()
    documented = re.findall(r"^\| `.*$", metrics_page.PAGE.read_text(), re.MULTILINE)
    assert len(documented) > 50
    assert metrics_page.rows(page) == documented, "python -m tests.docs.metrics_page writes it"


def test_the_page_is_the_generated_one() -> None:
    assert metrics_page.PAGE.read_text().startswith(metrics_page.HEAD)


def test_the_metrics_of_groups_of_pods_are_in_the_table() -> None:
    made = Instruments()
    GroupMetrics(made)
    assert made.labels()
    for name in made.labels():
        assert re.search(rf"^\| `{name}(_total)?` ", metrics_page.PAGE.read_text(), re.MULTILINE), name


def test_operations_names_the_metrics_of_the_process_that_there_are() -> None:
    text = (DOCS / "operations.md").read_text()
    (there,) = re.findall(r"those of the process\s\((.*?)\) are there;", text, re.DOTALL)
    served = re.findall(r"^\| `(process_\w+)`", metrics_page.PAGE.read_text(), re.MULTILINE)
    assert re.findall(r"`(\w+)`", there) == served
