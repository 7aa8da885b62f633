"""Wiring: settings, store, session, models and the kit, put together in one place. Runs nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckflow import __version__, config, i18n
from duckflow.errors import N_, CredentialsError
from duckflow.events import SessionStarted, Warned
from duckflow.record import Record, replace
from duckflow.state.journal import Store, workspace_dir
from duckflow.state.machine import project_table
from duckflow.state.session import Session

if TYPE_CHECKING:
    from duckflow.engine.kit import Kit, Parts
    from duckflow.llm.base import Model
    from duckflow.llm.tiers import Models


class Options(Record):
    """What the command line says about every command."""

    cd: Path | None = None
    overrides: config.Overrides = config.Overrides()
    output_format: str = "text"
    verbose: bool = False


class Opened(Record):
    """A workspace with its settings and store, before any session."""

    root: Path
    settings: config.Settings
    store: Store


def open_workspace(options: Options, sample: str = "") -> Opened:
    """Settings first (the language of every later message), then the store."""
    root = workspace_of(options)
    settings = load_settings(options, root, sample)
    return Opened(root, settings, Store(workspace_dir(settings.home, root) / "duckflow.db"))


def workspace_of(options: Options) -> Path:
    from duckflow.safety.paths import Workspace

    return Workspace(options.cd or Path.cwd()).root


def load_settings(options: Options, root: Path, sample: str = "") -> config.Settings:
    loaded = config.load(root, options.overrides, os.environ)
    i18n.set_language(i18n.detect(loaded.lang, os.environ, sample))
    return loaded


def open_session(opened: Opened, session_id: str | None = None, resume: bool = False, fork: bool = False) -> Session:
    from duckflow.safety.secrets import Redactor

    redact = Redactor(os.environ).redact
    table = project_table(opened.root / ".duckflow" / "transitions.toml")
    if fork:
        return Session.fork(opened.store, session_id, redact, table)
    if resume:
        return Session.resume(opened.store, session_id, redact, table)
    settings = opened.settings
    models: dict[str, Any] = {
        tier: [f"{spec.provider}/{spec.model}" for spec in config.resolve_model_chain(settings, tier)]
        for tier in settings.tiers
    }
    started = SessionStarted(
        workspace=str(opened.root),
        version=__version__,
        mode=settings.mode,
        models=models,
        lang=i18n.language(),
    )
    return Session.start(opened.store, started, redact, table)


def build_models(settings: config.Settings, session: Session) -> Models:
    from duckflow.llm.base import LOCAL_LIMITS, Limits
    from duckflow.llm.http import is_loopback
    from duckflow.llm.providers import build
    from duckflow.llm.tally import Tally
    from duckflow.llm.tiers import Models

    if not settings.has_model:
        raise no_model()
    own = settings.limits._asdict()
    patience = {k: own[k] for k in ("first_byte_s", "idle_s", "total_s") if own[k] is not None}
    built: dict[config.ModelSpec, Model] = {}  # one connection for a model that serves several tiers

    def model(spec: config.ModelSpec) -> Model:
        limits = LOCAL_LIMITS if spec.base_url and is_loopback(spec.base_url) else Limits()
        return built.get(spec) or built.setdefault(spec, build(spec, replace(limits, **patience), os.environ))

    chains = {tier: [model(spec) for spec in config.resolve_model_chain(settings, tier)] for tier in settings.tiers}
    spent = Tally(known_usd=session.state.totals.cost_usd)
    return Models(chains, max_cost_usd=settings.limits.max_cost_usd, spent=spent)


def no_model() -> CredentialsError:
    return CredentialsError(
        N_("No model is configured."),
        hint=N_(
            "The three shortest ways to one:\n"
            "1. a key: export ANTHROPIC_API_KEY=…\n"
            "   (or OPENAI_API_KEY, GEMINI_API_KEY, GROQ_API_KEY, …)\n"
            "2. a local model: export OLLAMA_HOST=127.0.0.1:11434\n"
            "   export DUCKFLOW_MODEL=ollama/qwen3-coder\n"
            "3. any other server: [providers.NAME] and [models.main] in\n"
            "   {path}\n"
            "`duckflow demo` shows how it works without any model."
        ),
        path=config.user_file(os.environ),
    )


def build_kit(opened: Opened, session: Session, models: Models, attended: bool) -> Kit:
    from duckflow.engine.kit import Kit
    from duckflow.human import Door
    from duckflow.safety.paths import Workspace

    return Kit(session, Door(), models, opened.settings, Workspace(opened.root), attended, assemble)


def assemble(kit: Kit) -> Parts:
    """Operations, prompts and the dispatcher: what the first message needs."""
    from functools import partial

    from duckflow.engine.approval import Approval
    from duckflow.engine.background import Background
    from duckflow.engine.dispatch import Dispatcher
    from duckflow.engine.kit import Parts
    from duckflow.engine.loops import operate
    from duckflow.prompts.budget import profile
    from duckflow.prompts.layers import Prompts
    from duckflow.prompts.library import Library
    from duckflow.prompts.sections import Limits
    from duckflow.tools.catalogue import core_registry

    settings, registry = kit.settings, core_registry()
    limits = Limits(
        settings.objective.max_attempts,
        settings.limits.max_turns,
        settings.limits.max_cost_usd,
        settings.objective.satisfaction,
    )
    own = config.user_file(os.environ).parent / "templates"
    prompts = Prompts(
        Library(settings.prompts.lang, (own,)),
        profile(settings.prompts.profile, kit.models.window("creative"), None),
        limits,
        settings.prompts.main_max_tokens,
        settings.prompts.specialized_max_tokens,
    )
    approval = Approval(kit.session, kit.door, settings)
    work = partial(operate, kit)
    dispatcher = Dispatcher(kit.session, registry, kit.workspace, approval, os.environ, work)
    return Parts(registry, prompts, dispatcher, approval, Background(kit))


def warnings(opened: Opened) -> list[Warned]:
    """What the user should know before anything starts."""
    _ = i18n._
    found = [
        Warned(code="ignored-setting", message=f"{item.file}: {item.key}: {_(item.reason)}")
        for item in opened.settings.ignored
    ]
    found += [
        Warned(code="unknown-variable", message=_("The variable {name} is not known.", name=name))
        for name in opened.settings.unknown_variables
    ]
    if opened.store.set_aside is not None:
        message = _(
            "The store could not be read. It was set aside, nothing was deleted: {path}",
            path=opened.store.set_aside,
        )
        found.append(Warned(code="store-set-aside", message=message))
    return found
