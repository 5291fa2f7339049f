"""Frozen values, validated at construction. They know nothing of disks, sandboxes or networks."""

from taskforge.model.base import Value, digest_of
from taskforge.model.environment import Recipe
from taskforge.model.feature import Candidate, Span, Symbol, Unit
from taskforge.model.image import Image
from taskforge.model.source import Provenance, Source
from taskforge.model.task import Metrics, TaskCard, TaskTests
from taskforge.model.tests import Outcome, TestMap, TestRecord
from taskforge.model.tree import Changes, Entry, Tree, check_path
from taskforge.model.verdict import Policy, TestVerdict, Verdict, VerdictOutcome

__all__ = [
    "Candidate",
    "Changes",
    "Entry",
    "Image",
    "Metrics",
    "Outcome",
    "Policy",
    "Provenance",
    "Recipe",
    "Source",
    "Span",
    "Symbol",
    "TaskCard",
    "TaskTests",
    "TestMap",
    "TestRecord",
    "TestVerdict",
    "Tree",
    "Unit",
    "Value",
    "Verdict",
    "VerdictOutcome",
    "check_path",
    "digest_of",
]
