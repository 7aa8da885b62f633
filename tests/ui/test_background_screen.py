"""Work in the background on a real pseudo-terminal: told when nobody types, stopped by name, kept when one leaves."""

from __future__ import annotations

import re
import signal

from tests.ui.screens import Screen, Start


def with_plan(start: Start) -> Screen:
    """A chat whose plan was approved: its first step works in the background."""
    screen = start()
    screen.send("plan\r")
    screen.wait("other text: no, and why")
    screen.send("はい、お願いします\r")
    screen.wait("goes on in the background; /tasks shows it")
    screen.wait(r"plan 0/2 · storage")
    return screen


def go_on(screen: Screen) -> None:
    """Let the work in the background do its next thing."""
    screen.child.kill(signal.SIGUSR1)


def key(screen: Screen, letter: str, line: str) -> None:
    """Press a key and see it: whatever was to be printed before is on the screen now."""
    screen.send(letter)
    screen.wait(lambda: any(shown.rstrip() == line for shown in screen.lines))


def test_a_plan_is_approved_on_its_card_and_leaves_the_input_free(start: Start) -> None:
    screen = with_plan(start)
    assert "plan “Ledger” drafted: 2 steps" in screen.text and "plan “Ledger” approved" in screen.text
    assert "y yes · n no · other text: no, and why" not in screen.visible
    screen.send("hello\r")
    screen.wait("You said: hello")
    screen.wait(lambda: "Esc stops" not in screen.visible)


def test_words_after_a_yes_that_mean_more_are_a_no_with_that_comment(start: Start) -> None:
    screen = start()
    screen.send("plan\r")
    screen.wait("other text: no, and why")
    screen.send("はい、でも小さく\r")
    screen.wait("answer=no comment='はい、でも小さく'")


def test_what_the_background_does_is_one_line_that_names_its_step(start: Start) -> None:
    screen = with_plan(start)
    go_on(screen)
    screen.wait(r"(?m)^  storage · edit src/x\.py$")
    screen.wait(r"(?m)^  ✓ storage · 1 of 2 steps done$")
    assert "streamed in the background" not in screen.text


def test_nothing_of_the_background_is_printed_while_somebody_types(start: Start) -> None:
    screen = with_plan(start)
    key(screen, "half a though", "> half a though")
    go_on(screen)
    screen.wait("plan 1/2")  # the state is there, the words wait
    go_on(screen)
    screen.wait("plan 1/2 · report")
    key(screen, "t", "> half a thought")
    for told in ("edit src/x.py", "steps done", "Half of it", "background reply"):
        assert told not in screen.text
    screen.send("\x15")  # the line is empty again
    screen.wait("background reply")
    shown = [screen.text.index(told) for told in ("edit src/x.py", "✓ storage", "Half of it", "background reply")]
    assert shown == sorted(shown)
    assert screen.text.count("Half of it is there.") == 1


def test_what_was_held_back_comes_before_the_message_that_was_typed_meanwhile(start: Start) -> None:
    screen = with_plan(start)
    key(screen, "my question", "> my question")
    go_on(screen)
    screen.wait("plan 1/2")
    go_on(screen)
    screen.wait("plan 1/2 · report")
    screen.send("\r")
    screen.wait("You said: my question")
    assert screen.text.index("Half of it is there.") < screen.text.index("> my question")


def test_the_end_of_the_background_work_has_a_line_of_its_own(start: Start) -> None:
    screen = with_plan(start)
    for told in ("1 of 2 steps done", "background reply", "The plan needs you"):
        go_on(screen)
        screen.wait(told)
    screen.wait(r"(?m)^   2 cancel$")
    screen.wait(r"(?m)^a number chooses how the background work goes on$")
    go_on(screen)
    screen.wait(r"(?m)^  Ledger · ended with a partial result$")
    screen.wait(lambda: "a number chooses" not in screen.visible)
    screen.wait(lambda: "plan 1/2" not in screen.lines[-1])


def test_escape_does_not_stop_the_background_and_says_once_what_does(start: Start) -> None:
    screen = with_plan(start)
    screen.send("\x1b")
    screen.wait("/tasks stop stops the background work")
    screen.send("\x1b")
    key(screen, "x", "> x")
    assert screen.text.count("/tasks stop stops the background work") == 1
    assert "plan 0/2 · storage" in screen.lines[-1]
    screen.send("\x15slow\r")
    screen.wait("Esc stops")
    screen.send("\x1b")
    screen.wait("stopped")
    screen.wait(lambda: screen.lines[-1].endswith("plan 0/2 · storage"))


def test_tasks_are_shown_paused_resumed_and_stopped(start: Start) -> None:
    screen = with_plan(start)
    screen.send("/tasks\r")
    screen.wait(r"run2 · storage · task 1 of 1 · \d+ s")
    screen.wait(r"▸ T1 shell\.run · make")
    screen.send("/tasks pause\r")
    screen.wait(r"(?m)^  Ledger · paused$")
    screen.wait("plan 0/2 · paused")
    assert "storage · paused" not in screen.text  # once for the plan
    screen.send("/tasks resume storage\r")
    screen.wait(r"(?m)^  storage · goes on$")
    screen.send("/tasks stop nothing\r")
    screen.wait("No background work is called nothing")
    screen.send("/tasks stop\r")
    screen.wait(r"(?m)^  Ledger · stopped$")
    screen.send("/tasks stop\r")
    screen.wait("There is nothing to stop")
    screen.send("/quit\r")
    screen.wait(r"asked to: \['pause None', 'go_on run2', 'stop None', 'stop None'\]")


def test_leaving_keeps_the_plan_and_says_how_to_go_on(start: Start) -> None:
    screen = with_plan(start)
    key(screen, "half", "> half")
    go_on(screen)
    screen.wait("plan 1/2")
    screen.send("\x03\x03")
    screen.wait("ended: 0 ")
    screen.wait(r"asked to: \['close None'\]")
    assert "✓ storage" in screen.text  # nothing that was held back is lost
    words = " ".join(screen.text.split())
    assert "The plan “Ledger” is kept (1 of 2 steps done): `duckflow resume`, then /tasks resume" in words
    assert screen.ended() == 0


def test_a_signal_loses_nothing_that_was_held_back(start: Start) -> None:
    screen = with_plan(start)
    key(screen, "half", "> half")
    go_on(screen)
    screen.wait("plan 1/2")
    key(screen, "!", "> half!")
    assert "✓ storage" not in screen.text
    screen.child.kill(signal.SIGTERM)
    screen.wait("terminated")
    assert "✓ storage" in screen.text and screen.ended() == 143


def test_another_session_is_not_opened_over_work_in_the_background(start: Start) -> None:
    first = start()
    first.send("remember me\r")
    first.wait("You said")
    first.send("\x04")
    first.ended()
    screen = with_plan(start)
    screen.send("/resume\r")
    screen.wait("Work is running in the background: /tasks stop")
    screen.send("/tasks pause\r")
    screen.wait("plan 0/2 · paused")
    screen.send("/resume\r")
    screen.wait(r"ended: Switch")
    screen.wait("close None")


def test_a_session_that_is_gone_on_with_shows_its_unfinished_plan(start: Start) -> None:
    first = with_plan(start)
    first.send("\x04")
    first.wait(r"session: (\S+)")
    name = re.search(r"session: (\S+)", first.text)
    assert name is not None
    second = start("en", "resume", name[1])
    words = " ".join(second.text.split())
    assert "The plan “Ledger” is unfinished (0 of 2 steps done): /tasks resume goes on with it" in words
    second.wait("plan 0/2 · paused")
    second.send("/tasks resume\r")
    second.wait(r"(?m)^  Ledger · goes on$")


def test_the_five_ways_on_are_chosen_by_number_or_in_own_words(start: Start) -> None:
    screen = start()
    screen.send("escalate\r")
    screen.wait(r"(?m)^   5 cancel$")
    screen.wait(r"(?m)^number or your own words$")
    screen.send("2\r")
    screen.wait("You said: 2")
    screen.wait(lambda: "number or your own words" not in screen.visible)


def test_a_terminal_that_can_do_little_has_a_prompt_while_the_background_works(start: Start) -> None:
    screen = start(env={"TERM": "dumb"})
    screen.send("plan\n")
    screen.wait("other text: no, and why")
    screen.send("y\n")
    screen.wait("goes on in the background")
    go_on(screen)
    screen.wait("✓ storage · 1 of 2 steps done")
    screen.send("hello\n")
    screen.wait("You said: hello")
