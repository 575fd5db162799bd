"""What a worker did wrong."""

from __future__ import annotations


class Fault(AssertionError):
    """A worker broke a rule of the protocol, or did not do in time what was waited for."""

    def __init__(self, want: str, came: str, hint: str = "") -> None:
        super().__init__(f"expected {want}; came {came}" + (f" ({hint})" if hint else ""))
        self.want = want
        self.came = came
        self.hint = hint
