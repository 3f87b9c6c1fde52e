"""Restricts bind addresses: a server is reachable by others only with encryption and authentication."""

from __future__ import annotations

import ssl

from headrace.access.guard import REQUIRED
from headrace.access.tokens import is_loopback
from headrace.errors import BadSetting, PublicBind
from headrace.settings import Settings

_CERTIFICATE = "openssl req -x509 -newkey rsa:3072 -nodes -days 365 -subj /CN=NAME -keyout key.pem -out cert.pem"


def check_bind(settings: Settings, *, has_admin: bool) -> None:
    """Refuse an address that other machines can reach, unless there is TLS, authentication and an admin."""
    if is_loopback(settings.server.host):
        return
    needed = {
        "TLS": (
            bool(settings.server.tls_cert),
            f"{_CERTIFICATE}; export HEADRACE_SERVER_TLS_CERT=cert.pem HEADRACE_SERVER_TLS_KEY=key.pem",
        ),
        "authentication": (settings.auth.mode == REQUIRED, f"export HEADRACE_AUTH_MODE={REQUIRED}"),
        "an admin": (has_admin, "headrace user add NAME --role admin"),
    }
    missing = {what: fix for what, (is_set, fix) in needed.items() if not is_set}
    if missing:
        raise PublicBind(
            f'other machines can reach "{settings.server.host}", and there is no {" and no ".join(missing)}'.replace(
                "no an", "no"
            ),
            fix=" && ".join(missing.values()),
        )


def check_plain_bind(host: str) -> None:
    """Refuse such an address for servers that have neither TLS nor authentication."""
    if not is_loopback(host):
        raise PublicBind(
            f'other machines can reach "{host}", and this server has neither TLS nor authentication',
            fix="listen on 127.0.0.1 behind a proxy that has both",
        )


def tls_files(settings: Settings) -> tuple[str, str] | None:
    """The certificate and key files, checked to match; None without TLS."""
    if not settings.server.tls_cert and not settings.server.tls_key:
        return None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            settings.server.tls_cert, settings.server.tls_key or None
        )
    except (OSError, ValueError) as error:
        raise BadSetting(
            f'"server.tls_cert" and "server.tls_key" cannot be used: {error}',
            where=settings.server.tls_cert,
            fix="set both to PEM files",
        ) from error
    return settings.server.tls_cert, settings.server.tls_key or settings.server.tls_cert
