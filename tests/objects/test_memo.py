"""Memos keep results of short arguments only."""

import gc
import tracemalloc

from scheduler.objects.memo import is_long_text, memo
from scheduler.objects.qualified_names import label_value_faults
from scheduler.objects.selector_fields import LabelSelector
from scheduler.objects.selectors import parse_selector


def test_a_result_is_computed_once_for_a_short_argument_and_each_time_for_a_long_one() -> None:
    asked = []

    @memo(8, is_long_text)
    def length(text: str) -> int:
        asked.append(text[:1])
        return len(text)

    assert [length("a"), length("a"), length("b" * 400), length("b" * 400)] == [1, 1, 400, 400]
    assert asked == ["a", "b", "b"]


def test_what_a_tenant_writes_at_length_is_not_kept() -> None:
    def hostile() -> None:
        for number in range(50):
            label_value_faults(f"{number}" + "x" * 100_000)
            parse_selector(LabelSelector(match_labels={f"key-{number}-{i}": "x" * 60 for i in range(1_000)}))

    tracemalloc.start()
    hostile()
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 1_000_000
