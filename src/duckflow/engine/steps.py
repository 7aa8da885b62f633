"""One line of background work: its tasks first, then Decisions, until its proof is there or it has to give up."""

from __future__ import annotations

from collections.abc import Sequence

from duckflow import events as ev
from duckflow.engine.clarify import ask
from duckflow.engine.entering import hear, said_so_far
from duckflow.engine.execute import execute
from duckflow.engine.gather import Gathered
from duckflow.engine.kit import Ending, Kit, NoWayOn
from duckflow.engine.ledger import Outcome
from duckflow.engine.planning import make_tasks, record_tasks, target
from duckflow.engine.proving import GaveUp, proof, recorded, tell
from duckflow.engine.record import as_result, record_results
from duckflow.engine.reporting import claims_success
from duckflow.engine.understand import begin_node, decide
from duckflow.errors import ReplyUnreadable, TurnLimit
from duckflow.i18n import explain
from duckflow.prompts.replies import Action, Decision, Question
from duckflow.prompts.results import entry
from duckflow.record import Record
from duckflow.safety.change import Effect
from duckflow.state.machine import Status, Step, Trigger
from duckflow.state.plan import Plan, PlanStep, Task

MOST_FILES = 8
SHARED_CARD = 6
SPOKEN = "the person said something meanwhile: see to it first"


class Assignment(Record):
    """What a background run is to do: a plan step, or a loose list of tasks."""

    goal: str
    plan: Plan | None = None
    step: PlanStep | None = None
    actions: tuple[Action, ...] = ()

    @property
    def done_when(self) -> tuple[str, ...]:
        return self.step.done_when if self.step else ()


async def carry_out(kit: Kit, run: str, work: Assignment) -> str:
    """Do it. Empty: proved; otherwise what stands in the way."""
    try:
        return await _carried_out(kit, run, work)
    except NoWayOn as missing:
        return f"the transition table of this project has no row {missing}"
    except GaveUp as end:
        return str(end)
    except TurnLimit as limit:
        return explain(limit)[0]


async def _carried_out(kit: Kit, run: str, work: Assignment) -> str:
    """Its tasks, then its proof; Decisions whenever something is missing. It fails with its last failing proof."""
    if kit.session.run(run).step is Step.DONE:
        return ""  # it was proved; a kill came before that was said
    await _begin(kit, run, work)
    tasks = await _tasks(kit, run, work)
    if kit.session.run(run).step is not Step.EXECUTION:
        kit.advance(run, Trigger.DECISION, Step.EXECUTION)
    missing = await _run_tasks(kit, run, tasks)
    for _attempt in range(kit.settings.objective.max_attempts):
        if missing:
            await _decide_on(kit, run, missing)
        missing = await proof(kit, run, work.step)
        while not missing and kit.steering.get(run):  # said while it was being proved
            await _decide_on(kit, run, SPOKEN)
            missing = await proof(kit, run, work.step)
        if not missing:
            return ""
    return missing


async def _begin(kit: Kit, run: str, work: Assignment) -> None:
    """A new run gets its brief; one that was left hears what was said meanwhile, and asks again what it had asked."""
    session, mine = kit.session, kit.session.run(run)
    if mine.step is None:
        session.move(run, Trigger.MESSAGE, Step.PLANNING, Status.IN_PROGRESS)
    elif mine.step is Step.AWAITING_APPROVAL:
        kit.advance(run, Trigger.MESSAGE, Step.PLANNING)
    else:
        session.move(run, Trigger.MESSAGE, status=Status.IN_PROGRESS)
    if not any(e.kind in ("message", "summary") for e in session.state.threads.get(mine.thread, ())):
        await _brief(kit, run, work)
    hear(kit, run)
    asked = mine.question
    if asked is not None and kit.attended:
        question = Question(text=asked.text, options=list(asked.options), default=asked.default)
        ending = await ask(kit, run, question, by=asked.by)
        if ending is not None:
            raise GaveUp(_last_words(ending))


async def _brief(kit: Kit, run: str, work: Assignment) -> None:
    """The first entry of its history: plan, step, constraints, and the files of earlier steps as they are now."""
    session, mine = kit.session, kit.session.run(run)
    parent = session.run(mine.parent) if mine.parent else mine
    paths = _earlier_files(kit, work)
    reads = [Action(operation="file_ops.read_file", args={"path": p}, reasoning="of an earlier step") for p in paths]
    outcomes = await kit.dispatcher.batch(run, reads) if reads else []
    plan, step = session.state.plans[work.plan.id] if work.plan else None, work.step
    objective = session.objective(run)
    text = kit.prompts.library.render(
        "brief",
        request=parent.request,
        goal=work.goal,
        plan=plan.name if plan else "",
        steps=[f"{s.id} {s.name} ({s.status}): {s.description}" for s in plan.steps] if plan else [],
        step=f"{step.id} {step.name}" if step else "",
        description=step.description if step else "",
        files=", ".join(step.files) if step else "",
        commands=", ".join(step.commands) if step else "",
        done_when=list(work.done_when),
        constraints=list(parent.agent.constraints),
        requirements=[f"{r.id} {r.text}" for r in objective.requirements] if objective else [],
        said=said_so_far(parent),
    )
    if outcomes:
        profile = kit.prompts.profile
        text += "\n\n" + entry([as_result(o) for o in outcomes], [], profile.result, profile.history // 2)[0]
    session.append(
        ev.HistoryAdded(thread=mine.thread, role="user", kind="message", text=text),
        ev.AgentChanged(changes={"goal": work.goal[:200], "constraints": parent.agent.constraints}),
        run=run,
    )


def _earlier_files(kit: Kit, work: Assignment) -> list[str]:
    """Files changed by the steps this one builds on, and the files it names itself, as far as they exist."""
    from duckflow.engine.mentions import is_readable

    if work.plan is None or work.step is None:
        return []
    before, wanted = set(work.step.depends_on), list(work.step.depends_on)
    while wanted:
        step = work.plan.step(wanted.pop())
        more = [i for i in (step.depends_on if step else ()) if i not in before]
        before.update(more)
        wanted += more
    runs = [r for r in kit.session.state.runs.values() if r.plan_step in before]
    changed = [path for r in runs for path in r.changed]
    own = [path for path in work.step.files if "*" not in path]
    return [p for p in dict.fromkeys((*changed, *own)) if is_readable(kit, p)][:MOST_FILES]


async def _tasks(kit: Kit, run: str, work: Assignment) -> list[tuple[Task, Action]]:
    """Its tasks that are still to be done: known already, or asked for now."""
    key = work.step.id if work.step else run
    known = kit.session.state.tasks.get(key, ())
    if known:  # one that was under way when everything stopped left no outcome: it was not done
        return [(task, _again(task)) for task in known if task.status in ("pending", "in_progress")]
    if work.step is None or work.plan is None:
        return record_tasks(kit, run, work.actions)
    try:
        return await make_tasks(kit, run, work.plan, work.step)
    except ReplyUnreadable:
        return []  # it is worked on freely


def _again(task: Task) -> Action:
    return Action(operation=task.operation, args=dict(task.args), reasoning=task.reasoning or "a task of the plan")


async def _run_tasks(kit: Kit, run: str, tasks: Sequence[tuple[Task, Action]]) -> str:
    """One after another, neighbouring file effects on one card. Stops at the first that does not succeed."""
    failed_before = [t for t in recorded(kit, run) if t.status == "failed"]
    if failed_before:
        return f"task {failed_before[0].id} failed: {failed_before[0].error}"
    spoiled = next((task for task, _action in tasks if not task.intact), None)
    waiting = [pair for pair in tasks if pair[0].intact] if spoiled is None else []
    done: list[Outcome] = []
    while waiting:
        group = _group(kit, waiting)
        waiting = waiting[len(group) :]
        await kit.background.unless_paused(run)
        done += await _run_group(kit, run, group)
        if any(outcome.state != "ok" for outcome in done):
            break
    now = {task.id for task, _action in tasks}
    before = [t for t in recorded(kit, run) if t.id not in now]
    notes = [f"done before the work was interrupted: {t.operation} {target(t.args)}" for t in before]
    notes += [f"not run: {task.operation}" for task, _action in waiting]
    record_results(kit, run, done, notes)
    wrong = next((o for o in done if o.state != "ok"), None)
    if wrong is not None:
        return f"{wrong.operation} {wrong.target}: {wrong.result.error}"
    if spoiled is not None:
        return f"task {spoiled.id} held a secret that is not kept; do it again without one"
    if kit.steering.get(run):
        return SPOKEN
    return "" if tasks or recorded(kit, run) else "no task was known in advance: work on the step now"


def _group(kit: Kit, waiting: Sequence[tuple[Task, Action]]) -> list[tuple[Task, Action]]:
    if kit.dispatcher.effect_of(waiting[0][1]) is not Effect.FILES:
        return list(waiting[:1])
    count = 0
    while count < min(len(waiting), SHARED_CARD) and kit.dispatcher.effect_of(waiting[count][1]) is Effect.FILES:
        count += 1
    return list(waiting[:count])


async def _run_group(kit: Kit, run: str, group: Sequence[tuple[Task, Action]]) -> list[Outcome]:
    session = kit.session
    names = [session.new_id("A") for _ in group]
    for (task, _action), name in zip(group, names, strict=True):
        tell(kit, run, task, "in_progress", name)
    outcomes = await kit.dispatcher.batch(run, [action for _task, action in group], ids=names)
    for (task, _action), outcome in zip(group, outcomes, strict=True):
        error = "" if outcome.state == "ok" else f"{outcome.state}: {outcome.result.error}"
        tell(kit, run, task, "completed" if outcome.state == "ok" else "failed", outcome.action, error)
    return outcomes


async def _decide_on(kit: Kit, run: str, missing: str) -> None:
    """What tasks could not do, Decisions do, with the results in view."""
    session = kit.session
    note = f"The step is not done yet: {missing}"
    session.append(ev.HistoryAdded(thread=session.run(run).thread, role="user", kind="note", text=note), run=run)
    begin_node(kit, run, "execute")
    settled: object = Ending("asked")
    while isinstance(settled, Ending):
        settled = await decide(kit, run, "execute")
        if isinstance(settled, Decision):
            settled = await execute(kit, run, Gathered(settled, (), tuple(settled.actions)))
        if isinstance(settled, Ending):
            await _answered(kit, run, settled)


async def _answered(kit: Kit, run: str, ending: Ending) -> None:
    """A step does not end with words: what it wants to know goes to the person; anything else is giving up."""
    if ending.error is not None:
        raise ending.error
    if ending.status != "asked" or not kit.attended or not ending.reply.strip():
        raise GaveUp(_last_words(ending))
    await ask(kit, run, Question(text=ending.reply))


def _last_words(ending: Ending) -> str:
    """Why it gave up. Words that claim success have no place in a failure."""
    said = " ".join(ending.reply.split())[:200]
    known = {
        "deferred": "the model put it off",
        "escalated": "it could not go on",
        "cancelled": "the person stopped it",
    }
    why = known.get(ending.status, "it gave up without a proof")
    return f"{why}: {said}" if said and not claims_success(said) else why
