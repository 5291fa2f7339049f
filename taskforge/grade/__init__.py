"""Submission -> protected paths -> sandbox -> verdict -> reward. Generation calls the same grader that users call."""

from taskforge.grade.grading import Grader
from taskforge.grade.submission import Submission, read_submission

__all__ = ["Grader", "Submission", "read_submission"]
