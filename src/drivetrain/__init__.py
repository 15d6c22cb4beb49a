"""drivetrain: reinforcement learning as fast as the machine allows, and where the time goes.

The flow, and the packages along it (each imported only when asked for):

    actor -> replay -> sample -> learner -> weights -> actor
"""

__version__ = "0.1.0"
