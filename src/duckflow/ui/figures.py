"""Numbers, times and names as people read them. Pure, apart from the local time zone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from duckflow.i18n import _, ngettext
from duckflow.ui.safe import safe_line


def count(number: int) -> str:
    """999, 4.2k, 1.3M."""
    if number < 1000:
        return str(number)
    if number < 999_950:
        return f"{number / 1000:.1f}k"
    return f"{number / 1_000_000:.1f}M"


def calls(number: int) -> str:
    return ngettext("{n} call", "{n} calls", number)


def tokens(number: int, cached: int = 0, *, estimated: bool = False) -> str:
    total = ("≈" if estimated else "") + count(number)
    if cached:
        return _("{n} tokens ({cached} cached)", n=total, cached=count(cached))
    return _("{n} tokens", n=total)


def cost(usd: float, unpriced: int = 0, called: int = 0) -> str:
    """What it cost; unknown prices are said, never counted as nothing."""
    if unpriced and unpriced >= called:
        return _("cost unknown")
    amount = f"${usd:.4f}" if 0 < usd < 1 else f"${usd:.2f}"
    return _("{amount} + unknown", amount=amount) if unpriced else amount


def seconds(ms: int, *, whole: bool = False) -> str:
    """`whole`: without tenths, for a clock that goes on."""
    if ms < 60_000:
        return _("{n} s", n=ms // 1000 if whole else f"{ms / 1000:.1f}")
    minutes, rest = divmod(ms // 1000, 60)
    return _("{m} min {s} s", m=minutes, s=rest)


def lines(number: int) -> str:
    return ngettext("{n} line", "{n} lines", number)


def when(at: str) -> str:
    """A stored time in the local zone, to the minute."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return safe_line(at)
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def ago(at: str, now: datetime | None = None) -> str:
    try:
        passed = ((now or datetime.now(UTC)) - datetime.fromisoformat(at)).total_seconds()
    except (ValueError, TypeError):
        return safe_line(at)
    if passed < 90:
        return _("just now")
    if passed < 5400:
        return _("{n} min ago", n=round(passed / 60))
    if passed < 129_600:
        return _("{n} h ago", n=round(passed / 3600))
    return _("{n} days ago", n=round(passed / 86_400))


def badge(chains: Mapping[str, Sequence[str]]) -> str:
    """The provider and model that answer first: one name, or one per tier where they differ."""
    firsts = {tier: chain[0] for tier, chain in chains.items() if chain}
    if len(set(firsts.values())) <= 1:
        return next(iter(firsts.values()), "")
    return joined(f"{tier} {name}" for tier, name in firsts.items())


def joined(parts: Iterable[str]) -> str:
    return " · ".join(part for part in parts if part)
