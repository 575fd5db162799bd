"""Pillion: stateful stream processing over Kafka, with a sidecar that does the group's work."""

from . import client, errors, stores

__all__ = ["client", "errors", "stores"]
