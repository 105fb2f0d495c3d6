"""The application: addresses to pages, answers to responses, errors to error pages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from frazil.errors import FrazilError
from frazil.masking import safe
from frazil.model.values import SnapshotInfo
from frazil.transaction.keys import METADATA
from frazil.transaction.opened import context_of
from frazil.web import data, pages, queries, reports
from frazil.web.asking import Answer, Ask, Binary, Data, Page, http_status
from frazil.web.guard import FOREIGN, Guard
from frazil.web.library import Library, ServedRepository
from frazil.web.rendering import make_environment
from frazil.web.settings import ServerSettings
from frazil.web.work import Workers
from frazil.web.zarr_http import BodyPiece, RequestHeaders, serve_key, split_path

log = logging.getLogger("uvicorn.error")  # the one that a server shows

Handler = Callable[[Request], Awaitable[Response]]
ListRow: TypeAlias = tuple[ServedRepository, int, int, SnapshotInfo | None, str | None]
"""A repository with its numbers of branches and tags, its newest commit, or what is wrong."""
STATIC: Final = Path(__file__).parent / "static"
NOT_FOUND, GONE = 404, 410
KEPT: Final = "private, max-age=31536000, immutable"
UNEXPECTED: Final = "something unexpected happened; the server's log has it"
LISTED_S: Final = 5.0
"""Seconds that the list of repositories waits for each of them, all at once."""
TITLES: Final = {
    400: "That cannot be shown",
    403: "Not allowed",
    404: "Not found",
    503: "Busy",
}


class Explorer:
    """A server's repositories, with all that answers about them."""

    def __init__(self, library: Library, settings: ServerSettings) -> None:
        self.library = library
        self.settings = settings
        self.workers = Workers(settings.limits)
        self.templates = make_environment()

    # --- handlers ---

    def of_repository(self, work: Callable[[Ask], Answer], page: str, *, is_page: bool) -> Handler:
        """A handler that asks one function about one repository."""

        async def handle(request: Request) -> Response:
            name = request.path_params["name"]
            try:
                shown = self.library.find(name)
                ask = Ask(
                    shown,
                    dict(request.query_params),
                    self.settings.limits,
                    self.workers,
                    is_foreign=request.headers.get("sec-fetch-site") in FOREIGN,
                )
                return await self.workers.run(name, self._answer, work, ask, page)
            except FrazilError as error:
                return self._failure(error, name if is_page else None, is_page=is_page)
            except RecursionError:
                return self._error_response(
                    400, "a document is nested too deeply", name, is_page=is_page
                )
            except Exception:
                log.exception("a page failed")
                return self._error_response(500, UNEXPECTED, name, is_page=is_page)

        return handle

    def _answer(self, work: Callable[[Ask], Answer], ask: Ask, page: str) -> Response:
        match work(ask):
            case Page(template, values, status):
                shared = self._shared(ask.shown, page)
                return HTMLResponse(
                    self._rendered(template, {**shared, **values}),
                    status,
                    {"cache-control": "no-cache"},
                )
            case Data(values, is_fixed, status):
                return JSONResponse(dict(values), status, {"cache-control": _kept(is_fixed)})
            case Binary(body, is_fixed):
                headers = {"cache-control": _kept(is_fixed)}
                return Response(body, 200, headers, "application/octet-stream")

    def _shared(self, shown: ServedRepository | None, page: str) -> dict[str, Any]:
        return {
            "repository": shown,
            "page": page,
            "many": len(self.library) > 1,
            "zarr": self.settings.zarr,
            "has_sql": self.settings.sql,
        }

    def _rendered(self, template: str, values: Mapping[str, Any]) -> str:
        return self.templates.get_template(template).render(values)

    async def repositories(self, request: Request) -> Response:
        """The list of repositories."""
        rows = await asyncio.gather(*map(self._listed, self.library))
        found = self._rendered("repositories.html", {**self._shared(None, ""), "rows": rows})
        return HTMLResponse(found, headers={"cache-control": "no-cache"})

    async def _listed(self, shown: ServedRepository) -> ListRow:
        """One repository of the list; what is wrong with one is no trouble for the others."""
        try:
            return await self.workers.run(shown.name, _list_row, shown, seconds=LISTED_S)
        except FrazilError as error:
            return (shown, 0, 0, None, safe(str(error)))
        except Exception:
            log.exception("a repository failed")
            return (shown, 0, 0, None, UNEXPECTED)

    async def zarr(self, request: Request) -> Response:
        """A key of a version."""
        raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        text = raw.decode("ascii", "replace").partition("?")[0].removeprefix("/zarr/")
        try:
            crew = self.library.find(split_path(text)[0]).name
            asked, piece = self._request_headers(request), self.settings.limits.piece
            found = await self.workers.run(crew, serve_key, self.library, text, asked, piece)
        except FrazilError as error:
            return _plain(_key_status(error, text), safe(str(error)))
        except Exception:
            log.exception("a key failed")
            return _plain(500, UNEXPECTED)
        if found.rest is None:
            return Response(found.body, found.status, found.headers)
        body = self._streamed(crew, found.body, found.rest)
        return StreamingResponse(body, found.status, found.headers)

    async def _streamed(
        self, crew: str, first: bytes, rest: Iterator[BodyPiece]
    ) -> AsyncIterator[bytes]:
        """A body as the client takes it; what fails on the way cuts the answer off."""
        yield first
        for read in rest:
            yield await self.workers.run(crew, read, is_begun=True)

    def _request_headers(self, request: Request) -> RequestHeaders:
        headers = request.headers
        return RequestHeaders(
            headers.get("range"),
            headers.get("if-range"),
            headers.get("if-none-match"),
            request.method == "HEAD",
            self.settings.token is not None,
        )

    # --- failures ---

    def _failure(self, error: FrazilError, name: str | None, *, is_page: bool) -> Response:
        return self._error_response(http_status(error), safe(str(error)), name, is_page=is_page)

    def _error_response(
        self, status: int, text: str, name: str | None, *, is_page: bool
    ) -> Response:
        if not is_page:
            return JSONResponse({"error": text}, status, {"cache-control": "no-store"})
        shown = next((each for each in self.library if each.name == name), None)
        values = {
            **self._shared(shown, "error"),
            "status": status,
            "heading": TITLES.get(status, "This did not work"),
            "message": text,
        }
        return HTMLResponse(
            self._rendered("error.html", values), status, {"cache-control": "no-store"}
        )

    async def on_http_error(self, request: Request, error: Exception) -> Response:
        """A page for an address that leads nowhere."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        return self._error_response(
            status, f"there is nothing at {request.url.path}", None, is_page=True
        )


def _list_row(shown: ServedRepository) -> ListRow:
    refs = context_of(shown.repository).refs
    branches, tags = refs.branches(), refs.tags()
    tip = branches.get("main") or next(iter(branches.values()), None)
    newest = None if tip is None else shown.info(str(tip))
    return (shown, len(branches), len(tags), newest, None)


def _plain(status: int, text: str) -> Response:
    return Response(f"{text}\n", status, media_type="text/plain")


def _kept(is_fixed: bool) -> str:
    return KEPT if is_fixed else "no-cache"


def _key_status(error: FrazilError, path: str) -> int:
    """Clients of Zarr take 404 for a chunk that was never written, and read fill values."""
    status = http_status(error)
    return GONE if status == NOT_FOUND and not path.endswith(METADATA) else status


def make_app(library: Library, settings: ServerSettings) -> Guard:
    """The whole application, guard included."""
    explorer = Explorer(library, settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        explorer.workers.close()

    async def bare(request: Request) -> Response:
        return RedirectResponse(f"{request.url.path}/", 307)

    routes: list[BaseRoute] = [
        Route("/", explorer.repositories),
        Route("/r/{name}", bare),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    sql = queries.PAGES if settings.sql else queries.OFF
    for page, work in {**pages.PAGES, **reports.PAGES, **sql}.items():
        routes.append(
            Route(f"/r/{{name}}/{page}", explorer.of_repository(work, page, is_page=True))
        )
    for call, work in data.CALLS.items():
        handler = explorer.of_repository(work, call, is_page=False)
        routes.append(Route(f"/r/{{name}}/api/{call}", handler))
    if settings.zarr:
        routes.append(Route("/zarr/{rest:path}", explorer.zarr))
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: explorer.on_http_error},
    )
    return Guard(app, settings)
