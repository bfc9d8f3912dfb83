"""What can be wrong with a request about an execution by one call, beside the order itself (`orders`)."""

from __future__ import annotations

from typing import Self

from moonpool.core.errors import Fault, MoonpoolError


class ExecutionOverError(MoonpoolError):
    """The execution has ended, so it cannot be cancelled (HTTP 409)."""

    code = "execution_over"
    fault = Fault.CALLER

    def __init__(self, trace_id: str) -> None:
        super().__init__(f"the execution {trace_id} has ended already; GET /v1/executions/{trace_id} has its result")


class BackgroundRunsError(MoonpoolError):
    """Too many executions go on without a request that waits for them, or they take too much memory (HTTP 429).
    Nothing was started.
    """

    code = "background_runs_busy"
    fault = Fault.CALLER
    retryable = True

    @classmethod
    def of_count(cls, most: int) -> Self:
        return cls(
            f"{most} streaming and asynchronous executions of your organisation run already; wait for one to end"
        )

    @classmethod
    def of_bytes(cls, most: int) -> Self:
        return cls(
            "the code and output of your organisation's streaming and asynchronous executions would take more than "
            f"{most:,} bytes of memory; wait for one to end"
        )


class CapacityError(MoonpoolError):
    """No sandbox could be had now (HTTP 503). No code was started."""

    code = "no_capacity"
    fault = Fault.HOST
    _names_host = False
    retryable = True

    def __init__(self) -> None:
        super().__init__("No capacity: no sandbox could be started now, and no code ran; try again")


class SandboxUnfitError(MoonpoolError):
    """A sandbox could not be had, and will not be (HTTP 500). No code was started."""

    code = "sandbox_unfit"
    fault = Fault.HOST
    _names_host = False

    def __init__(self) -> None:
        super().__init__("no sandbox can be started here, so no code ran; the service's log says why")


class ExecutionOffError(MoonpoolError):
    """The organisation has switched `sandbox_execute` off (HTTP 403). Nothing was started."""

    code = "execution_off"
    fault = Fault.CALLER

    def __init__(self) -> None:
        super().__init__("code execution is switched off for your organisation; an administrator can switch it on")


class VolumeMissingError(MoonpoolError):
    """The sandbox configuration names a volume that there is not (HTTP 400). Nothing was started."""

    code = "volume_missing"
    fault = Fault.CALLER

    def __init__(self, slug: str) -> None:
        super().__init__(
            f"the volume {slug} of this sandbox configuration does not exist; an administrator makes it "
            "(POST /v1/volumes) or takes it out of the configuration"
        )
