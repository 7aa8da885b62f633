"""Counting tokens: how far the estimate may be off, what fits, and what is kept when something is cut."""

from __future__ import annotations

import ast
import inspect
import json
import random
import time
import typing
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckflow import errors, events, human
from duckflow.llm.tokens import MARK_TOKENS, count, cut_to, estimate, fits

ENGLISH = """Nothing is announced before it happened. The prompt shows the fields in this order: the three required
ones, next_step, question, actions, the rest, reply last; fields left out mean unchanged or empty, and the model is
told to leave them out. A reply without effects beside it streams. Beside effects it is labelled as what follows.
The background never prompts by itself: what it needs to ask goes through the one gate queue, is shown by the chat,
has an owner and a time-out, and fails closed. Steering reaches the model as a message before its next decision.
"""
JAPANESE = """これは端末で動くコーディングの相棒です。あなたの言葉でプロジェクトを読み、提案し、大事な変更の前には必ず
確認します。作業はバックグラウンドで進み、その間も会話を続けられます。依頼が満たされたことを証拠で確かめてから、
はじめて完了とします。ファイルの書き込みは作業フォルダーの中だけに限られ、いつでも元に戻せます。
設定ファイルを読み込み、テストを実行し、結果をまとめて報告してください。エラーが出た場合は原因と対策を示します。
"""
MIXED = """## タスク管理 API の追加
- `POST /tasks` で新しいタスクを作成する（`title` は必須、空文字は 422）
- `src/tasks/store.py` の `add()` は例外 `StoreError` を投げる。pytest で確認済み: 12 passed in 0.31s
"""
CODE = "\n".join(inspect.getsource(module) for module in (ast, json, random, typing, errors, events, human))
LOG = "2026-11-16 01:02:03,456 INFO  engine.dispatch: action A7 finished in 2.213s exit=0 sha=3f2a9bc1\n" * 30
BASE64 = "".join(random.Random(1).choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", k=4000))
SAMPLES = {"english": ENGLISH, "japanese": JAPANESE, "mixed": MIXED, "log": LOG, "base64": BASE64}
PIECE = 4000


def test_special_tokens_in_a_text_are_text() -> None:
    assert count("<|im_start|>") > 1
    assert count("") == estimate("") == 0
    assert count("half \ud83e") > 0 and estimate("half \ud83e") > 0


@pytest.mark.parametrize("name", SAMPLES)
def test_the_estimate_is_near_the_count(name: str) -> None:
    ratio = estimate(SAMPLES[name]) / count(SAMPLES[name])
    assert 0.90 <= ratio <= 1.35, ratio


def test_the_estimate_is_near_the_count_for_code() -> None:
    """Measured on 590 pieces of the standard library: 0.89 to 1.39, on average 1.11."""
    pieces = [CODE[start : start + PIECE] for start in range(0, len(CODE) - PIECE, PIECE)]
    ratios = sorted(estimate(piece) / count(piece) for piece in pieces)
    assert len(ratios) > 50
    assert ratios[0] >= 0.88, ratios[:3]
    assert 1.0 <= sum(ratios) / len(ratios) <= 1.25
    assert ratios[-1] <= 1.6


@pytest.mark.parametrize(
    "text", ["🎉✨🚀👩\u200d💻" * 50, "Это обычный текст. " * 50, " " * 5000, "\n" * 999, "\t" * 999]
)
def test_the_estimate_does_not_fall_far_short_of_anything_usual(text: str) -> None:
    assert estimate(text) >= 0.85 * count(text)


@given(st.sampled_from([*SAMPLES.values(), CODE[:20_000]]), st.integers(0, 3000))
def test_fits_agrees_with_the_count(text: str, budget: int) -> None:
    assert fits(text, budget) == (count(text) <= budget)
    halves = text[: len(text) // 2], text[len(text) // 2 :]
    assert fits(halves, budget) == (sum(map(count, halves)) <= budget)


@given(st.sampled_from([*SAMPLES.values(), CODE[:9_000], "x\r\n" * 900, "word " * 2000]), st.integers(0, 1500))
@settings(deadline=None)
def test_a_cut_text_is_within_its_budget_and_made_of_the_original(text: str, budget: int) -> None:
    kept, ranges = cut_to(text, budget)
    assert count(kept) <= max(budget, 0)
    lines = text.split("\n")
    assert all(1 <= first <= last <= len(lines) for first, last in ranges)
    assert all(a[1] < b[0] for a, b in pairwise(ranges))
    if count(text) <= budget:
        assert kept == text
    elif budget > 3 * MARK_TOKENS:
        head, _, tail = kept.partition("[… ")
        assert "left out …]\n" in tail
        assert text.startswith(head.removesuffix("\n"))
        assert text.endswith(tail.partition("left out …]\n")[2])


def test_one_third_head_two_thirds_tail_on_line_borders() -> None:
    text = "".join(f"line number {number} of many\n" for number in range(1, 1001))
    kept, ranges = cut_to(text, 700)
    (first, head_end), (tail_start, last) = ranges
    assert (first, last) == (1, 1000)
    expected = [f"line number {n} of many" for n in [*range(1, head_end + 1), *range(tail_start, 1001)]]
    assert [line for line in kept.split("\n")[:-1] if "left out" not in line] == expected
    assert f"[… lines {head_end + 1}-{tail_start - 1} left out …]" in kept
    assert 0.25 <= head_end / (head_end + 1001 - tail_start) <= 0.4
    assert count(kept) >= 600


def test_one_endless_line_is_cut_within_it_and_quickly() -> None:
    text = "x y z " * 9_000_000
    started = time.process_time()
    kept, ranges = cut_to(text, 2000)
    assert time.process_time() - started < 5
    assert ranges == ((1, 1),)
    assert 1500 <= count(kept) <= 2000
    assert "characters left out" in kept


def test_nothing_is_cut_from_what_fits() -> None:
    assert cut_to("a\nb\n", 100) == ("a\nb\n", ((1, 2),))
    assert cut_to("", 100) == ("", ())
    assert cut_to("word " * 100, 0) == ("", ())
