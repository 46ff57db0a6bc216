"""Hints: what to look at where no connection to a server comes about."""

from __future__ import annotations

from urllib.parse import urlsplit

#: What a port that expects TLS does to those who speak plainly, as Python and redis-py put it.
HUNG_UP = ("Connection reset", "Connection closed", "closed by server", "Broken pipe")
#: And what comes of speaking TLS to a port that does not.
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF", "EOF occurred", "Timeout")


def hint(url: str, error: Exception) -> str:
    """A sentence about encryption, behind a blank, where the failure looks like that; else nothing."""
    text, encrypted = str(error), urlsplit(url).scheme == "rediss"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return ". It could not prove who it is: name its authority (?ssl_ca_certs=/path/to/ca.pem), and the host as its certificate does"
    if encrypted and any(words in text for words in NO_TLS):
        return ". Does it speak TLS on this port? If not, its URL begins with redis://"
    if not encrypted and any(words in text for words in HUNG_UP):
        return ". If it speaks TLS on this port, its URL begins with rediss://"
    return ""
