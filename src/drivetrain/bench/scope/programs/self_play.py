"""Self-play by worker processes, and a learner: SELF_PLAY.py WORKERS GAMES, games of each worker.

What Minigo is to RL-Scope, in small: workers play Connect Four against themselves, every move chosen by the values
that a network gives to the boards it may lead to; the learner fits the network to how the games ended. A worker has
the network of the generation before it.
"""

# The peer may be absent where types are checked.
# pyright: basic, reportMissingImports=false

import multiprocessing
import sys

import gymnasium
import numpy as np
import torch

from drivetrain.bench.scope.window import window

ROWS, COLUMNS = 6, 7
NUM_GENERATIONS = 2
BATCH_SIZE = 64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class ConnectFour(gymnasium.Env):
    """The board as whoever moves next sees it: 1 own, -1 the other's."""

    observation_space = gymnasium.spaces.Box(-1, 1, (ROWS, COLUMNS), np.float32)
    action_space = gymnasium.spaces.Discrete(COLUMNS)

    def reset(self, *, seed=None, options=None):
        """An empty board."""
        super().reset(seed=seed)
        self.board = np.zeros((ROWS, COLUMNS), np.float32)
        return self.board.copy(), {}

    def step(self, action):
        """Drop a stone; reward 1 for four in a row."""
        self.board = dropped(self.board, int(action))
        won = has_four(self.board)
        self.board = -self.board
        return self.board.copy(), float(won), won, bool(np.all(self.board[0] != 0)), {}


def dropped(board, column):
    """The board after a move of the player of 1."""
    row = int(np.flatnonzero(board[:, column] == 0)[-1])
    after = board.copy()
    after[row, column] = 1
    return after


def has_four(board):
    """Whether 1 has four in a row anywhere."""
    own = board == 1
    for step_row, step_column in ((0, 1), (1, 0), (1, 1), (1, -1)):
        for row in range(ROWS):
            for column in range(COLUMNS):
                cells = [(row + i * step_row, column + i * step_column) for i in range(4)]
                if all(0 <= r < ROWS and 0 <= c < COLUMNS and own[r, c] for r, c in cells):
                    return True
    return False


def network():
    """The value of a board for whoever has just moved."""
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(ROWS * COLUMNS, 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1), torch.nn.Tanh(),
    )  # fmt: skip


def play(seed, num_games, weights, results):
    """Play games against oneself: boards after moves, and how they ended for whoever made the move."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    values = network().to(DEVICE)
    values.load_state_dict(weights)
    env = ConnectFour()
    for _ in range(num_games):
        board, _ = env.reset()
        boards, reward, terminated, truncated = [], 0.0, False, False
        while not (terminated or truncated):
            legal = np.flatnonzero(board[0] == 0)
            after = np.stack([dropped(board, int(column)) for column in legal])
            with torch.no_grad():
                worth = values(torch.as_tensor(after, device=DEVICE)).cpu().numpy()[:, 0]
            choice = int(np.argmax(worth + rng.normal(0, 0.3, len(worth))))
            boards.append(after[choice])
            board, reward, terminated, truncated, _ = env.step(legal[choice])
        signs = (-1.0) ** np.arange(len(boards))[::-1]
        results.put((np.stack(boards), (reward * signs).astype(np.float32)))


def learn(values, optimizer, boards, outcomes, rng):
    """Fit the network to the games of a generation."""
    for _ in range(4 * len(boards) // BATCH_SIZE):
        rows = rng.integers(0, len(boards), BATCH_SIZE)
        loss = torch.nn.functional.mse_loss(values(boards[rows])[:, 0], outcomes[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(num_workers, num_games):
    """Generations of self-play and learning, in turn."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    context = multiprocessing.get_context("spawn")
    values = network().to(DEVICE)
    optimizer = torch.optim.Adam(values.parameters(), lr=1e-3)
    with window():
        for generation in range(NUM_GENERATIONS):
            results = context.SimpleQueue()
            weights = {name: value.cpu() for name, value in values.state_dict().items()}
            seeds = [100 * generation + worker for worker in range(num_workers)]
            workers = [context.Process(target=play, args=(seed, num_games, weights, results)) for seed in seeds]
            for worker in workers:
                worker.start()
            games = [results.get() for _ in range(num_workers * num_games)]
            for worker in workers:
                worker.join()
            parts = map(np.concatenate, zip(*games, strict=True))
            boards, outcomes = (torch.as_tensor(part, device=DEVICE) for part in parts)
            learn(values, optimizer, boards, outcomes, rng)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
