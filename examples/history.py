# ruff: noqa: F704, PLE1142, T201  top-level `await` works in the sandbox
"""A program as a model would write it. It runs in the sandbox; `make demo` shows it at work.

It reads every commit of a repository through the git server, a few hundred kilobytes, and hands over a few lines.
"""

import asyncio
import re
from collections import Counter
from datetime import datetime

from servers.git import git_log, git_show
from servers.time import convert_time

REPOSITORY = "."  # as the git server sees it; no host path is known in here

log = (await git_log(repo_path=REPOSITORY, max_count=1000)).unwrap()
commits = re.findall(r"Commit: (\w+)\nAuthor: (.+)\nDate: (.+)\nMessage: (.+)", log)

# All at once: the broker passes on as many at a time as the server may have.
patches = await asyncio.gather(*(git_show(repo_path=REPOSITORY, revision=commit) for commit, *_ in commits))

sizes = [len(re.findall(r"^\+(?!\+\+)", patch.unwrap(), re.MULTILINE)) for patch in patches]
largest = max(range(len(commits)), key=sizes.__getitem__)
dates = [datetime.fromisoformat(date) for _, _, date, _ in commits]
hour, _ = Counter(date.hour for date in dates).most_common(1)[0]
in_tokyo = await convert_time(source_timezone="UTC", time=f"{hour:02}:00", target_timezone="Asia/Tokyo")

print(f"read {sum(len(patch.text) for patch in patches):,} characters of patches")
result = {
    "commits": len(commits),
    "by_author": dict(Counter(author for _, author, _, _ in commits)),
    "by_weekday": dict(Counter(date.strftime("%A") for date in dates)),
    "largest": {"author": commits[largest][1], "message": commits[largest][3], "lines_added": sizes[largest]},
    "busiest_hour": {"UTC": f"{hour:02}:00", "Asia/Tokyo": in_tokyo["target"]["datetime"][11:16]},
}
