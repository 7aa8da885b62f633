"""「ゲームを実装して」: from the wish over the plan card and work beside the conversation to done with evidence."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.duck import Duck
from tests.e2e.flows import (
    Talk,
    check_actions,
    check_steps,
    flat,
    in_both,
    journal,
    judged,
    of,
    said,
    steps_done,
    steps_of,
    ui,
)
from tests.e2e.server import Given, ModelServer, Reply
from tests.engine.workbench import act, decision


class Game(NamedTuple):
    """The words of one conversation."""

    wish: str
    goal: str
    steps: tuple[str, str]
    risk: str
    criterion: str
    yes: str
    side: tuple[str, str]  # a question beside the work, and its answer
    summary: str
    next: str
    smaller: str  # why the first plan is refused


GAMES = {
    "ja": Game(
        "ゲームを実装して",
        "ゲームを実装する",
        ("環境構築", "コア実装"),
        "描画が遅いかもしれない",
        "ブラウザーで遊べる",
        "はい、お願いします",
        ("Canvas と WebGL のどちらがいい？", "Canvas で十分です。"),
        "環境構築とコア実装ができました。",
        "一度遊んでみてください",
        "環境構築だけにして",
    ),
    "en": Game(
        "build a game",
        "implement a game",
        ("setup", "core"),
        "drawing may be slow",
        "it can be played in a browser",
        "yes",
        ("canvas or WebGL?", "Canvas is enough."),
        "The setup and the core are there.",
        "Play it once.",
        "only the setup, please",
    ),
}
PACKAGE, CODE = '{"name": "pong-1972"}\n', "export const ball = 1972\n"


def propose(game: Game, **fields: Any) -> str:
    """Step 2: the model proposes; it has no plan yet."""
    wanted = ["package.json", "src/game.js"]
    return decision(
        act("plan_tool.propose", goal=game.goal), profile="creation", confidence=0.9, requirements=wanted, **fields
    )


def planned(game: Game, steps: int = 2, **first: Any) -> str:
    """Step 4: what the plan call answers."""
    setup: dict[str, Any] = {"name": game.steps[0], "description": "package.json", "files": ["package.json"], **first}
    core = {"name": game.steps[1], "description": "src/game.js", "depends_on": [game.steps[0]], "files": ["src/*.js"]}
    plan = {
        "name": game.goal,
        "goal": game.goal,
        "steps": [setup, core][:steps],
        "risks": [{"risk": game.risk, "level": "low"}],
        "success_criteria": [game.criterion],
    }
    return json.dumps(plan, ensure_ascii=False)


def tasks(*actions: dict[str, Any]) -> str:
    return json.dumps({"tasks": actions}, ensure_ascii=False)


WRITE = act("file_ops.write_file", path="src/game.js", content=CODE)
SETUP, CORE = tasks(act("file_ops.write_file", path="package.json", content=PACKAGE)), tasks(WRITE)


def reported(game: Game) -> str:
    """The counts are wrong on purpose: the engine's own are shown."""
    told = {"status": "success", "succeeded": 9, "failed": 0, "summary": game.summary, "recommended_next": game.next}
    return json.dumps(told, ensure_ascii=False)


def script(game: Game, understand: list[Given], plans: list[Given], lists: list[Given]) -> dict[str, Any]:
    return {
        "understand": understand,
        "plan": plans,
        "tasks": lists,
        "evaluate": judged(),
        "report": reported(game),
    }


@in_both
def test_a_game_is_planned_approved_built_beside_the_conversation_and_judged(tmp_path: Path, lang: str) -> None:
    game = GAMES[lang]
    slow = Reply(SETUP, hold_after=-1)
    side = decision(profile="guidance", objective="side", reply=game.side[1], actions=[])
    with ModelServer(script(game, [propose(game), side], [planned(game)], [slow, CORE])) as server:
        duck = Duck(tmp_path, server.url)
        talk = Talk(duck, lang)
        talk.says(game.wish)
        talk.card()
        talk.sees(*game.steps, "package.json", "src/*.js", game.risk, game.criterion)
        assert server.nodes() == ["understand", "plan"] and duck.files() == {}
        talk.types(game.yes)
        talk.asked(server, "tasks")
        talk.rests()  # the line is free while the step works
        talk.says(game.side[0])
        talk.sees(game.side[1])
        talk.says("/tasks")
        talk.sees(f"run2 · {game.steps[0]}")
        talk.says("/plan")
        waits = talk.ui("waits for {steps}", steps=game.steps[0])
        talk.sees(f"▸ S1 {game.steps[0]} · {talk.ui('running')}", f"· S2 {game.steps[1]} · {waits}")
        assert duck.files() == {} and steps_done(lang, 0, 2) in talk.screen.text
        slow.release.set()
        talk.sees(f"✓ {game.steps[0]} · {steps_done(lang, 1, 2)}", f"✓ {game.steps[1]} · {steps_done(lang, 2, 2)}")
        talk.sees(game.summary, game.next, talk.ui("done, with evidence"))
        talk.says("/plan")
        talk.sees(f"✓ S2 {game.steps[1]} · {talk.ui('done')}")
        talk.says("/tasks")
        talk.sees(talk.ui("Nothing works in the background."))
        talk.leaves()
    assert duck.files() == {"package.json": PACKAGE.encode(), "src/game.js": CODE.encode()}
    assert talk.text.count(flat(game.summary)) == 1, "the report is told once"
    check_game_calls(server, game)
    check_game_events(journal(duck))


def check_game_calls(server: ModelServer, game: Game) -> None:
    """Who was asked what: the second step knows the first one's files, the side question the work's true state."""
    assert not server.unexpected
    assert server.nodes() == ["understand", "plan", "tasks", "understand", "tasks", "evaluate", "report"]
    wish, plan, first, side, second, verdict, report = (request.text for request in server.requests)
    assert game.wish in wish and game.wish in plan and game.goal in plan
    assert f"Step “{game.steps[0]}”" in first and "pong-1972" not in first
    assert "Running in the background" in side and "0 of 2 steps done" in side and game.side[0] in side
    assert f"Step “{game.steps[1]}”" in second and "pong-1972" in second and "changed package.json" in second
    assert game.side[0] not in verdict and "pong-1972" in verdict and "ball = 1972" in verdict
    assert "2 of 2 steps done" in report


def check_game_events(events: list[dict[str, Any]]) -> None:
    plan = of(events, "plan.changed")[-1]
    assert plan["status"] == "completed" and [s["status"] for s in plan["steps"]] == ["completed", "completed"]
    asked, answered = of(events, "gate.asked"), of(events, "gate.answered")
    assert [e["operation"] for e in asked] == ["plan_tool.approve"], "the plan is the only thing that was asked"
    assert (answered[0]["by"], answered[0]["answer"]) == ("user", "yes")
    assert {e["by"] for e in answered[1:]} == {"grant"}
    report = of(events, "report")
    assert [(e["status"], e["succeeded"], e["total"]) for e in report] == [("success", 2, 2)]
    judged_once = of(events, "verdict")
    assert [e["next"] for e in judged_once] == ["complete"]
    assert all(score["evidence"] for score in judged_once[0]["requirements"].values())
    assert steps_of(events, "run1") == ["PLANNING", "AWAITING_APPROVAL", "EXECUTION", "REVIEW", "DONE"]
    assert steps_of(events, "run2") == ["PLANNING", "EXECUTION", "REVIEW", "DONE"]
    assert of(events, "objective.changed")[-1]["status"] == "satisfied"


@in_both
def test_what_is_announced_with_a_plan_is_said_before_its_card(tmp_path: Path, lang: str) -> None:
    """Step 5 of the flow: the proposal is introduced, then shown; it is not announced when it was already decided."""
    game = GAMES[lang]
    announced = {"ja": "まず計画を提案します。", "en": "Here is a plan first."}[lang]
    with ModelServer(script(game, [propose(game, reply=announced)], [planned(game)], [])) as server:
        talk = Talk(Duck(tmp_path, server.url), lang)
        talk.says(game.wish)
        talk.card()
        assert flat(announced) in talk.text, talk.screen.text
        talk.escapes()
        talk.sees(talk.ui("stopped"))
        talk.leaves()
    assert talk.text.count(flat(announced)) == 1


@in_both
def test_without_a_person_the_mode_auto_approves_and_the_plan_is_carried_out(tmp_path: Path, lang: str) -> None:
    game = GAMES[lang]
    with ModelServer(script(game, [propose(game)], [planned(game)], [SETUP, CORE])) as server:
        duck = Duck(tmp_path, server.url)
        ran = duck.run("--mode", "auto", "--lang", lang, game.wish)
    assert ran.code == 0 and ran.result["status"] == "satisfied"
    assert game.summary in ran.result["reply"] and "9" not in ran.result["reply"]
    assert ran.result["files_changed"] == ["package.json", "src/game.js"]
    assert duck.files() == {"package.json": PACKAGE.encode(), "src/game.js": CODE.encode()}
    assert ran.of("gate.answered")[0]["by"] == "mode" and not ran.of("gate.asked")
    assert server.nodes() == ["understand", "plan", "tasks", "tasks", "evaluate", "report"]
    check_steps(ran.events)
    check_actions(ran.events)
    assert journal(duck)


@in_both
def test_nobody_may_approve_a_plan_in_the_mode_ask(tmp_path: Path, lang: str) -> None:
    game = GAMES[lang]
    gave_up = decision(profile="creation", next_step="done", reply=game.summary)
    given = {**script(game, [propose(game)], [planned(game)], []), "execute": gave_up, "evaluate": judged(0.0)}
    with ModelServer(given) as server:
        duck = Duck(tmp_path, server.url)
        ran = duck("run", "--lang", lang, game.wish)
    assert ran.code == 4 and duck.files() == {} and game.summary not in ran.out
    assert ui(lang, "Nothing was changed.") in ran.out and "tasks" not in server.nodes()


@in_both
def test_a_refused_plan_is_revised_with_the_comment_and_approved(tmp_path: Path, lang: str) -> None:
    game = GAMES[lang]
    plans: list[Given] = [planned(game), planned(game, 1)]
    given = {**script(game, [propose(game)], plans, [SETUP]), "execute": propose(game)}
    with ModelServer(given) as server:
        duck = Duck(tmp_path, server.url)
        talk = Talk(duck, lang)
        talk.says(game.wish)
        talk.card()
        talk.types(game.smaller)
        talk.asked(server, "plan", 2)
        talk.sees(game.criterion, times=2)  # the second card
        talk.card()
        talk.types(game.yes)
        talk.sees(game.summary)
        talk.leaves()
    assert duck.files() == {"package.json": PACKAGE.encode()}
    again, second = server.requests[2], server.requests[3]
    assert (again.node, second.node) == ("execute", "plan")
    assert game.smaller in said(again.body) and game.smaller in said(second.body)
    events = journal(duck)
    last = {e["plan"]: e["status"] for e in of(events, "plan.changed")}
    assert last == {"P1": "replaced", "P2": "completed"}
    refusal = of(events, "gate.answered")[0]
    assert (refusal["answer"], refusal["by"], refusal["comment"]) == ("no", "user", game.smaller)
    steps = steps_of(events, "run1")
    assert [after for before, after in pairwise(steps) if before == "AWAITING_APPROVAL"] == ["PLANNING", "EXECUTION"]
    assert steps[-2:] == ["REVIEW", "DONE"]


@in_both
def test_a_command_of_the_background_asks_by_name_and_waits_for_the_key(tmp_path: Path, lang: str) -> None:
    game = GAMES[lang]
    proof = "grep -q pong package.json"
    with ModelServer(script(game, [propose(game)], [planned(game, done_when=[proof])], [SETUP, CORE])) as server:
        duck = Duck(tmp_path, server.url)
        talk = Talk(duck, lang)
        talk.says(game.wish)
        talk.card()
        talk.types(game.yes)
        talk.sees("Ctrl-G")
        talk.says("/tasks")
        talk.sees(talk.ui("asks: {what} (Ctrl-G opens it)", what=talk.ui("Run this command?")))
        assert "src/game.js" not in duck.files()
        talk.screen.send("\x07")
        talk.card()
        talk.sees(f"$ {proof}")
        talk.types(game.yes)
        talk.sees(game.summary)
        talk.leaves()
    events = journal(duck)
    assert [e["operation"] for e in of(events, "gate.asked")] == ["plan_tool.approve", "shell.run"]
    assert [e["exit_code"] for e in of(events, "action.finished") if e["operation"] == "shell.run"] == [0]
    assert sorted(duck.files()) == ["package.json", "src/game.js"]


@in_both
def test_killed_in_the_middle_of_a_plan_it_goes_on_where_it_was_and_repeats_nothing(tmp_path: Path, lang: str) -> None:
    """Killed while the second task of the second step, a command, waits for a yes."""
    game = GAMES[lang]
    core = tasks(WRITE, act("shell.run", command="echo once >> count.txt"))
    with ModelServer(script(game, [propose(game)], [planned(game)], [SETUP, core])) as server:
        duck = Duck(tmp_path, server.url)
        talk = Talk(duck, lang)
        talk.says(game.wish)
        talk.card()
        talk.types(game.yes)
        talk.sees("Ctrl-G")
        talk.killed()
        before = traces(duck)
        assert sorted(duck.files()) == ["package.json", "src/game.js"] and duck("audit", "--verify").code == 0
        talk = Talk(duck, lang, "resume")
        talk.sees(game.goal, steps_done(lang, 1, 2))
        talk.says("/tasks resume")
        talk.sees("Ctrl-G")
        talk.screen.send("\x07")
        talk.card()
        talk.sees("$ echo once >> count.txt")
        talk.types(game.yes)
        talk.sees(game.summary)
        talk.leaves()
    assert duck.files()["count.txt"] == b"once\n"
    after = traces(duck)
    assert {path: after[path] for path in before} == before, "a finished task was done again"
    assert server.nodes() == ["understand", "plan", "tasks", "tasks", "evaluate", "report"]
    events = journal(duck)
    done = [e["operation"] for e in of(events, "action.finished") if e["effect"]]
    assert done == ["file_ops.write_file", "file_ops.write_file", "shell.run"]
    assert of(events, "plan.changed")[-1]["status"] == "completed"


@in_both
def test_killed_while_the_first_step_is_thought_out_the_plan_is_still_approved(tmp_path: Path, lang: str) -> None:
    game = GAMES[lang]
    never = Reply(SETUP, hold_after=-1)
    with ModelServer(script(game, [propose(game)], [planned(game)], [never, SETUP, CORE])) as server:
        duck = Duck(tmp_path, server.url)
        talk = Talk(duck, lang)
        talk.says(game.wish)
        talk.card()
        talk.types(game.yes)
        talk.asked(server, "tasks")
        talk.killed()
        talk = Talk(duck, lang, "resume")
        talk.sees(steps_done(lang, 0, 2))
        talk.says("/tasks resume")
        talk.sees(game.summary)
        talk.leaves()
    assert duck.files() == {"package.json": PACKAGE.encode(), "src/game.js": CODE.encode()}
    assert server.nodes() == ["understand", "plan", "tasks", "tasks", "tasks", "evaluate", "report"]
    events = journal(duck)
    assert [e["operation"] for e in of(events, "gate.asked")] == ["plan_tool.approve"]
    assert of(events, "objective.changed")[-1]["status"] == "satisfied"


def traces(duck: Duck) -> dict[str, tuple[int, int]]:
    """What shows that a file was written anew: files are replaced as a whole."""
    files = [path for path in duck.project.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}
