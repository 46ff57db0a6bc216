"""The client of Amazon Bedrock: one request an attempt, and as much time as the round has. Imported where a Bedrock model is opened.

The model library builds this client without a way to say how often it tries again, and botocore tries up to five times by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_ai.exceptions import UserError

#: What a client is made of; the rest is the provider's class's to refuse.
NAMES = ("region_name", "profile_name", "aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def client_of(given: Mapping[str, Any], timeout_seconds: float) -> Any:
    """Return a client for ``bedrock-runtime`` that makes one request a call.

    Args:
        given: as ``pydantic_ai.providers.bedrock.BedrockProvider`` takes it: ``api_key``, ``base_url``, ``region_name``, ...

    Raises:
        UserError: no region is named, or a name is unknown.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import NoRegionError
    from botocore.session import Session
    from botocore.tokens import FrozenAuthToken

    class BearerSession(Session):  # type: ignore[misc]
        def get_auth_token(self, **_: Any) -> Any:
            return FrozenAuthToken(given["api_key"])

        def get_credentials(self) -> None:
            return None

    if unknown := sorted(set(given) - {*NAMES, "api_key", "base_url"}):
        raise UserError(f"provider bedrock takes {', '.join(('api_key', 'base_url', *NAMES))}; not {', '.join(unknown)}")
    settings: dict[str, Any] = {"read_timeout": timeout_seconds, "connect_timeout": 10, "retries": {"total_max_attempts": 1}}
    of_session = {name: given[name] for name in NAMES if given.get(name) is not None}
    if given.get("api_key"):
        of_session["botocore_session"] = BearerSession()
        settings["signature_version"] = "bearer"
    try:
        session = boto3.Session(**of_session)
        return session.client("bedrock-runtime", config=Config(**settings), endpoint_url=given.get("base_url"))
    except NoRegionError as error:
        raise UserError("no region is named: set AWS_DEFAULT_REGION, or region_name under provider") from error
