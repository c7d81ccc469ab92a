"""Recorded episodes for imitation learning: written as HDF5 (robomimic's layout) or as LeRobot v3, and replayed."""

from stickslip.datasets.episode import Episode
from stickslip.datasets.hdf5 import Hdf5Writer
from stickslip.datasets.hdf5_file import Hdf5Reader
from stickslip.datasets.lerobot import LeRobotWriter
from stickslip.datasets.recorder import EpisodeRecorder, EpisodeWriter
from stickslip.datasets.replays import Replay, replay
from stickslip.datasets.summaries import Summary, convert, summary

__all__ = [
    "Episode",
    "EpisodeRecorder",
    "EpisodeWriter",
    "Hdf5Reader",
    "Hdf5Writer",
    "LeRobotWriter",
    "Replay",
    "Summary",
    "convert",
    "replay",
    "summary",
]
