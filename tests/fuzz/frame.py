"""The frame of a fuzz test: what bounds its examples and its time.

    @fuzz(line=mutated(GOOD_LINE))
    def test_a_damaged_line_is_named_and_passed_over(line: bytes) -> None: ...

``FUZZ_SECONDS`` in the environment is how long each test goes on (0: one short round, always with the same examples).
A failing example is shrunk and printed by Hypothesis, with the seed of its round.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

SECONDS: Final = float(os.environ.get("FUZZ_SECONDS", "0"))
FIRST_SEED: Final = int(os.environ.get("FUZZ_SEED", "1"))
EXAMPLES_A_ROUND: Final = 60
MAX_EXAMPLE_CPU_SECONDS: Final = 5.0
"""No input may cost more of the processor's time; one that is handled well needs far less on any machine."""

Test = Callable[..., None]
FuzzTest = Callable[[], None]


def fuzz(*, examples: int = EXAMPLES_A_ROUND, **strategies: SearchStrategy[Any]) -> Callable[[Test], FuzzTest]:
    """Run the test with generated arguments: a round of ``examples``, then more until ``FUZZ_SECONDS`` have passed."""

    def decorate(test: Test) -> FuzzTest:
        def timed(**values: Any) -> None:
            began = time.process_time()
            test(**values)
            spent = time.process_time() - began
            assert spent < MAX_EXAMPLE_CPU_SECONDS, f"one example took {spent:.1f} s of processor time"

        def rounds() -> None:
            end = time.monotonic() + SECONDS
            number = FIRST_SEED
            while True:
                _one_round(timed, number, examples, strategies)
                number += 1
                if time.monotonic() >= end:
                    return

        # Not functools.wraps: pytest would take the generated arguments for fixtures.
        rounds.__name__ = test.__name__
        rounds.__doc__ = test.__doc__
        rounds.__module__ = test.__module__
        return rounds

    return decorate


def _one_round(test: Test, number: int, examples: int, strategies: dict[str, SearchStrategy[Any]]) -> None:
    limits = settings(
        max_examples=examples,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    try:
        seed(number)(limits(given(**strategies)(test)))()
    except BaseException as error:
        error.add_note(f"FUZZ_SEED={number} repeats this round")
        raise
