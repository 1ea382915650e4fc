"""How long to wait before trying again."""

from __future__ import annotations

from tenacity import RetryCallState, Retrying, wait_random_exponential

_STATELESS = Retrying()


def delay(attempt: int, *, base: float = 0.2, cap: float = 300.0) -> float:
    """Seconds to wait after the *attempt*-th failure in a row, counted from 1.

    Exponential with full jitter: drawn evenly between half of *base* and ``base * 2**(attempt-1)``,
    the latter never above *cap*. The floor keeps an unlucky draw from becoming a busy loop.
    """
    state = RetryCallState(_STATELESS, None, (), {})
    state.attempt_number = attempt
    return wait_random_exponential(multiplier=base, max=cap, min=base / 2)(state)
