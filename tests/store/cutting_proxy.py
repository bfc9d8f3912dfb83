"""A socket in front of PostgreSQL that cuts connections at the worst moments."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

_MARK: Final = re.compile(rb"(unsent|unanswered)-\d+")


@asynccontextmanager
async def cutting(url: str, folder: Path) -> AsyncGenerator[str]:
    """The URL of a way to the same database, on which what names `unsent-N` does not arrive, and what names
    `unanswered-N` is carried out, but its answer does not arrive. Each N cuts one connection.
    """
    parts = urlsplit(url)
    server = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
    cut: set[bytes] = set()
    tasks: set[asyncio.Task[object]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        answers, requests = await asyncio.open_unix_connection(server)
        swallow = asyncio.Event()
        back = asyncio.create_task(_answers(answers, writer, swallow))
        try:
            while data := await reader.read(1 << 20):
                if (mark := _MARK.search(data)) and mark[0] not in cut:
                    cut.add(mark[0])
                    if mark[1] == b"unsent":
                        return
                    swallow.set()
                requests.write(data)
                if swallow.is_set():
                    await back
                    return
        except ConnectionError:
            return
        finally:
            back.cancel()
            writer.close()
            requests.close()
            tasks.discard(task)

    listening = await asyncio.start_unix_server(serve, folder / ".s.PGSQL.5432")
    try:
        yield f"{url.partition('?')[0]}?host={folder}"
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _answers(answers: asyncio.StreamReader, writer: asyncio.StreamWriter, swallow: asyncio.Event) -> None:
    while data := await answers.read(1 << 20):
        if swallow.is_set():
            return
        writer.write(data)
