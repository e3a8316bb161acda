"""The application of the internal listener, put together."""

from __future__ import annotations

from fastapi import FastAPI

from tallyman.server import health, problems
from tallyman.server.dispatcher import Dispatcher
from tallyman.server.gate import Gate
from tallyman.server.internal import tasks


def internal_app(dispatcher: Dispatcher) -> FastAPI:
    """Build the application that workers call."""
    app = FastAPI(
        title="Tallyman, internal",
        description="For workers. Users have another address.",
        openapi_url="/internal/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.dispatcher = dispatcher
    app.add_middleware(Gate, dispatcher=dispatcher)
    problems.install(app)
    app.include_router(tasks.router)
    app.include_router(health.router)
    return app
