"""Check: has this process the key of the provider that its model is of?"""

from __future__ import annotations

import os

from flows.secrets import is_reference
from worker.doctor.finding import Finding, ok, warning
from worker.settings import Settings

#: The variables in which each provider's key is looked for: one of them has to be set. Others are not checked.
KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "google-gla": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshotai": ("MOONSHOTAI_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "xai": ("XAI_API_KEY",),
}


def model_key(settings: Settings) -> Finding:
    """Return whether the key is there that requests to the model of the settings need."""
    check = "model"
    if settings.model is None and settings.model_url is None:
        return ok(check, "no model is named here; flows that need one name it themselves, or are not played")
    what = settings.model or "the server at model_url"
    if settings.model_key is not None and is_reference(settings.model_key):
        names: tuple[str, ...] = (settings.model_key.removeprefix("env:"),)
    elif settings.model_url is not None:
        return ok(check, "the models are on a server of your own; it may need no key")
    else:
        names = KEYS.get((settings.model or "").partition(":")[0], ())
    if names and not any(os.environ.get(name, "").strip() for name in names):
        return warning(
            check,
            f"there is no API key for {what}: {' or '.join(names)} is not set here",
            f"Set {names[0]} in the environment of the workers, and start them again; rounds that ask this model fail until then",
        )
    return ok(check, f"the key for {what} is there" if names else f"whether {what} needs a key is not known here")
