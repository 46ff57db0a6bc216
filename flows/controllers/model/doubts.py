"""Models that a worker can ask only with its setting ``model_url``, for `perdure flows check`.

A flow file with the name of such a model is valid: the server at ``model_url`` may know the name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import get_args

from perdure.flows.controllers.model.endpoint import is_of_a_provider
from perdure.flows.controllers.model.setting_keys import ModelKeys
from perdure.flows.controllers.model.settings import SEVERAL, ModelSettings, missing
from perdure.flows.controllers.model.stand_ins import fault_of_stand_in


def doubtful_models(settings: ModelSettings) -> Iterator[str]:
    """Yield a sentence for each model that only a worker with the setting ``model_url`` can ask.

    The provider in a name ``PROVIDER:NAME`` is compared with the providers that the model library
    knows. The rest of the name is not checked, because a provider may have newer models. Of a fake
    model, the name is compared with those of this process. Models with a ``base_url`` or a
    ``provider`` of their own are left out. Nothing is yielded if the model library is not
    installed.
    """
    if missing() is not None:
        return
    named: list[tuple[str, ModelSettings | ModelKeys]] = [("model", settings)]
    for key in SEVERAL:
        entries = getattr(settings, key) or ()
        named += [(f"{key}[{place}]", entry) for place, entry in enumerate(entries)]
    for place, entry in named:
        if entry.model is None or entry.base_url is not None or entry.provider is not None:
            continue
        fault = fault_of_stand_in(entry.model)
        if fault is None and not is_of_a_provider(entry.model):
            fault = _fault_of_provider(entry.model)
        if fault:
            yield f"Controller.{place}: {fault}"


def _fault_of_provider(model: str) -> str:
    from pydantic_ai.models import KnownModelName

    provider, colon, _ = model.partition(":")
    known = sorted({str(each).partition(":")[0] for each in get_args(KnownModelName.__value__)})
    near = difflib.get_close_matches(provider, known, n=1) if colon else []
    advice = f"did you mean {near[0]!r}?" if near else "expected PROVIDER:NAME."
    return (
        f"the model {model!r} is of no known provider; {advice} Only a worker with model_url can "
        "ask it"
    )
