"""Every command ends here: the parts are put together, run, and closed."""

from duckflow.app.looking import audit, doctor, sessions, settings
from duckflow.app.opening import Options
from duckflow.app.working import chat, demo, resume, run

__all__ = ["Options", "audit", "chat", "demo", "doctor", "resume", "run", "sessions", "settings"]
