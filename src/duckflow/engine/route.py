"""Where a Decision leads: a pure function. It reads what was said and what has happened; it does nothing."""

from __future__ import annotations

import re
from enum import StrEnum

from duckflow.prompts.replies import Decision, says
from duckflow.record import Record

MOST_NUDGES = 2


class Route(StrEnum):
    OBJECT = "object"  # the model says itself that it does not fit: ask the person
    ASK = "ask"
    CLARIFY = "clarify"  # an effect on a shaky understanding: one question first
    TARGET = "target"  # work was asked for and nothing says where: the smallest start, and one question
    ACT = "act"
    ANSWER = "answer"  # the reply is all there is to do
    JUDGE = "judge"
    NUDGE = "nudge"  # words instead of an action: back to the model
    WAIT = "wait"
    PARK = "park"


class Situation(Record):
    """What has happened so far in the objective, as far as it matters here."""

    profile: str = "unknown"
    requirements: int = 0
    evidence: bool = False  # anything was read or done for the objective
    acted: bool = False  # the workspace was changed for this objective
    changed: bool = False  # the workspace changed in this session
    strange: bool = False  # the reply names files, and none of them was changed in this session
    gathering: bool = False  # the Decision came while the request is being understood
    acts: bool = False  # the Decision proposes an effect
    questions: int = 0  # asked so far in this run
    unsure: bool = False  # the model said itself that it hardly understood, or not what kind of request it is
    sure: bool = False  # it understood well enough to answer without a verdict
    attended: bool = False  # somebody is there who could say what is meant
    targets: bool = False  # something says where the work is to be done
    refused: bool = False  # nobody could allow what was tried: more words would not help
    nudges: int = 0


def route(decision: Decision, now: Situation) -> Route:
    if decision.actions and "no" in (says(decision.goal_consistency), says(decision.constraint_check)):
        return Route.OBJECT
    if decision.question is not None:
        return Route.ASK
    if now.acts and now.gathering and now.unsure and not now.questions:
        return Route.CLARIFY  # unknown, or hardly understood: the smallest step, and only after a yes
    if decision.actions:
        return Route.ACT
    if decision.information_needs and now.gathering and now.profile != "guidance":
        return Route.ACT
    if decision.next_step in ("defer", "pending_user"):
        if _claims_too_much(decision.reply, now):
            return _nudge(now)
        return Route.PARK if decision.next_step == "defer" else Route.WAIT
    if decision.next_step == "continue":
        return _nudge(now)
    return _without_actions(decision, now)


def _without_actions(decision: Decision, now: Situation) -> Route:
    """`done` (or nothing said) and no action: an answer, something to judge, or words instead of work."""
    talks = now.profile in ("guidance", "analysis")
    if not decision.reply.strip():
        return Route.JUDGE if now.evidence and not talks else _nudge(now)
    if talks and (_claims_too_much(decision.reply, now) or announces_work(decision.reply)):
        return _nudge(now)
    if now.profile == "guidance":
        return Route.ANSWER
    if now.profile == "analysis":
        simple = now.requirements <= 1 and now.sure and not (now.acted or now.refused)
        return Route.ANSWER if simple and now.evidence else Route.JUDGE if now.evidence else _nudge(now)
    if now.evidence:
        return Route.JUDGE
    where = _nudge(now)
    lost = not (now.targets or now.questions or now.refused)
    return Route.TARGET if where is Route.JUDGE and now.attended and lost else where


def _claims_too_much(reply: str, now: Situation) -> bool:
    """A claim of work that this request did not do. One that survives a nudge may speak of earlier work."""
    earlier = now.nudges > 0 and now.changed and not now.strange
    return claims_change(reply) and not now.acted and not earlier


def effective_profile(said: str | None, known: str, proposed: str) -> str:
    """The kind of request after what was proposed: no word makes work that changes files into a mere answer."""
    profile = said or known
    void = {"": (), "command": ("guidance",), "files": ("guidance", "analysis", "unknown")}[proposed]
    if profile not in void:
        return profile
    return known if known not in void and known != "unknown" else "modification"


def _nudge(now: Situation) -> Route:
    return Route.NUDGE if now.nudges < MOST_NUDGES and not now.refused else Route.JUDGE


_DID = (
    "created|written|wrote|added|updated|fixed|changed|edited|modified|deleted|removed|renamed|moved|implemented|"
    "installed|saved|refactored|replaced|rewrote|rewritten"
)
_CLAIMS = (  # as text: compiled when the first reply comes
    rf"(?im)\b(?:i|we)(?:['’]ve| have)?\s+(?:just\s+|now\s+|also\s+|successfully\s+|already\s+)*(?:{_DID})\b"
    rf"|\b(?:has|have) been (?:now |successfully )?(?:{_DID})\b"
    rf"|\b(?:is|are) now (?:{_DID}|ready|done|complete|in place)\b"
    rf"|(?:^|[.!?]\s+)(?:✅\s*)?(?:successfully )?(?:{_DID})\s+(?!(?:in|by|on|when|to|with|via|from|since|at|as)\b)\S"
    r"|(?:^|[.!?]\s+)(?:✅\s*)?(?:all |it['’]s (?:all )?|it is |everything is )?(?:done|finished|completed)"
    r"\s*(?:[.!,:]|$)"
    r"|(?:作成|追加|修正|変更|更新|削除|実装|保存|移動|編集|追記|改名|置換|インストール)"
    r"(?:(?:し|いたし|しておき|でき)ました|済み|が?完了)"
    r"|(?:用意|対応|設定|適用|反映|生成|完了|完成)(?:し|いたし|しておき)ました"
    r"|(?:作り|直し|書き|書き換え|書き直し|書き込み|消し|置き換え|作って|直して|書いて)(?:おき)?ました"
    r"|(?:^|[。！!])\s*でき(?:上がり)?ました"
)


def claims_change(text: str) -> bool:
    """Does the text say that something was changed? Code blocks and quotations do not count."""
    prose = re.sub(r"```.*?```|`[^`]*`|^>.*$|「[^」]*」|“[^”]*”", " x ", text, flags=re.S | re.M)
    return bool(re.search(_CLAIMS, prose))


_ANNOUNCES = (
    r"(?i)\b(?:i(?:'ll|'m going to| will| shall| am going to)|let me|we(?:'ll| will))\s+"
    r"(?:now\s+|first\s+|then\s+|also\s+)*"
    r"(?:fix|change|create|write|add|update|edit|modify|delete|remove|rename|move|implement|install|refactor|replace|"
    r"run|read|look|check|start|begin|investigate|search|analy[sz]e|examine|open|inspect|review)\b"
    r"|(?:修正|作成|追加|変更|更新|削除|実装|確認|調査|実行|編集|移動|検索)(?:します|いたします|していきます|してみます)"
    r"|(?:直し|作り|書き換え|書き直し|調べ|読み|見てみ|取り掛かり|始め)ます"
)
ANNOUNCEMENT = 300
"""Characters up to which a reply that speaks of coming work is taken for nothing but its announcement."""


def announces_work(text: str) -> bool:
    """Is this only the announcement of work ("I will fix it", 「これから直します」)? Long answers are answers."""
    prose = text.strip()
    return len(prose) <= ANNOUNCEMENT and "```" not in prose and bool(re.search(_ANNOUNCES, prose))
