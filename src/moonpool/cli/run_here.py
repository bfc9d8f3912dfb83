"""`moonpool run` without `--session`: assemble, run in a new sandbox, print, close."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.cli.approvers import open_approver, responder_beside
from moonpool.cli.config_choice import read_config
from moonpool.cli.importing import no_collection
from moonpool.cli.interrupts import Interrupts

if TYPE_CHECKING:
    from moonpool.cli.run_order import RunParts
    from moonpool.core.envelope import Envelope
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.sessions import Session


async def run_here(parts: RunParts) -> None:
    """Run the code and print its line. Raises MoonpoolError before there is an envelope."""
    with no_collection():
        from moonpool.bootstrap import host_folders, open_default_tenant
        from moonpool.engine.answering import answered_by
        from moonpool.engine.envelope_line import envelope_line
        from moonpool.engine.missing_tools import telling_missing_tools
        from moonpool.environments.progress import stderr_progress
        from moonpool.features.plans.planning import plan_first, report_lines

    interrupts = Interrupts()
    folders = None
    if parts.order.workspace is not None:
        folders = host_folders(parts.settings, os.environ, [parts.order.workspace])
    config = read_config(parts.order.config)
    request = replace(
        parts.source,
        timeout_s=parts.order.timeout_s,
        observer=parts.output.show,
        dry_run=parts.order.dry_run,
        plan=parts.order.plan,
        placeholders={} if parts.order.plan_first else parts.placeholders,
    )
    with stderr_progress() as progress:
        async with (
            open_approver(parts.order.approve, parts.output, parts.settings) as approver,
            open_default_tenant(
                parts.settings,
                config=config,
                approver=approver,
                environ=os.environ,
                progress=progress,
                network=parts.network,
            ) as app,
        ):
            last: list[Session] = []
            person = responder_beside(approver)
            caller_grant = answered_by(app.caller_grant, lambda: person)

            async def execute(request: CodeRequest) -> Envelope:
                session = app.runtime.session(caller_grant, final=True, folders=folders)
                last[:] = [session]
                await parts.files.send(session.files)
                interrupts.aim(session)
                envelope = await session.execute(request)
                interrupts.aim(None)
                return envelope

            async with telling_missing_tools(app.tool_registry, parts.output.say):
                if parts.order.plan_first:
                    rehearsal = replace(request, dry_run=True, placeholders=parts.placeholders)
                    envelope = await plan_first(
                        lambda: execute(rehearsal),
                        lambda plan_id: execute(replace(request, plan=plan_id)),
                        parts.output.say,
                    )
                else:
                    envelope = await execute(request)
            for line in report_lines(envelope):
                parts.output.say(line)
            answer = envelope_line(envelope)
            await parts.hand_over(answer.line, answer.ok, last[0].files)
