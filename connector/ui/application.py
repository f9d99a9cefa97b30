"""The web application: the pages of one store, which follow it while they are shown.

A page asks for the store's epoch once a second (``/epoch``), and for itself when that has changed.

Promises: nothing in the store is changed, only GET is answered; requests that name another host
than those allowed are refused, so that no web site can read the store through a browser; a browser
is told to load nothing from outside.
Does not know: which port it has (server).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from relstate.connector.figures.metrics import CONTENT_TYPE, metric_text, store_metrics
from relstate.storage import Store, errors

from .pages import Pages, TableQuery

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""The names by which a browser on the same machine reaches the application."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_Page = Callable[[Request], str]


def application(store: Store, hosts: Sequence[str] = LOOPBACK) -> Starlette:
    """Return the application of an open store.

    ``hosts``: the names under which it may be asked for; ``*`` for any.
    """
    pages = _Answers(store)
    routes = [
        Route("/", pages.page(pages.store), methods=["GET"]),
        Route("/tables", pages.page(pages.tables), methods=["GET"]),
        Route("/table", pages.page(pages.table), methods=["GET"]),
        Route("/view", pages.page(pages.view), methods=["GET"]),
        Route("/epoch", pages.epoch, methods=["GET"]),
        Route("/metrics", pages.metrics, methods=["GET"]),
        Route("/static/style.css", pages.style, methods=["GET"]),
        Route("/static/live.js", pages.script, methods=["GET"]),
    ]
    middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)]
    return Starlette(
        routes=routes, middleware=middleware, exception_handlers={404: pages.unknown_address}
    )


def page_link(kind: str, name: str) -> str:
    """Return where the page of a table or view is."""
    return f"/{kind}?{urlencode({'name': name})}"


class _Answers:
    """What the application answers. Called in threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pages = Pages(store, page_link)

    def page(self, render: _Page) -> Callable[[Request], Response]:
        """Return what answers with a page, or with one that says why there is none."""

        def answer(request: Request) -> Response:
            try:
                return HTMLResponse(render(request), headers=_HEADERS)
            except errors.RelstateError as error:
                is_request_wrong = isinstance(error, errors.MissingError | errors.OptionError)
                title = "Not found" if is_request_wrong else "The store cannot be read"
                return HTMLResponse(
                    self._pages.problem(title, str(error)),
                    404 if is_request_wrong else 500,
                    headers=_HEADERS,
                )

        return answer

    def unknown_address(self, request: Request, _: Exception) -> Response:
        """Return a page that says that there is none at an address."""
        message = f"There is no page {request.url.path!r:.200}: begin at the page of the store."
        page = self._pages.problem("Not found", message)
        return HTMLResponse(page, 404, headers=_HEADERS)

    def store(self, _: Request) -> str:
        """Return the page of the store."""
        return self._pages.store(self._store.state)

    def tables(self, _: Request) -> str:
        """Return the page of all tables."""
        return self._pages.tables(self._store.state)

    def table(self, request: Request) -> str:
        """Return the page of a table."""
        key = tuple(request.query_params.getlist("key"))
        query = TableQuery(
            _number(request, "at"),
            key if any(key) else (),
            _number(request, "from"),
            _number(request, "to"),
        )
        return self._pages.table(self._store.state, _name(request), query)

    def view(self, request: Request) -> str:
        """Return the page of a view."""
        return self._pages.view(self._store.state, _name(request), _number(request, "units"))

    def epoch(self, _: Request) -> Response:
        """Return the latest epoch as JSON."""
        try:
            return JSONResponse({"epoch": self._store.epoch}, headers=_HEADERS)
        except errors.RelstateError as error:
            return JSONResponse({"problem": str(error)}, 500, headers=_HEADERS)

    def metrics(self, _: Request) -> Response:
        """Return the metrics, as Prometheus reads them."""
        try:
            text = metric_text(store_metrics(self._store))
        except errors.RelstateError as error:
            return PlainTextResponse(str(error), 500)
        return Response(text, media_type=CONTENT_TYPE)

    def style(self, _: Request) -> Response:
        """Return the style of all pages."""
        return Response(self._pages.text("style.css"), media_type="text/css", headers=_HEADERS)

    def script(self, _: Request) -> Response:
        """Return the script that follows the store."""
        script = self._pages.text("live.js")
        return Response(script, media_type="text/javascript", headers=_HEADERS)


def _name(request: Request) -> str:
    return request.query_params.get("name", "")


def _number(request: Request, name: str) -> int | None:
    """Return a number in the address; None without one. OptionError for anything else."""
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > 15:
        raise errors.OptionError(f"{name} is {text!r:.50}; it must be a whole number")
    return int(text)
