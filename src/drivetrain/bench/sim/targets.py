"""What we aim at in `drivetrain bench sim`, and in which environments."""

ONE_THREAD = "one thread"
TWO_PROCESSES = "two processes at once"
A_BOOLEAN_EACH = "a Boolean for each cell"
FROM_PYTHON = "called from Python"
# How far ahead of gymnax on XLA, at N = 1,024 with nothing recorded, on vectors of 16 lanes; of 8 lanes half of it.
AHEAD = {
    "CartPole-v1": 12.0,
    "Breakout-MinAtar": 12.0,
    "Asterix-MinAtar": 40.0,
    "Freeway-MinAtar": 20.0,
    "SpaceInvaders-MinAtar": 8.0,
}
MEDIAN_AHEAD, RECORDED_AHEAD = 10.0, 4.0
COUNTER_AHEAD, GYMNASIUM_AHEAD, TWO_THREADS = 2.5, 10.0, 1.8
TWO_THREADS_REPEATS = 5  # of the plan's rounds: their ratios spread from 1.6 to 2.2, by who else wants a core
POLICY_AHEAD = 3.0  # of XLA's scan with the same policy
MINATAR = ("Breakout-MinAtar", "Asterix-MinAtar", "Freeway-MinAtar", "SpaceInvaders-MinAtar")
# All that gymnax registers but MNISTBandit, which needs a download.
GYMNAX_NAMES = (
    "CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Asterix-MinAtar",
    "Breakout-MinAtar", "Freeway-MinAtar", "Seaquest-MinAtar", "SpaceInvaders-MinAtar", "Catch-bsuite",
    "DeepSea-bsuite", "MemoryChain-bsuite", "UmbrellaChain-bsuite", "DiscountingChain-bsuite", "SimpleBandit-bsuite",
    "FourRooms-misc", "MetaMaze-misc", "PointRobot-misc", "BernoulliBandit-misc", "GaussianBandit-misc",
    "Reacher-misc", "Swimmer-misc", "Pong-misc", "FrozenLake-misc",
)  # fmt: skip
OUR_NAMES = (
    "CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pong", "Breakout",
    "Snake", "FourRooms", "Quadrotor", "Knob",
)  # fmt: skip
