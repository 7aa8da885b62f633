"""Passwords that only their name gives away: the value goes, and ordinary code stays as it is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow.safety.secrets import Redactor

REDACT = Redactor({}).redact

# line, secret, name in the mark
SECRET = [
    ("DB_PASSWORD=hunter2abcdef", "hunter2abcdef", "DB_PASSWORD"),
    ("DB_PASSWORD=correcthorsebattery", "correcthorsebattery", "DB_PASSWORD"),
    ('DB_PASSWORD="correct horse battery"', "correct horse battery", "DB_PASSWORD"),
    ("export API_TOKEN=abcdefghij0123", "abcdefghij0123", "API_TOKEN"),
    ("password: hunter2abcdef", "hunter2abcdef", "password"),
    ("  db_passwd: p@ssw0rd!x  # of the test database", "p@ssw0rd!x", "db_passwd"),
    ('SECRET_KEY = "django-insecure-4f$k2l)9x"', "django-insecure-4f$k2l)9x", "SECRET_KEY"),
    ("SECRET_KEY = 'supersecretvalue'", "supersecretvalue", "SECRET_KEY"),
    ('  "password": "hunter2abcdef",', "hunter2abcdef", "password"),
    (r"{\"password\": \"hunter2abcdef\"}", "hunter2abcdef", "password"),
    ('{"apiKey":"a1b2c3d4e5f6"}', "a1b2c3d4e5f6", "apiKey"),
    ('+    access_key: str = "Zx81-quux-77"', "Zx81-quux-77", "access_key"),
    (
        "-AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCY",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCY",
        "AWS_SECRET_ACCESS_KEY",
    ),
    ("12│POSTGRES_PASSWORD=verysecretpw", "verysecretpw", "POSTGRES_PASSWORD"),
    ("      - MYSQL_ROOT_PASSWORD=rootrootroot", "rootrootroot", "MYSQL_ROOT_PASSWORD"),
    ("spring.datasource.password=hunter2abcdef", "hunter2abcdef", "password"),
    ('self.token = "9f8e7d6c5b4a"', "9f8e7d6c5b4a", "token"),
    ('os.environ["GH_TOKEN"] = "9f8e7d6c5b4a"', "9f8e7d6c5b4a", "GH_TOKEN"),
    ("  'password' => 'hunter2abcdef',", "hunter2abcdef", "password"),
    ("X-Api-Key: 9f8e7d6c5b4a3210", "9f8e7d6c5b4a3210", "X-Api-Key"),
    ("mysql --password=hunter2abcdef -u root", "hunter2abcdef", "password"),
    ('connect(user="app", password="hunter2abcdef")', "hunter2abcdef", "password"),
    ('const PRIVATE_KEY: &str = "0xdeadbeef01234567";', "0xdeadbeef01234567", "PRIVATE_KEY"),
    ("credentials = 'app:hunter2abcdef'", "app:hunter2abcdef", "credentials"),
    ("İ DB_PASSWORD: hunter2abcdef", "hunter2abcdef", "DB_PASSWORD"),
    ('password = "hun\\"ter2abcdef"', 'hun\\"ter2abcdef', "password"),
]

BENIGN = """\
token = next(tokens)
password: str
password: SecretStr = Field(...)
PASSWORD_FIELD = "password"
def secret_key(self) -> str:
csrf_token = request.POST["csrf"]
tokens=1024
max_tokens: 4096
"total_tokens": 12345678
token_count = 123456789
https://example.org/login?token=abcdef123456&next=/
https://example.org/docs/password:reset/0123456789
DATABASE_PASSWORD=${DB_PASSWORD}
API_KEY=<your-api-key-1>
API_KEY="your-api-key-here"
SECRET_KEY=changeme
SECRET_KEY = "change-me-in-production-1"
API_TOKEN=xxxxxxxxxxxxxxxx
API_TOKEN="****************"
token = os.environ["API_TOKEN"]
token = os.environ.get("API_TOKEN", "")
api_key = settings.providers.openai1.api_key
api_key=api_key,
client = Client(token=token2value, secret=secret_value1)
password = getpass.getpass("Password: ")
password = None
"password": null,
"secret": undefined
token: CancellationToken
password: string;
if password == "hunter2abcdef":
assert token != "hunter2abcdef"
"password": "Passwort",
"password": "Enter your new password (8 characters)",
password: "パスワードを入力してください",
INVALID_TOKEN = "The token 12345 is not valid"
token_url: "https://auth.example.org/oauth2/token"
secret_file = "/run/secrets/db_password_1"
secretName: my-app-tls-1
api_key_env = "LOCAL_KEY_1"
TOKEN_HEADER = "X-Auth-Token-2"
"tokenizer": "bert-base-uncased-v2",
token = f"{user}-{stamp}123"
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,}")
token_pattern = r"[a-z0-9]{32}"
"token": "keyword.operator.assignment",
credentials: "same-origin"
password = data["password1"]
API_TOKEN=$(cat /run/token)
API_TOKEN: ${{ secrets.API_TOKEN }}
password: {{ vault_db_password1 }}
access_key = access_key or default_key1
The password: it must have 8 characters or more.
Token: authentication required
passwordInput = document.getElementById("password1")
secret = base64.b64encode(data)
SECRET_KEY=settings.SECRET_KEY
private_key = load_pem_private_key(data)
return {"token": token, "password": hash_password(password)}
[redacted:API_TOKEN]: something12345
""".splitlines()


@pytest.mark.parametrize(("line", "secret", "name"), SECRET)
def test_the_value_goes_and_the_rest_stays(line: str, secret: str, name: str) -> None:
    assert REDACT(line) == line.replace(secret, f"[redacted:{name}]")
    assert REDACT(f"before\n{line}\nafter\n") == f"before\n{line.replace(secret, f'[redacted:{name}]')}\nafter\n"


@pytest.mark.parametrize("line", BENIGN)
def test_ordinary_lines_stay(line: str) -> None:
    for prefix in ("", "    ", "+", "- ", "12│", "src/a.py:12│    "):
        assert REDACT(prefix + line) == prefix + line


def test_there_are_enough_of_both() -> None:
    assert len(SECRET) >= 15 and len(BENIGN) >= 25


def test_duckflow_itself_stays() -> None:
    for source in Path(__file__).parents[2].glob("src/**/*.py"):
        text = source.read_text(encoding="utf-8")
        assert REDACT(text) == text, source


_PARTS = [
    "DB_PASSWORD",
    "token",
    "=",
    ": ",
    '"',
    "'",
    "hunter2abcdef",
    " ",
    "\n",
    "[redacted:",
    "]",
    "x",
    "\\",
    "{",
    "İ",
]


@given(st.lists(st.sampled_from([*_PARTS, *(case[0] for case in SECRET)])))
def test_twice_is_the_same_as_once(parts: list[str]) -> None:
    once = REDACT("".join(parts))
    assert REDACT(once) == once


@pytest.mark.parametrize(
    "piece",
    ["token=", "token: ", "password", 'token = "', "x = compute(value)  # comment\n", "DB_PASSWORD=hunter2abcdef\n"],
)
def test_big_texts_are_fast(piece: str) -> None:
    text = piece * (500_000 // len(piece))
    began = time.perf_counter()
    REDACT(text)
    assert time.perf_counter() - began < 8
