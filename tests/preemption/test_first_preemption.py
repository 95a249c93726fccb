"""The first preemption of a process costs what the later ones do."""

from __future__ import annotations

import subprocess
import sys

MEASURED = """
import sys
from tests.benchmarks.preemptors import Api, fill, preemptor
api = Api()
fill(api, 8, 4)
before = set(sys.modules)
for number in range(4):
    api.show(preemptor(number, cpu="3"))
api.run()
api.expect_bound(4)
print(*sorted(set(sys.modules) - before))
"""


def test_no_module_is_imported_by_the_first_preemption() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
