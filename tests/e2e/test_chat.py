"""The chat in a real terminal: a conversation, a card, steering, leaving, resuming."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.duck import COMMAND, Duck
from tests.e2e.server import ModelServer, Reply
from tests.engine.workbench import act, decision, verdict
from tests.ui.screens import Screen

WRITE = decision(
    act("file_ops.write_file", path="hello.py", content={"block": "B"}),
    blocks="<<<B\nprint('hi')\nB>>>",
    profile="creation",
    confidence=0.9,
    next_step="done",
    requirements=["hello.py greets"],
    reply="It greets now.",
)


def chat(duck: Duck, *args: str) -> Screen:
    screen = Screen(["-I", str(COMMAND), *args], duck.env, duck.project, columns=100, rows=40)
    screen.wait(r"(?m)^>")
    return screen


def leave(screen: Screen) -> int:
    screen.send("/quit\r")
    code = screen.ended()
    assert "Traceback" not in screen.text
    return code


def test_a_first_conversation_with_a_card(tmp_path: Path) -> None:
    with ModelServer({"understand": WRITE, "evaluate": verdict()}) as server:
        duck = Duck(tmp_path, server.url)
        child = chat(duck)
        child.send("create hello.py\r")
        child.wait(r"\+print\('hi'\)")
        assert duck.files() == {}
        child.wait("y yes")
        child.send("y\r")
        child.wait("It greets now.")
        assert leave(child) == 0
    assert duck.files() == {"hello.py": b"print('hi')\n"}


def test_free_text_at_a_card_is_a_no_with_that_comment(tmp_path: Path) -> None:
    gave_up = decision(profile="creation", next_step="pending_user", reply="Understood, another name then.")
    with ModelServer({"understand": WRITE, "execute": gave_up}) as server:
        duck = Duck(tmp_path, server.url)
        child = chat(duck)
        child.send("create hello.py\r")
        child.wait(r"\+print\('hi'\)")
        child.wait("y yes")
        child.send("call it hi.py\r")
        child.wait("another name then")
        assert leave(child) == 0
    assert duck.files() == {} and "call it hi.py" in server.requests[1].text


def test_a_session_left_with_an_open_question_is_offered_and_resumed(tmp_path: Path) -> None:
    ask = decision(profile="creation", question={"text": "Which greeting?", "options": ["hi", "hello"]})
    with ModelServer({"understand": [ask, WRITE], "evaluate": verdict()}) as server:
        duck = Duck(tmp_path, server.url)
        child = chat(duck)
        child.send("write a greeting\r")
        child.wait("Which greeting")
        assert leave(child) == 0
        offered = chat(duck)
        offered.wait("resume")
        assert leave(offered) == 0
        child = chat(duck, "resume")
        child.wait("Which greeting")
        child.send("2\r")
        child.wait(r"\+print\('hi'\)")
        child.wait("y yes")
        child.send("yes\r")
        child.wait("It greets now.")
        assert leave(child) == 0
    assert "the answer to your question: hello" in server.requests[1].text
    assert duck.files() == {"hello.py": b"print('hi')\n"} and duck("audit", "--verify").code == 0


def test_escape_stops_a_slow_model_and_the_chat_goes_on(tmp_path: Path) -> None:
    slow = Reply(decision(profile="guidance", reply="too late"), hold_after=5)
    with ModelServer([slow, decision(profile="guidance", reply="Second answer.")]) as server:
        duck = Duck(tmp_path, server.url)
        child = chat(duck)
        child.send("first?\r")
        server.arrived.wait(20)
        child.send("\x1b")
        child.wait("(?i)stopped")
        child.send("second?\r")
        child.wait("Second answer.")
        assert leave(child) == 0


def test_a_wrong_key_is_explained_and_the_chat_stays(tmp_path: Path) -> None:
    with ModelServer(Reply(status=401)) as server:
        child = chat(Duck(tmp_path, server.url))
        child.send("hello\r")
        child.wait("401|key|refused")
        assert leave(child) == 0


def test_a_resumed_session_takes_the_mode_of_the_command_line(tmp_path: Path) -> None:
    with ModelServer(decision(profile="guidance", reply="Hello there.")) as server:
        duck = Duck(tmp_path, server.url)
        child = chat(duck)
        child.send("hi\r")
        child.wait("Hello there.")
        assert leave(child) == 0
        child = chat(duck, "resume", "--mode", "plan")
        child.wait("(?m)^plan|mode plan")
        assert leave(child) == 0
