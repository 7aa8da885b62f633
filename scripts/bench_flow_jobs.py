"""The ten jobs of the flow comparison: one project, what is asked of it, and what a model says in either flow.

Both flows are given the same actions with the same texts (the constants below); only how they are asked for differs.
`ours` is the script of the real engine: Decisions in order, and a `Judged` where the evaluator is asked. `loops` is the
script of the old flow: one pass over its nodes each, as brief as a node can be. Both scripts are those of a model that
makes no mistake but the one the job is about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.engine.workbench import decision

Json = dict[str, Any]

PROJECT = {
    "README.md": """# Shop

Carts, prices and reports for a small shop. Amounts are counted in cents; only reports show them with a point.

## Use

    from shop.cart import Cart

    cart = Cart()
    cart.add("tea", 450)
    print(cart.subtotal())

## Tests

    sh tests/total.sh
""",
    "pyproject.toml": '[project]\nname = "shop"\nversion = "0.1.0"\ndescription = "Carts and prices"\n',
    "shop/__init__.py": "",
    "shop/cart.py": '''"""A cart: lines of goods and what they come to."""


class Cart:
    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []

    def add(self, what: str, cents: int) -> None:
        self.lines.append((what, cents))

    def subtotal(self) -> int:
        return sum(cents for _, cents in self.lines)
''',
    "shop/price.py": '''"""Prices: discounts and their rounding."""

from shop.cart import Cart


def discounted(cart: Cart, percent: int) -> int:
    """What is left to pay, in whole cents."""
    return round(cart.subtotal() * (100 - percent) / 100)
''',
    "shop/report.py": '''"""Reports: a cart as lines of text."""

from shop.cart import Cart


def report(cart: Cart) -> str:
    rows = [f"{what:<20}{cents / 100:>8.2f}" for what, cents in cart.lines]
    return "\\n".join([*rows, f"{'sum':<20}{cart.subtotal() / 100:>8.2f}"])
''',
    "bin/total.sh": """#!/bin/sh
# Adds the cents given as arguments and prints them as an amount.
sum=0
for cents in "$@"; do
    sum=$((sum + cents))
done
printf '%d.%d\\n' $((sum / 100)) $((sum % 100))
""",
    "tests/total.sh": """#!/bin/sh
got=$(sh bin/total.sh 100 5)
[ "$got" = 1.05 ] || { echo "total of 100 and 5: expected 1.05, got $got"; exit 1; }
echo "1 passed"
""",
}


@dataclass(frozen=True)
class Judged:
    """What the evaluator says: a score for every requirement, and what is missing."""

    score: float = 1.0
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Loop:
    """One pass over the old nodes. Without effects there is nothing to assess, approve or execute."""

    thought: str
    plan: tuple[str, ...]
    told: str  # what the person or the next loop reads after the results were confirmed
    complete: bool = True
    reads: tuple[Json, ...] = ()
    effects: tuple[Json, ...] = ()
    blocks: str = ""
    risk: str = ""
    question: str = ""
    cause: str = ""  # of a failure
    fix: str = ""


@dataclass(frozen=True)
class Job:
    name: str
    message: str
    ours: tuple[str | Judged, ...]
    loops: tuple[Loop, ...]


def do(operation: str, why: str, **args: Any) -> Json:
    return {"operation": operation, "args": args, "reasoning": why}


def read(path: str, why: str = "see what is there") -> Json:
    return do("file_ops.read_file", why, path=path)


def edit(path: str, search: str, replace: str, why: str) -> Json:
    return do("file_ops.edit_file", why, path=path, search=search, replace=replace)


def said(why: str, *actions: Json, blocks: str = "", goal: str = "", **fields: Any) -> str:
    """A Decision with all that the contract wants."""
    delta = {"goal": goal} if goal else None
    checks = {"goal_consistency": "yes: it is the request", "constraint_check": "yes: nothing else changes"}
    return decision(*actions, blocks=blocks, rationale=why, state_delta=delta, **checks, **fields)


def begin(profile: str, *requirements: str | Json) -> Json:
    """What the first Decision of a job says beside its actions."""
    return {"profile": profile, "confidence": 0.9, "requirements": list(requirements)}


# fmt: off
def _guidance() -> Job:
    answer = "Keep a **list**: the order of the lines matters on a receipt, and the same goods may stand there twice."
    return Job(
        "guidance question",
        "Should the lines of a cart be a list or a dict?",
        (said("a question of design", profile="guidance", confidence=0.9, next_step="done", actions=[], reply=answer),),
        (Loop("A question about design, nothing to do.", ("answer it",), answer),),
    )


def _answer() -> Job:
    look = read("shop/price.py", "discounts are computed there")
    answer = "`discounted` uses Python's `round`: half a cent goes to the even neighbour, in one place at the end."
    first = said("look first", look, **begin("analysis", "says how a discount is rounded"), goal="explain the rounding")
    last = said("the file answers it", profile="analysis", confidence=0.95, next_step="done", actions=[], reply=answer)
    loop = Loop("They want to know how discounts are rounded.", ("read the prices", "answer"), answer, reads=(look,))
    return Job("read a file and answer", "How is a discount rounded?", (first, last), (loop,))


def _create() -> Job:
    text = "# Changes\n\n## 0.1.0\n\n- Carts, discounts and reports.\n"
    write = do("file_ops.write_file", "create it as asked", path="CHANGELOG.md", content={"block": "LOG"})
    blocks, told = f"<<<LOG\n{text}LOG>>>", "`CHANGELOG.md` is there, with an entry for 0.1.0."
    first = said("a new file", write, blocks=blocks, next_step="done", goal="a change log", reply=told,
                 **begin("creation", "CHANGELOG.md has an entry for 0.1.0"))
    loop = Loop("They want a change log with a first entry.", ("write CHANGELOG.md",), told, effects=(write,),
                blocks=blocks, risk="a new file, nothing is overwritten", question="May I create CHANGELOG.md?")
    return Job("create a small file", "Create a change log with an entry for 0.1.0.", (first, Judged()), (loop,))


def _edit() -> Job:
    look = read("shop/cart.py", "lines are added there")
    guard = '        if cents < 0:\n            raise ValueError(f"{what}: a negative amount")\n'
    line = "        self.lines.append((what, cents))\n"
    change = edit("shop/cart.py", line, guard + line, "refuse before the line is added")
    told = "`Cart.add` refuses negative amounts with a `ValueError`."
    first = said("read before editing", look, next_step="continue", goal="no negative amounts",
                 **begin("modification", "Cart.add refuses negative amounts"))
    loop = Loop("Carts should refuse negative amounts.", ("read the cart", "check in add"), told, reads=(look,),
                effects=(change,), risk="one method of one file; callers with negative amounts will now fail",
                question="May I let Cart.add in shop/cart.py refuse negative amounts?")
    last = said("the place is clear", change, next_step="done", reply=told)
    return Job("edit one file (read first)", "Let a cart refuse negative amounts.", (first, last, Judged()), (loop,))


def _named() -> Job:
    old = "    return round(cart.subtotal() * (100 - percent) / 100)\n"
    new = "    return (cart.subtotal() * (100 - percent) + 50) // 100\n"
    change = edit("shop/price.py", old, new, "half a cent goes up, in whole numbers")
    told = "`discounted` rounds half a cent up now, without floating point."
    only = said("the file is here and the change is small", change, next_step="done", goal="round half up", reply=told,
                **begin("modification", "discounted rounds half a cent up"))
    loop = Loop("The rounding of discounts should be half up.", ("read the prices", "change the rounding"), told,
                reads=(read("shop/price.py"),), effects=(change,), risk="amounts may change by one cent",
                question="May I change the rounding in shop/price.py?")
    return Job("edit a file named in the message", "In shop/price.py, round half a cent up.", (only, Judged()), (loop,))


def _failing_test() -> Job:
    looks = (read("tests/total.sh", "what is expected"), read("bin/total.sh", "what is done"))
    run = do("shell.run", "see it fail, or pass", command="sh tests/total.sh")
    change = edit("bin/total.sh", "'%d.%d\\n'", "'%d.%02d\\n'", "two digits of cents")
    told = "The test passes: cents below ten were printed with one digit."
    first = said("see the failure first", *looks, run, next_step="continue", goal="the test of the total passes",
                 **begin("modification", {"text": "the test of the total passes", "check": "sh tests/total.sh"}))
    last = said("cents need two digits", change, run, next_step="done", reply=told)
    see = Loop("The test of the total fails; see how.", ("read test and script", "run the test"),
               "The test fails: 1.05 was expected.", complete=False, reads=looks, effects=(run,),
               risk="runs the project's own test", question="May I run sh tests/total.sh?",
               cause="cents below ten are printed with one digit", fix="print them with %02d")
    fix = Loop("Print cents with two digits.", ("edit bin/total.sh", "run the test"), told, effects=(change, run),
               risk="one format string, then the project's own test",
               question="May I change the format in bin/total.sh and run sh tests/total.sh?")
    return Job("fix a failing test", "The test of the total fails. Fix it.", (first, last, Judged()), (see, fix))


def _rename() -> Job:
    paths = ("shop/cart.py", "shop/price.py", "shop/report.py")
    looks = (do("search.text", "every use", query="subtotal"), *(read(path, "it may use the name") for path in paths))
    changes = tuple(edit(path, "subtotal()", "net_total()", "the new name") for path in paths[1:])
    changes = (edit(paths[0], "def subtotal(self)", "def net_total(self)", "the new name"), *changes)
    told = "`subtotal` is called `net_total` in the cart, the prices and the reports."
    first = said("find every use", *looks, next_step="continue", goal="subtotal becomes net_total",
                 **begin("modification", "no code of the package uses the name subtotal"))
    last = said("three places", *changes, next_step="done", reply=told)
    loop = Loop("A method gets a new name in the whole package.", ("find all uses", "rename in three files"), told,
                reads=looks, effects=changes, risk="three files; callers outside the package would break",
                question="May I rename subtotal to net_total in three files of shop/?")
    message = "Rename the method subtotal to net_total in the package."
    return Job("multi-file rename (3 files)", message, (first, last, Judged()), (loop,))


def _japanese() -> Job:
    text = """# ショップ

小さな店のためのカート、価格、レポートです。金額はセント単位で数え、小数点が付くのはレポートだけです。

## 使い方

    from shop.cart import Cart

    cart = Cart()
    cart.add("tea", 450)
    print(cart.subtotal())

## テスト

    sh tests/total.sh
"""
    write = do("file_ops.write_file", "全体を日本語にする", path="README.md", content={"block": "README"})
    blocks, told = f"<<<README\n{text}README>>>", "README.md は日本語になりました。コード例はそのままです。"
    only = said("内容は見えている", write, blocks=blocks, next_step="done", goal="README を日本語にする", reply=told,
                **begin("modification", "README.md の本文が日本語である", "コード例は変わらない"))
    loop = Loop("README を日本語に書き直す依頼。", ("README.md を読む", "日本語で書き直す"), told,
                reads=(read("README.md"),), effects=(write,), blocks=blocks, risk="文書一つ。コードは変わらない",
                question="README.md を日本語に書き直してよいですか。")
    return Job("Japanese rewrite of README", "README.md を日本語に書き直して。", (only, Judged()), (loop,))


def _fails_once() -> Job:
    wrong = edit("pyproject.toml", "version='0.1.0'", "version='0.2.0'", "the new version")
    right = edit("pyproject.toml", 'version = "0.1.0"', 'version = "0.2.0"', "quoted as it stands there")
    told = "The version is 0.2.0."
    first = said("one line", wrong, next_step="done", goal="version 0.2.0", reply=told,
                 **begin("modification", "the version in pyproject.toml is 0.2.0"))
    last = said("the search text was not exact", right, next_step="done", reply=told)
    risk, question = "one line of the project file", "May I set the version in pyproject.toml to 0.2.0?"
    miss = Loop("They want a new version number.", ("read pyproject.toml", "edit the version"), "Nothing was changed.",
                complete=False, reads=(read("pyproject.toml"),), effects=(wrong,), risk=risk, question=question,
                cause="the search text has other quotes than the file", fix="quote the line as it stands")
    hit = Loop("Edit with the exact text.", ("edit the version",), told, effects=(right,), risk=risk, question=question)
    message = "Set the version in pyproject.toml to 0.2.0."
    return Job("an action fails, is corrected", message, (first, last, Judged()), (miss, hit))


def _insufficient() -> Job:
    one = '# Usage\n\n## A cart\n\n    cart = Cart()\n    cart.add("tea", 450)\n'
    two = "\n## A report\n\n    print(report(cart))\n"
    write = do("file_ops.write_file", "write the guide", path="docs/usage.md", content={"block": "GUIDE"})
    add = edit("docs/usage.md", '    cart.add("tea", 450)\n', '    cart.add("tea", 450)\n' + two, "the second example")
    blocks, missing = f"<<<GUIDE\n{one}GUIDE>>>", "only one example is there; a second one is missing"
    told, better = "The guide is there.", "The guide shows a cart and a report."
    first = said("a new file", write, blocks=blocks, next_step="done", goal="a guide with two examples", reply=told,
                 **begin("creation", "docs/usage.md has two examples"))
    again = said("one example is missing", add, next_step="done", strategy="add a report", reply=better)
    short = Loop("They want a guide with two examples.", ("write docs/usage.md",), missing, complete=False,
                 effects=(write,), blocks=blocks, risk="a new file", question="May I create docs/usage.md?")
    full = Loop("Add the missing example.", ("add a report",), better, effects=(add,), risk="adds to a new file",
                question="May I add a second example to docs/usage.md?")
    ours = (first, Judged(0.5, (missing,)), again, Judged())
    return Job("first attempt insufficient", "Write a guide in docs with two examples of use.", ours, (short, full))


JOBS = (_guidance(), _answer(), _create(), _edit(), _named(), _failing_test(), _rename(), _japanese(), _fails_once(),
        _insufficient())
# fmt: on
