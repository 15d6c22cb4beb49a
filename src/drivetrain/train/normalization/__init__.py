"""Normalisation: observations of mean 0 and deviation 1, rewards by the deviation of discounted returns.

    actors --Moments per environment--> MomentsBoard --> Statistics, the learner's --> its batches
                                                            `--> published after the weights --> policies

Replay and rollouts hold what the environments gave; returns are reported as the environments count them.

    scaling.py      Normalization: what of a run is normalised, and the formula
    moments.py      Moments: count, mean and squares by environment; all of them as one
    board.py        MomentsBoard: the moments of all actors in shared memory
    statistics.py   Statistics: what the learner normalises by
"""

from drivetrain.train.normalization.board import MomentsBoard
from drivetrain.train.normalization.moments import Moments
from drivetrain.train.normalization.scaling import Normalization
from drivetrain.train.normalization.statistics import Statistics

__all__ = ["Moments", "MomentsBoard", "Normalization", "Statistics"]
