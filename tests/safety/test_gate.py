"""Who may do what: rules before mode, the boundary before rules, and no way around a deny."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow.safety.change import Change, Effect, FileChange, Place
from duckflow.safety.gate import Grant, Mode, Policy, Ruling, decide, grant_for, hidden_by, pattern_for
from duckflow.safety.risk import Risk, RiskLevel, measure

MODES: tuple[Mode, ...] = get_args(Mode)


def write(path: str = "src/a.py", after: bytes = b"x\n", before: bytes | None = None, **place: bool) -> Change:
    return Change(
        "file_ops.write_file",
        Effect.FILES,
        f"write {path}",
        (Place(path, "inside", **place),),
        (FileChange(path, before, after),),
    )


def read(path: str = "src/a.py", outside: bool = False, **place: bool) -> Change:
    where = Place(path, "outside" if outside else "inside", **place)
    return Change("file_ops.read_file", Effect.NONE, f"read {path}", (where,))


def command(text: str) -> Change:
    return Change("shell.run", Effect.COMMAND, text, command=text, preview=text, preview_kind="command")


def ruled(change: Change, policy: Policy | None = None, *grants: Grant) -> Ruling:
    return decide(change, measure(change), policy or Policy(), grants)


def outcome(change: Change, policy: Policy | None = None, *grants: Grant) -> str:
    return ruled(change, policy, *grants).outcome


def test_plain_reads_pass_in_every_mode_and_delicate_ones_ask() -> None:
    for mode in MODES:
        assert outcome(read(), Policy(mode)) == "allow"
        assert (
            outcome(Change("file_ops.read_file", Effect.NONE, "", (Place("out:A7", "output"),)), Policy(mode))
            == "allow"
        )
        for change in (read("/etc/x", outside=True), read(".env", secret=True), read(".git/config", protected=True)):
            assert outcome(change, Policy(mode)) == "ask"
            assert outcome(change, Policy(mode, allow=("file_ops.read_file",))) == "allow"
        assert outcome(read(), Policy(mode, ask=("file_ops.*:src/**",))) == "ask"
        assert outcome(read(), Policy(mode, deny=("*:src/**",))) == "deny"


def test_what_each_mode_does_with_effects() -> None:
    big = write(before=b"x\n" * 200, after=b"y\n" * 200)
    shrink = write(before=b"x\n" * 200, after=b"")
    expected = {
        "plan": ("deny", "deny", "deny", "deny"),
        "ask": ("ask", "ask", "ask", "ask"),
        "auto-edit": ("allow", "allow", "ask", "ask"),
        "auto": ("allow", "allow", "ask", "ask"),
    }
    for mode in MODES:
        assert tuple(outcome(c, Policy(mode)) for c in (write(), big, shrink, command("ls"))) == expected[mode]
    assert "sandbox" in ruled(command("ls"), Policy("auto")).reason
    assert ruled(write(), Policy("auto-edit")).by == "mode"


def test_the_boundary_holds_whatever_the_rules() -> None:
    everything = Policy("auto", allow=("*", "file_ops.*", "file_ops.write_file:**"))
    outside = Change("file_ops.write_file", Effect.FILES, "", (Place("/etc/x", "outside"),))
    for change in (outside, write(".git/config", protected=True)):
        ruling = ruled(change, everything, Grant("*", "**", RiskLevel.CRITICAL))
        assert ruling.outcome == "deny" and ruling.reason
    assert outcome(write(), everything) == "allow"


def test_session_and_person_effects_never_ask() -> None:
    for effect in (Effect.SESSION, Effect.PERSON):
        for mode in MODES:
            change = Change("memory.remember", effect, "")
            assert outcome(change, Policy(mode)) == "allow"
            assert outcome(change, Policy(mode, deny=("memory.*",))) == "deny"


_RULES = st.sampled_from(
    ["", "file_ops.*", "file_ops.write_file:src/**", "*", "shell.run", "file_ops.write_file:docs/**"]
)
_FITS = {"file_ops.*", "file_ops.write_file:src/**", "*"}


@given(
    mode=st.sampled_from(MODES),
    deny=st.lists(_RULES, max_size=2),
    ask=st.lists(_RULES, max_size=2),
    allow=st.lists(_RULES, max_size=2),
    granted=st.booleans(),
    level=st.sampled_from(list(RiskLevel)),
)
def test_deny_before_plan_before_ask_before_allow_before_grant_before_mode(
    mode: Mode, deny: list[str], ask: list[str], allow: list[str], granted: bool, level: RiskLevel
) -> None:
    policy = Policy(mode, tuple(filter(None, allow)), tuple(filter(None, ask)), tuple(filter(None, deny)))
    grants = (Grant("file_ops.write_file", "src/a.py"),) if granted else ()
    ruling = decide(write(), Risk(level, "x"), policy, grants)
    if _FITS & set(deny):
        expected = ("deny", "rule")
    elif mode == "plan":
        expected = ("deny", "mode")
    elif _FITS & set(ask):
        expected = ("ask", "rule")
    elif _FITS & set(allow):
        expected = ("allow", "rule")
    elif granted and level <= RiskLevel.MEDIUM:
        expected = ("allow", "grant")
    elif mode != "ask" and level <= RiskLevel.MEDIUM:
        expected = ("allow", "mode")
    else:
        expected = ("ask", "mode")
    assert (ruling.outcome, ruling.by) == expected


ALLOWED = Policy("auto", allow=("shell.run:ls*", "shell.run:cat*", "shell.run:pytest*", "shell.run:echo*"))


@pytest.mark.parametrize("text", ["ls", "ls -la src", "pytest -q tests/test_a.py::test_b", "cat 'a b'", " ls "])
def test_an_allow_pattern_covers_simple_commands(text: str) -> None:
    assert outcome(command(text), ALLOWED) == "allow"


@pytest.mark.parametrize(
    "text",
    [
        "ls; curl x | sh", "ls && rm x", "ls || rm x", "ls & rm x", "ls\nrm x", "ls | sh", "cat$IFS/etc/passwd",
        "cat${IFS}x", "echo x >| /outside", "echo x > f", "echo x >> f", "cat <<E\nx\nE", "ls `id`", "ls $(id)",
        "ls $'\\x72m'", "ls \\\n; id", "echo {rm,-rf,x}", "ls (id)", "ls \u202e", "ls \x1b[2J", "ls\r\nrm x",
        "LD_PRELOAD=x ls", "A=1 cat x", "sudo ls", "env ls",
    ],
)  # fmt: skip
def test_an_allow_pattern_covers_nothing_more(text: str) -> None:
    assert outcome(command(text), ALLOWED) == "ask"
    assert outcome(command(text), Policy("auto"), Grant("shell.run", "ls*"), Grant("shell.run", "*")) == "ask"


def test_the_very_same_text_may_be_allowed_however_complex() -> None:
    text = "cd web && npm test > log *.txt"
    assert outcome(command(text), Policy(allow=(f"shell.run:{text}",))) == "allow"
    assert outcome(command(text + "; id"), Policy(allow=(f"shell.run:{text}",))) == "ask"


@pytest.mark.parametrize(
    "text",
    [
        "rm x", "ls; rm x", "ls && rm -rf x", "ls | rm x", "a\nrm x", "(rm x)", "$(rm x)", "`rm x`", "sudo rm x",
        "env A=1 rm x", "A=1 rm x", "/bin/rm x", '"r"m x', "r\\m x", "bash -c 'rm x'", "nohup rm x", "xargs rm",
        "timeout 5 rm x", "if true; then rm x; fi", "command rm x", "busybox rm x",
    ],
)  # fmt: skip
def test_a_deny_pattern_finds_every_part_of_a_command(text: str) -> None:
    assert (
        outcome(command(text), Policy("auto", allow=("shell.run", f"shell.run:{text}"), deny=("shell.run:rm*",)))
        == "deny"
    )
    assert outcome(command(text), Policy("auto", allow=("shell.run",), ask=("shell.run:rm*",))) == "ask"


def test_an_operation_without_a_pattern_covers_all_of_it_but_what_nobody_can_see() -> None:
    policy = Policy(allow=("shell.run",))
    assert outcome(command("make && ls > x"), policy) == "allow"
    assert outcome(command("ls \u202ex"), policy) == "ask"


def test_a_move_is_allowed_only_when_both_ends_are_and_denied_when_one_is() -> None:
    move = Change(
        "file_ops.move_file",
        Effect.FILES,
        "",
        (Place("a/x", "inside"), Place("b/x", "inside")),
        (FileChange("a/x", b"", None), FileChange("b/x", None, b"")),
    )
    assert outcome(move, Policy(allow=("file_ops.move_file:a/**",))) == "ask"
    assert outcome(move, Policy(allow=("file_ops.move_file:?/**",))) == "allow"
    assert outcome(move, Policy("auto", deny=("file_ops.*:b/**",))) == "deny"
    assert grant_for(move, Risk(RiskLevel.LOW, "")) is None
    assert outcome(move, Policy(), Grant("file_ops.move_file", pattern_for(move))) == "ask"


def test_a_deny_pattern_takes_every_spelling_of_a_path() -> None:
    policy = Policy("auto", deny=("file_ops.*:secrets/**",))
    for path in ("secrets/a", "SECRETS/a", "secrets", "ｓecrets/a"):
        assert outcome(write(path), policy) == "deny"
    assert outcome(write("secrets2/a"), policy) == "allow"


def test_yes_for_this_step_covers_the_same_and_no_more_risk() -> None:
    change = command("pytest -q [a-z]*.py && ls")
    grant = Grant("shell.run", pattern_for(change))
    assert outcome(change, Policy("ask"), grant) == "allow"
    assert outcome(command("pytest -q b.py && ls"), Policy("ask"), grant) == "ask"
    assert outcome(change, Policy("plan"), grant) == "deny"
    edit = write("src/a*.py")
    for grants in ((grant_for(edit, measure(edit)),), (Grant(edit.operation, pattern_for(edit)),)):
        kept = [one for one in grants if one is not None]
        assert outcome(edit, Policy("ask"), *kept) == "allow"
        assert outcome(write("src/ab.py"), Policy("ask"), *kept) == "ask"
        assert outcome(write("src/a*.py", b"", b"x\n" * 200), Policy("ask"), *kept) == "ask"
    assert outcome(edit, Policy("ask"), Grant(edit.operation, "")) == "ask"


def test_searches_leave_out_what_reading_by_name_would_not_get() -> None:
    hidden = hidden_by(
        Policy(deny=("file_ops.*:private/**", "file_ops.write_file:docs/**"), ask=("search.text:x.txt",))
    )
    assert hidden("private/a") and hidden("Private/a") and hidden("x.txt")
    assert not hidden("docs/a") and not hidden("src/private.py")
