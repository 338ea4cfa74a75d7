"""The few names of FastAPI that the documentation uses, for environments without it. Values pass through JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from json import dumps, loads
from types import ModuleType
from typing import Any

import pytest


class FastAPI:
    """An application whose functions answer requests to paths."""

    def __init__(self) -> None:
        self.routes: dict[str, Callable[[Any], Any]] = {}

    def post(self, path: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
        def keep(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
            self.routes[path] = function
            return function

        return keep


class Answer:
    """The answer to a request; `text` is JSON."""

    status_code = 200

    def __init__(self, text: str):
        self._text = text

    def json(self) -> Any:
        return loads(self._text)


class TestClient:
    """Sends requests to an application in this process."""

    __test__ = False

    def __init__(self, app: FastAPI):
        self._app = app

    def post(self, path: str, *, json: Any) -> Answer:
        return Answer(dumps(self._app.routes[path](loads(dumps(json))), allow_nan=False))


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages import these names as those of FastAPI, unless it is installed."""
    if find_spec("fastapi") is None:
        for name, value in (("fastapi", FastAPI), ("fastapi.testclient", TestClient)):
            module: Any = ModuleType(name)
            setattr(module, value.__name__, value)
            monkeypatch.setitem(sys.modules, name, module)
