"""The picture of a trend: shares of runs with their intervals, one column for each campaign, in the order of time."""

import math
from collections.abc import Sequence

from msgspec import Struct

from reports.svg import figure, line, path, rect, text

_LEFT, _RIGHT, _TOP, _HEIGHT = 60, 1080, 14, 130  # px
_Z = 1.96  # of 95 %


class Share(Struct, frozen=True, kw_only=True):
    """How many of the runs of one campaign: `count` of `runs`."""

    campaign: str
    count: int
    runs: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson interval of the share."""
        n = self.runs
        p = self.count / self.runs
        middle, half = p + _Z**2 / (2 * n), _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
        return max((middle - half) / (1 + _Z**2 / n), 0.0), min((middle + half) / (1 + _Z**2 / n), 1.0)

    @property
    def words(self) -> str:
        """The share with its interval: "3 of 40 runs, 7.5 % (2.6 to 19.9 %)"."""
        low, high = self.interval
        return f"{self.count} of {self.runs} runs, {100 * self.count / self.runs:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)"


def trend_figure(series: Sequence[tuple[str, Sequence[Share]]], label: str) -> str:
    """Draw shares of 0 to 100 %. `series` has the CSS class of a row of shares, one share for each campaign."""
    bottom = _TOP + _HEIGHT
    parts = [path("".join(f"M{_LEFT} {_y(tick / 4)}H{_RIGHT}" for tick in range(5)), css="grid")]
    parts += [text(_LEFT - 8, _y(tick / 4) + 4, f"{25 * tick} %", css="tick", anchor="end") for tick in range(5)]
    columns = max((len(shares) for _, shares in series), default=0)
    step = (_RIGHT - _LEFT) // max(columns, 1)
    for number, (css, shares) in enumerate(series):
        xs = [_LEFT + step * place + step // 2 + 8 * number for place in range(len(shares))]
        joined = "L".join(f"{x} {_y(share.count / share.runs)}" for x, share in zip(xs, shares, strict=True))
        parts.append(path(f"M{joined}" if len(shares) > 1 else "", css=f"trend {css}"))
        for x, share in zip(xs, shares, strict=True):
            low, high = share.interval
            parts.append(line(x, _y(low), x, _y(high), css=f"span {css}"))
            parts.append(path(f"M{x} {_y(share.count / share.runs)}h0", css=f"median {css}"))
    shares = series[0][1] if series else ()
    for place, share in enumerate(shares):
        words = "; ".join(f"{row[place].words}" for _, row in series)
        parts.append(text(_LEFT + step * place + step // 2, bottom + 16, str(place + 1), css="tick", anchor="middle"))
        parts.append(rect(_LEFT + step * place, _TOP, step, _HEIGHT, css="hover", title=f"{share.campaign}: {words}"))
    return figure(bottom + 24, label, parts)


def _y(share: float) -> int:
    return _TOP + round((1 - share) * _HEIGHT)
