"""The cut order: fixed, minimal, and never the goal, the constraints or the message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duckflow.llm.tokens import cut_to, estimate
from duckflow.prompts.budget import Cut, Section, fit, profile, shorten_largest

SECTIONS = st.lists(
    st.builds(
        Section,
        name=st.text("abcdef", min_size=1, max_size=3),
        text=st.text("x", max_size=50),
        rank=st.one_of(st.none(), st.sampled_from(Cut)),
    ),
    max_size=12,
)


@given(SECTIONS, st.integers(0, 300))
def test_cuts_follow_the_order_stop_as_soon_as_it_fits_and_spare_what_has_no_rank(
    sections: list[Section], budget: int
) -> None:
    fitted = fit(sections, budget, len)
    pairs = list(zip(sections, fitted.sections, strict=True))
    cut = [(before.rank, i) for i, (before, after) in enumerate(pairs) if before.text and not after.text]
    kept = [(before.rank, i) for i, (before, after) in enumerate(pairs) if after.text and before.rank is not None]
    assert all(before.rank is not None or before == after for before, after in pairs)
    assert all((r or 0, i) < (k or 0, j) for r, i in cut for k, j in kept)
    total = sum(len(s.text) for s in fitted.sections)
    if total > budget:
        assert not kept
    if cut:
        last = max(cut, key=lambda item: (item[0] or 0, item[1]))
        assert total + len(sections[last[1]].text) > budget
    assert len(fitted.cuts) == len(cut)


@given(st.lists(st.text("line \n", max_size=400), min_size=1, max_size=6), st.integers(100, 800))
def test_evidence_for_the_evaluator_is_shortened_never_removed(texts: list[str], budget: int) -> None:
    shown, touched = shorten_largest(texts, budget, estimate, lambda text, cap: cut_to(text, cap)[0])
    assert len(shown) == len(texts)
    assert all(after or not before for before, after in zip(texts, shown, strict=True))
    assert [i for i, (a, b) in enumerate(zip(texts, shown, strict=True)) if a != b] == touched


def test_the_compact_profile_is_fixed_and_the_full_one_follows_the_window() -> None:
    assert profile("compact", 1_000_000, None).history == 6000
    assert profile("full", 128_000, None).history > profile("full", 32_000, None).history > 10_000
