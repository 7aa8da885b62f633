"""Redaction: keys go, code stays, twice is the same as once."""

from __future__ import annotations

import base64
import hashlib
import random
import time
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow.safety.secrets import Redactor, contains_secret, looks_secret

ENV = {
    "OPENAI_API_KEY": "not-a-known-form-123",
    "GITHUB_TOKEN": "tokentokentoken",
    "DB_PASSWORD": "correct horse battery",
    "MY_SECRET": "s3cr3tvalue",
    "SHORT_TOKEN": "abc",
    "TOKEN_LIMIT": "100000000",
    "SSH_AUTH_SOCK": "/tmp/ssh-agent",
    "DATABASE_URL": "postgres://app:pa55w0rd!@db/x",
    "EDITOR": "some-editor-name",
    "NAMED_TOKEN": "redacted",
}
REDACTOR = Redactor(ENV)

KEYS = {
    "anthropic_key": "sk-ant-api03-" + "aB3_" * 20,
    "openai_key": "sk-proj-" + "aB3x" * 12,
    "github_token": "ghp_" + "aB3x" * 9,
    "aws_key_id": "AKIA" + "ABCDEFGH12345678",
    "google_key": "AIza" + "aB3x-" * 7,
    "slack_token": "xoxb-" + "1234567890-abcdef",
    "groq_key": "gsk_" + "aB3x" * 13,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
}


@pytest.mark.parametrize("name", list(KEYS))
def test_well_known_keys_go(name: str) -> None:
    for text in (KEYS[name], f'key = "{KEYS[name]}"', f"x={KEYS[name]};", f"鍵は{KEYS[name]}です"):
        assert KEYS[name] not in REDACTOR.redact(text)
        assert f"[redacted:{name}]" in REDACTOR.redact(text)
        assert contains_secret(text)


def test_values_of_the_environment_go_by_name() -> None:
    text = REDACTOR.redact("a not-a-known-form-123 b tokentokentoken c correct horse battery d s3cr3tvalue")
    assert (
        text == "a [redacted:OPENAI_API_KEY] b [redacted:GITHUB_TOKEN] c [redacted:DB_PASSWORD] d [redacted:MY_SECRET]"
    )
    assert REDACTOR.redact("connect postgres://app:pa55w0rd!@db/x") == (
        "connect postgres://app:[redacted:DATABASE_URL]@db/x"
    )


def test_what_is_too_short_or_ordinary_stays() -> None:
    for text in ("abc", "100000000", "/tmp/ssh-agent", "some-editor-name", "redacted"):
        assert REDACTOR.redact(text) == text


def test_bearer_and_private_keys() -> None:
    assert REDACTOR.redact("Authorization: Bearer abc123def456ghi789") == "Authorization: Bearer [redacted:bearer]"
    body = base64.b64encode(bytes(range(200))).decode()
    pem = f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{body}\n-----END RSA PRIVATE KEY-----"
    assert REDACTOR.redact(f"a\n{pem}\nb") == "a\n[redacted:private_key]\nb"
    cut = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}"
    assert body[:40] not in REDACTOR.redact(cut)


def test_ordinary_code_is_not_touched() -> None:
    chance = random.Random(1)
    samples = [
        hashlib.sha256(b"x").hexdigest(),
        hashlib.sha1(b"x").hexdigest(),
        str(uuid.UUID(int=7)),
        "data:image/png;base64," + base64.b64encode(chance.randbytes(50_000)).decode(),
        "sha512-" + base64.b64encode(chance.randbytes(64)).decode(),
        'if "-----BEGIN PRIVATE KEY-----" in text:\n    raise ValueError("a private key")\n' * 3,
        "class='sk-folding-cube sk-cube-grid-wave-animation sk-child'",
        "Bearer token authentication; Bearer authentication-scheme",
        "risk-assessment-2024-QUARTERLY-REPORT-FINAL-VERSION",
        "task-AB12CD34EF56GH78IJ90KL12MN34",
        "eyJust a word. AKIAshort",
        "https://user@example.org:8080/path",
        'api_key_env = "LOCAL_KEY"; token = get_token()',
    ]
    for source in Path(__file__).parents[2].glob("src/duckflow/tools/*.py"):
        samples.append(source.read_text(encoding="utf-8"))
    for text in samples:
        assert REDACTOR.redact(text) == text


@given(st.lists(st.sampled_from([*ENV.values(), *KEYS.values(), "Bearer ", " ", "x", "[redacted:", "]", "\n", "sk-"])))
def test_twice_is_the_same_as_once(parts: list[str]) -> None:
    once = REDACTOR.redact("".join(parts))
    assert REDACTOR.redact(once) == once


def test_big_texts_are_fast() -> None:
    for text in ("x = compute(value)  # comment\n" * 100_000, " sk-" * 500_000, "-----BEGIN PRIVATE KEY-----" * 50_000):
        began = time.perf_counter()
        REDACTOR.redact(text)
        assert time.perf_counter() - began < 2


def test_names_that_look_like_keys() -> None:
    for name in ("OPENAI_API_KEY", "GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "SECRET_KEY_BASE", "api_key"):
        assert looks_secret(name)
    for name in ("HOME", "KEYBOARD", "TOKENIZERS_PARALLELISM", "PATH", "MONKEY", "DISPLAY"):
        assert not looks_secret(name)
