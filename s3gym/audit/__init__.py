"""Checking a store from its rows alone: needs no model and no key."""

from s3gym.audit.findings import CHECKS, Audit, Finding, Level
from s3gym.audit.run import audit_store

__all__ = ["CHECKS", "Audit", "Finding", "Level", "audit_store"]
