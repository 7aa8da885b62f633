"""`/plan` and `/tasks`: a plan step by step, and what works in the background. Reads state; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from duckflow import events as ev
from duckflow.i18n import _, listed
from duckflow.state.runs import RunState, SessionState, active_plan, working
from duckflow.ui import figures, planwords
from duckflow.ui.beside import Beside
from duckflow.ui.out import Out
from duckflow.ui.safe import safe, safe_line
from duckflow.ui.status import is_paused

if TYPE_CHECKING:
    from duckflow.human import Request
    from duckflow.state.plan import Plan, PlanStep, Task
    from duckflow.ui.chat import Chat

GONE = ("deleted", "replaced")
HIDDEN = 200  # characters of one value


# --- /plan ----------------------------------------------------------------------------------------------------------


def show_plan(state: SessionState, wanted: str, out: Out) -> None:
    """The plan that was named, or the one that counts now."""
    plan = find_plan(state, wanted) if wanted else _current(state)
    if plan is not None:
        _draw(plan, out)
    elif not wanted or not state.plans:
        out.block(_("There is no plan yet."), "dim", indent="  ")
    else:
        known = listed(f"{p.id} {safe_line(p.name)}" for p in state.plans.values())
        told = _("There is no plan {plan}.", plan=safe_line(wanted))
        out.block(told + " " + _("Known here: {known}.", known=known), "yellow", indent="  ")


def _current(state: SessionState) -> Plan | None:
    """The one that is carried out; else the newest that is still there."""
    kept = [plan for plan in state.plans.values() if plan.status not in GONE]
    return active_plan(state) or (kept[-1] if kept else None)


def find_plan(state: SessionState, wanted: str) -> Plan | None:
    """By its id, its name, or a beginning of the name that only it has."""
    plans, key = list(state.plans.values()), wanted.strip().casefold()
    exact = [plan for plan in plans if key in (plan.id.casefold(), plan.name.casefold())]
    near = [plan for plan in plans if plan.name.casefold().startswith(key)]
    return exact[-1] if exact else near[0] if len(near) == 1 else None


def _draw(plan: Plan, out: Out) -> None:
    head = (f"{plan.id} {safe_line(plan.name)}", planwords.plan_status(plan.status), planwords.progress(plan))
    out.block(figures.joined(head), "bold", indent="  ")
    why = planwords.reason(plan.reason)
    for name, value in ((_("goal"), safe(plan.goal)), (_("reason"), why)):
        _fact(name, value, out, indent="  ")
    names = {step.id: safe_line(step.name) for step in plan.steps}
    for step in plan.steps:
        _draw_step(step, plan.steps, names, out)
    for risk in plan.risks:
        level = safe_line(str(risk.get("level", "")))
        _fact(_("risk"), figures.joined((level, safe_line(str(risk.get("risk", ""))))), out, indent="  ")
    for criterion in plan.criteria:
        _fact(_("success means"), safe_line(criterion), out, indent="  ")


def _draw_step(step: PlanStep, steps: Sequence[PlanStep], names: Mapping[str, str], out: Out) -> None:
    head = f"{step.id} {safe_line(step.name)}"
    told = figures.joined((head, planwords.step_status(step, steps)))
    out.block(told, planwords.style(step.status), first=f"  {planwords.mark(step.status)} ", indent="    ")
    _fact("", safe(step.description), out)
    _fact(_("after"), listed(names.get(need, need) for need in step.depends_on), out)
    _fact(_("files"), _exactly(step.files), out)
    _fact(_("commands"), _exactly(step.commands), out)
    _fact(_("done when"), _exactly(step.done_when), out)


def _exactly(values: Iterable[str]) -> str:
    """Globs and commands, each as it is."""
    return " · ".join(safe_line(value, exact=True) for value in values)


def _fact(name: str, value: str, out: Out, *, indent: str = "      ") -> None:
    if value:
        out.block(f"{name}: {value}" if name else value, "dim", indent=indent + "  ", first=indent)


# --- /tasks ---------------------------------------------------------------------------------------------------------


def show_tasks(state: SessionState, events: Iterable[ev.Event], pending: Sequence[Request], out: Out) -> None:
    """Per run: which step, which of its tasks, since when, what runs now, and what it asks."""
    runs = working(state)
    if not runs:
        _nothing(state, out)
        return
    since, beside = began(events), Beside(state)
    for run in runs:
        _draw_run(run, state, beside, since.get(run.id), out)
        for request in pending:
            if request.owner == run.id:
                told = _("asks: {what} (Ctrl-G opens it)", what=safe_line(request.card.title, exact=True))
                out.block(told, "yellow", first="    ! ", indent="      ")


def _nothing(state: SessionState, out: Out) -> None:
    out.block(_("Nothing works in the background."), "dim", indent="  ")
    plan = active_plan(state)
    if plan is not None:
        told = _(
            "The plan “{name}” is unfinished ({progress}): /tasks resume goes on with it, /plan shows it.",
            name=safe_line(plan.name),
            progress=planwords.progress(plan),
        )
        out.block(told, "yellow", indent="  ")


def _draw_run(run: RunState, state: SessionState, beside: Beside, since: str | None, out: Out) -> None:
    tasks = state.tasks.get(run.plan_step or run.id, ())
    plan = next((plan for plan in state.plans.values() if plan.run == run.id), None)
    now = [safe_line(action.summary or action.operation, exact=True) for action in run.open_actions.values()]
    paused = is_paused(state, run)
    parts = (
        run.id,
        beside.name(run.id),
        planwords.progress(plan) if plan is not None and not run.plan_step else "",
        _place(tasks),
        figures.seconds(_passed(since), whole=True) if since else "",
        _("paused") if paused else listed(now),
        _("your decision") if run.escalated else "",
    )
    out.block(figures.joined(parts), "yellow" if paused or run.escalated else "bold", indent="    ", first="  ")
    for task in tasks:
        _draw_task(task, out)


def _place(tasks: Sequence[Task]) -> str:
    """ "task 2 of 3": the one under way, or the next."""
    if not tasks:
        return ""
    ended = sum(task.status in ("completed", "failed") for task in tasks)
    return _("task {n} of {total}", n=min(ended + 1, len(tasks)), total=len(tasks))


def _draw_task(task: Task, out: Out) -> None:
    named = ("path", "from", "command", "query", "pattern", "question", "goal", "name", "step_id")
    target = next((str(task.args[key]) for key in named if isinstance(task.args.get(key), str)), "")
    line = figures.joined((f"{task.id} {safe_line(task.operation)}", safe_line(target[:HIDDEN], exact=True)))
    why = planwords.reason(task.error) if task.status == "failed" else ""
    told = f"{line} ✗ {why}" if why else line
    out.block(told, planwords.style(task.status), first=f"    {planwords.mark(task.status)} ", indent="      ")


def began(events: Iterable[ev.Event]) -> dict[str, str]:
    """When each run last began to work: at its start, or when it went on."""
    found: dict[str, str] = {}
    for event in events:
        body = event.body
        if isinstance(body, ev.RunStarted | ev.RunDetached) or (isinstance(body, ev.RunPaused) and not body.paused):
            found[event.run or ""] = event.at
    return found


def _passed(at: str) -> int:
    """Milliseconds since then."""
    try:
        return max(0, int((datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds() * 1000))
    except (ValueError, TypeError):
        return 0


# --- acting on them -------------------------------------------------------------------------------------------------


def find_run(state: SessionState, wanted: str) -> str | None:
    """A run of the background by its id, or by the name of its step."""
    beside, key = Beside(state), wanted.strip().casefold()
    fits = [run.id for run in working(state) if key in (run.id.casefold(), beside.name(run.id).casefold())]
    return fits[-1] if fits else None


def act_on_tasks(state: SessionState, chat: Chat, argument: str, out: Out) -> None:
    """`pause`, `resume` or `stop`, of one run or of everything. What comes of it is told when it happens."""
    word, _space, name = argument.partition(" ")
    acts = {
        "pause": (chat.pause, "", _("There is nothing to pause.")),
        "resume": (chat.go_on, "", _("There is nothing to go on with.")),
        "stop": (chat.stop_background, _("stopping"), _("There is nothing to stop.")),
    }
    if word not in acts:
        told = _("/tasks knows open, pause, resume and stop, not {word}.", word=safe_line(word))
        out.block(told, "yellow", indent="  ")
        return
    run = find_run(state, name) if name else None
    if name and run is None:
        out.block(_("No background work is called {name}.", name=safe_line(name)), "yellow", indent="  ")
        return
    act, begun, nothing = acts[word]
    if not act(run):
        out.block(nothing, "yellow", indent="  ")
    elif begun:  # what is under way may take a moment
        out.block(begun, "dim", indent="  ")
