"""Training examples from exploration: chosen by the agent's own self-scores, never by rewards."""

from s3gym.sft.answers import AnswerFormat, LastLine
from s3gym.sft.asking import build_sft_asking
from s3gym.sft.build import build_sft
from s3gym.sft.dataset import Choice, Dataset, Explored, example_hash, example_row
from s3gym.sft.jsonl import to_jsonl
from s3gym.sft.policy import SFTPolicy

__all__ = [
    "AnswerFormat",
    "Choice",
    "Dataset",
    "Explored",
    "LastLine",
    "SFTPolicy",
    "build_sft",
    "build_sft_asking",
    "example_hash",
    "example_row",
    "to_jsonl",
]
