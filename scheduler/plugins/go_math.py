"""Go's floating-point functions that differ from numpy's in the last bit (docs/kube-scheduler/plugins.md §2.10)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_L1 = 6.666666666666735130e-01
_L2 = 3.999999999940941908e-01
_L3 = 2.857142874366239149e-01
_L4 = 2.222219843214978396e-01
_L5 = 1.818357216161805012e-01
_L6 = 1.531383769920937332e-01
_L7 = 1.479819860511658591e-01
_HALF_SQRT2 = math.sqrt(2) / 2


@lru_cache(maxsize=16384)
def go_log(x: int) -> float:
    """The natural logarithm of ``x`` >= 1, as Go computes it on amd64: FreeBSD's algorithm, not correctly rounded."""
    fraction, exponent = math.frexp(float(x))
    if fraction < _HALF_SQRT2:
        fraction *= 2
        exponent -= 1
    f = fraction - 1
    k = float(exponent)
    s = f / (2 + f)
    s2 = s * s
    s4 = s2 * s2
    t1 = s2 * (_L1 + s4 * (_L3 + s4 * (_L5 + s4 * _L7)))
    t2 = s4 * (_L2 + s4 * (_L4 + s4 * _L6))
    half_square = 0.5 * f * f
    return k * _LN2_HIGH - ((half_square - (s * (half_square + (t1 + t2)) + k * _LN2_LOW)) - f)


def go_round(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Rounds to the nearest integer, halves away from zero; for values of 0 and more."""
    whole: npt.NDArray[np.int64] = values.astype(np.int64)
    whole += values - whole >= 0.5
    return whole
