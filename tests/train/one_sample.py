"""A replay of one sample, for tests in which a learner learns from rows that they make up."""


class OneSample:
    """Gives the same sample each time, and keeps the priorities that come back."""

    def __init__(self, sample):
        self.given = sample
        self.priorities = None

    def sample(self, batch_size, *, beta, num_batches):
        return self.given

    def update_priorities(self, keys, priorities):
        self.priorities = priorities


def errors_of(learner, sample):
    """|TD errors| of a learner, of a prioritized replay, that learns from a sample once."""
    replay = OneSample(sample)
    learner.learn(replay, len(sample.weights), 0.0)
    return replay.priorities
