"""Approvals: questions to a person, their answers, the queue, and grants that last for a while."""
