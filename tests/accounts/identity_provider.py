"""A small OpenID provider over real HTTP: discovery, authorization code with PKCE, ID token, userinfo."""

import base64
import hashlib
import json
import secrets
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, CLIENT_SECRET = "claimdesk", "a secret of both"


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


OWN_KEY, FOREIGN_KEY = _key(), _key()


@dataclass
class Faults:
    """How the provider, or somebody between, misbehaves."""

    # Changes to the ID token's claims; None takes one out.
    claims: dict[str, Any] = field(default_factory=dict)
    foreign_key: bool = False
    algorithm: str = "RS256"
    no_id_token: bool = False
    userinfo: dict[str, Any] = field(default_factory=dict)
    issuer: str = ""
    broken: set[str] = field(default_factory=set)


class SmallProvider:
    """Signs in whoever `person` is, without asking."""

    def __init__(self) -> None:
        self.person: dict[str, Any] = {
            "sub": "u-1001",
            "preferred_username": "wren",
            "given_name": "Wren",
            "family_name": "Okafor",
            "email": "wren@example.org",
            "email_verified": True,
            "groups": [],
        }
        self.faults = Faults()
        self.asked: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # --- what a browser is answered ---------------------------------------------------------------

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser is sent back to."""
        self.asked.append(query)
        code = secrets.token_urlsafe(12)
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    # --- what the desk is answered ----------------------------------------------------------------

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.faults.issuer or self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/keys",
            "id_token_signing_alg_values_supported": ["RS256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def keys(self) -> dict[str, Any]:
        key = jwt.algorithms.RSAAlgorithm.to_jwk(OWN_KEY.public_key(), as_dict=True)
        return {"keys": [{**key, "kid": "one", "use": "sig", "alg": "RS256"}]}

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        query = self._codes.pop(form.get("code", ""), None)
        if query is None or form.get("client_secret") != CLIENT_SECRET:
            return 400, {"error": "invalid_grant"}
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(verifier).rstrip(b"=").decode() != query["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            **self.person,
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": query.get("nonce"),
            **self.faults.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        answer = {"access_token": "opaque", "token_type": "Bearer", "expires_in": 300}
        if not self.faults.no_id_token:
            answer["id_token"] = self._signed(claims)
        return 200, answer

    def userinfo(self) -> dict[str, Any]:
        return {**self.person, **self.faults.userinfo}

    def _signed(self, claims: dict[str, Any]) -> str:
        header = {"kid": "one"}
        if self.faults.algorithm == "none":
            return jwt.encode(claims, "", algorithm="none", headers=header)
        if self.faults.algorithm == "HS256":
            return jwt.encode(claims, "x" * 32, algorithm="HS256", headers=header)
        key = FOREIGN_KEY if self.faults.foreign_key else OWN_KEY
        return jwt.encode(claims, key, algorithm="RS256", headers=header)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                address = urlsplit(self.path)
                name = address.path.rpartition("/")[2]
                if name in provider.faults.broken:
                    return self._answer(500, {"error": "server_error"})
                if name == "authorize":
                    query = {key: values[0] for key, values in parse_qs(address.query).items()}
                    self.send_response(302)
                    self.send_header("Location", provider.authorize(query))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return None
                documents = {
                    "openid-configuration": provider.discovery,
                    "keys": provider.keys,
                    "userinfo": provider.userinfo,
                }
                return self._answer(200, documents[name]())

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                form = {key: values[0] for key, values in parse_qs(self.rfile.read(length).decode()).items()}
                self._answer(*provider.token(form))

            def _answer(self, status: int, document: dict[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Silent."""

        return Handler
