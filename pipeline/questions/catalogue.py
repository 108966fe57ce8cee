"""All questions, in the order in which they are listed and shown."""

from history.errors import unknown
from pipeline.errors import PipelineError
from pipeline.questions.availability import LATENCY, RECOVERY, SLOWEST
from pipeline.questions.coverage import COVERAGE, NEVER_REACHED
from pipeline.questions.detection import DETECTION, DETECTION_BY_FAULT
from pipeline.questions.failures import FLAKY, TRIAGE
from pipeline.questions.question import Question

QUESTIONS: tuple[Question, ...] = (
    DETECTION,
    DETECTION_BY_FAULT,
    COVERAGE,
    NEVER_REACHED,
    RECOVERY,
    SLOWEST,
    LATENCY,
    FLAKY,
    TRIAGE,
)


def question_named(name: str) -> Question:
    """The question of this name. Raises PipelineError that lists the known names."""
    for question in QUESTIONS:
        if question.name == name:
            return question
    raise PipelineError(unknown("question", name, [question.name for question in QUESTIONS]))
