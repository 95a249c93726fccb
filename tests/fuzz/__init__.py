"""Fuzzing of every input of the process: random, cut, doubled and far too deep values.

``frame.fuzz`` runs a test on generated input: some dozen examples in ``make test``, and for ``FUZZ_SECONDS`` a test,
each round with a seed of its own, in ``make e2e-long``.
"""
