"""Sessions at a service, for `moonpool.connect`: everything here is called in the runtime's thread.

`address` is where and as whom, `connection` sends requests, `lines` reads what an execution tells and takes it up again
where a connection broke, `stream` makes events of it, `questions` answers, `files` moves files, `session` is one
session, `answers` makes of what the service says what applications see.
"""
