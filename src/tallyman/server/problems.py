"""Errors as RFC 9457 problems, with the codes of the command line."""

from __future__ import annotations

import logging
from typing import Any

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tallyman.errors import (
    Conflict,
    DatabaseUnavailable,
    NotAWorker,
    NotFound,
    RunClosing,
    TallymanError,
    TokenMissing,
    UsageError,
)

log = logging.getLogger("tallyman.server")

MEDIA_TYPE = "application/problem+json"
TOO_LARGE = "too_large"
# The first class that fits.
STATUSES: tuple[tuple[type[TallymanError], int], ...] = (
    (NotFound, 404),
    (TokenMissing, 401),
    (NotAWorker, 403),
    (UsageError, 422),
    (Conflict, 409),
    (DatabaseUnavailable, 503),
    (RunClosing, 503),
)


def problem(status: int, code: str, detail: str, **facts: Any) -> JSONResponse:
    body = {"type": "about:blank", "title": code.replace("_", " "), "status": status}
    body |= {"detail": detail, "code": code, **facts}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse(body, status, headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer every error of an endpoint with a problem."""
    app.add_exception_handler(TallymanError, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(psycopg.DataError, _unstorable)
    app.add_exception_handler(Exception, _unknown)


def of(error: TallymanError) -> JSONResponse:
    """Write an error as a problem."""
    status = next((s for kind, s in STATUSES if isinstance(error, kind)), 500)
    facts = error.facts()
    detail, code = str(facts.pop("message")), str(facts.pop("code"))
    return problem(status, code, detail, **facts)


def _known(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TallymanError)
    return of(error)


def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # Without the values: a token sent in the wrong place must not come back.
    errors = [
        {"path": ".".join(str(part) for part in one["loc"]), "message": one["msg"]}
        for one in error.errors()
    ]
    return problem(422, "invalid_request", f"{len(errors)} mistakes in the request", errors=errors)


def _unstorable(request: Request, error: Exception) -> JSONResponse:
    """Answer a value of the request that the database does not take."""
    log.warning("%s %s: %s", request.method, request.url.path, error)
    reason = str(error).splitlines()[0]
    return problem(422, "invalid_request", f"the database cannot store it: {reason}")


def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "method_not_allowed", 413: TOO_LARGE}
    return problem(error.status_code, codes.get(error.status_code, "http_error"), error.detail)


def _unknown(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(500, "internal_error", "the server failed; its log has the reason")
