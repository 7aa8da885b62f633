"""The shape of an operation: one description gives its prompt line, schema, validation, preview and effect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from duckflow.record import NOTHING, Record
from duckflow.safety.change import Change, Effect
from duckflow.safety.paths import Workspace


class Args(BaseModel):
    """Arguments of an operation. Unknown ones are errors: a misspelt argument must not be ignored."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True, populate_by_name=True)


def _without_end(text: str) -> str:
    """A block always ends with a line end; where one line is meant it is not part of the value."""
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


OneLine = Annotated[str, AfterValidator(_without_end)]
PathText = OneLine  # what else a path may not hold, Workspace.locate says

A = TypeVar("A", bound=Args)


class ToolResult(Record):
    """What came of an action. Failures are values too: `ok=False` with an error the model can act on."""

    ok: bool
    text: str = ""  # what the model reads; numbered lines where a file was read
    head: tuple[str, ...] = ()  # facts for the header of the result: "exit 1", "2.2 s", "utf-8 LF"
    error: str = ""
    exit_code: int | None = None
    changed: tuple[str, ...] = ()
    kind: str = ""  # of evidence: read | change | command; empty: none
    facts: Mapping[str, Any] = NOTHING  # machine-made facts for the evidence
    output: str = ""  # the whole output, kept under its out: name; empty: there is none to read again
    first_line: int | None = None  # of numbered text, so that a cut can name the lines it shows


def failed(error: str, text: str = "") -> ToolResult:
    return ToolResult(ok=False, error=error, text=text)


class Context(Record):
    """What a tool may use. Ports to the rest of the program are functions: tools import none of it."""

    workspace: Workspace
    overlay: Mapping[str, bytes | None] = NOTHING  # changes of this batch not yet written
    seen: Mapping[str, str] = NOTHING  # path → content hash when this run last read it
    output: Callable[[str], str | None] = lambda name: None  # the text behind out:NAME
    on_output: Callable[[str], None] | None = None  # live output of a command
    env: Mapping[str, str] = NOTHING  # the user's; children get an allow-list of it
    hidden: Callable[[str], bool] = lambda path: False  # files a search leaves out (gate.hidden_by)
    work: Callable[[Args, str], Awaitable[ToolResult]] | None = None  # plans and background work: the engine does it


class Operation(Record, Generic[A]):
    """`prepare` says what would happen and touches nothing; `run` does exactly that. Failures are values."""

    name: str
    args: type[A]
    effect: Effect
    line: str  # what the model reads beside the arguments, one line
    prepare: Callable[[A, Context], Awaitable[Change | ToolResult]]
    run: Callable[[A, Change, Context], Awaitable[ToolResult]]
    usage: str = ""  # the arguments as the model should see them, where the field names alone mislead

    def prompt_line(self) -> str:
        names = [(f.alias or name) + ("" if f.is_required() else "?") for name, f in self.args.model_fields.items()]
        usage = self.usage or f"{{{', '.join(names)}}}"
        return f"{self.name} {usage}" + (f"  {self.line}" if self.line else "")


class Registry:
    """The operations on offer, in a fixed order: the prompt must be the same bytes for every node and mode."""

    def __init__(self, operations: tuple[Operation[Any], ...]) -> None:
        self._by_name = {operation.name: operation for operation in operations}

    def get(self, name: str) -> Operation[Any] | None:
        return self._by_name.get(name)

    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def prompt(self) -> str:
        return "\n".join(operation.prompt_line() for operation in self._by_name.values())

    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments, by operation."""
        return {name: operation.args.model_json_schema() for name, operation in self._by_name.items()}


def read_args(operation: Operation[A], raw: Mapping[str, Any]) -> A | ToolResult:
    """The typed arguments, or a failure that names each wrong one."""
    try:
        return operation.args.model_validate(dict(raw))
    except ValidationError as error:
        lines = [f"{'.'.join(str(p) for p in item['loc']) or 'args'}: {item['msg']}" for item in error.errors()]
        expected = operation.prompt_line().split("  ")[0]
        return failed(f"wrong arguments: {'; '.join(lines)}. Expected: {expected}")
