"""Are the right tools among the first? Questions as a model writes them, over the tool lists of published servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from moonpool.catalog.catalog import Catalog

QUESTIONS: dict[str, set[str]] = {
    "current time in a timezone": {"time.get_current_time"},
    "convert 9 am Tokyo to New York": {"time.convert_time"},
    "download a web page as markdown": {"fetch.fetch"},
    "commit history of a repository": {"git.git_log", "github-archived.list_commits"},
    "changes not yet staged": {"git.git_diff_unstaged"},
    "stage files for commit": {"git.git_add"},
    "switch git branch": {"git.git_checkout"},
    "record changes to the repository": {"git.git_commit"},
    "read several files at once": {"filesystem.read_multiple_files"},
    "folder tree as JSON": {"filesystem.directory_tree"},
    "rename or move a file": {"filesystem.move_file"},
    "file size and permissions": {"filesystem.get_file_info"},
    "make a new directory": {"filesystem.create_directory"},
    "open a GitHub pull request": {"github-archived.create_pull_request"},
    "comment on an issue": {"github-archived.add_issue_comment"},
    "merge PR": {"github-archived.merge_pull_request"},
    "find code on GitHub": {"github-archived.search_code"},
    "fork a repo": {"github-archived.fork_repository"},
    "CI status of a pull request": {"github-archived.get_pull_request_status"},
    "logs of a pod": {"kubernetes.kubectl_logs"},
    "scale a deployment to 3 replicas": {"kubernetes.kubectl_scale"},
    "install Helm chart": {"kubernetes.install_helm_chart"},
    "forward local port to a k8s service": {"kubernetes.port_forward"},
    "run command inside pod": {"kubernetes.exec_in_pod"},
    "apply a YAML manifest to the cluster": {"kubernetes.kubectl_apply"},
    "store facts about a person in the knowledge graph": {
        "memory.create_entities", "memory.add_observations", "memory.create_relations",
    },
    "search the knowledge graph": {"memory.search_nodes"},
    "count documents in a collection": {"mongodb.count"},
    "MongoDB aggregation pipeline": {"mongodb.aggregate", "mongodb.aggregate-db"},
    "which indexes has this collection": {"mongodb.collection-indexes"},
    "remove a whole database": {"mongodb.drop-database"},
    "insert documents into MongoDB": {"mongodb.insert-many"},
    "add a comment to a Notion page": {"notion.API-create-a-comment"},
    "search Notion by title": {"notion.API-post-search"},
    "archive a Notion block": {"notion.API-delete-a-block"},
    "screenshot of the page": {"playwright.browser_take_screenshot"},
    "click a button in the browser": {"playwright.browser_click"},
    "open a URL in the browser": {"playwright.browser_navigate"},
    "fill in a web form": {"playwright.browser_fill_form"},
    "upload files in the browser": {"playwright.browser_file_upload"},
    "set key expiration in Redis": {"redis.expire", "redis.set"},
    "add element to sorted set": {"redis.zadd"},
    "push a value to the front of a Redis list": {"redis.lpush"},
    "publish message to a channel": {"redis.publish"},
    "nearest neighbours of a vector": {"redis.vector_search_hash"},
    "run SELECT on sqlite": {"sqlite.read_query"},
    "columns of a SQL table": {"sqlite.describe_table"},
    "library documentation for React": {"context7.query-docs", "context7.resolve-library-id"},
    "step by step reasoning": {"sequential-thinking.sequentialthinking"},
    "add two numbers": {"everything.get-sum"},
}  # fmt: skip


def found(catalog: Catalog, question: str, limit: int) -> set[str]:
    return {f"{hit.entry.server_id}.{hit.entry.tool_name}" for hit in catalog.search(question, limit=limit)}


@pytest.mark.req("H-084")
@pytest.mark.parametrize(
    ("limit", "share_min"), [pytest.param(1, 0.7, id="first"), pytest.param(5, 0.9, id="first five")]
)
def test_the_right_tool_is_among_the_first(published_catalog: Catalog, limit: int, share_min: float) -> None:
    missed = [
        question for question, right in QUESTIONS.items() if not right & found(published_catalog, question, limit)
    ]

    assert 1 - len(missed) / len(QUESTIONS) >= share_min, missed


def test_every_question_names_tools_that_exist(published_catalog: Catalog) -> None:
    known = {f"{entry.server_id}.{entry.tool_name}" for entry in published_catalog.list()}

    assert set().union(*QUESTIONS.values()) <= known


def test_a_tool_is_found_by_its_own_name(published_catalog: Catalog) -> None:
    lost = [
        entry.tool_name
        for entry in published_catalog.list()
        if f"{entry.server_id}.{entry.tool_name}"
        not in found(published_catalog, f"{entry.server_id} {entry.tool_name}", 5)
    ]

    assert lost == []
