"""The SDK behind `import moonpool`: sessions for applications that run model-written code themselves.

One thread of the process has the event loop in which Moonpool lives (`runtime_thread`); `engines` holds what sessions
share there, `hosted_session` is a session there, `hosted_stream` one of its executions, `approve_functions` calls the
application. `session` and `moonpool.sync` are its two faces for applications: coroutines for any event loop, and plain
calls. `events`, `results` and `options` are what goes in and comes out.
"""
