"""Our simulators, and gymnax's, behind Gymnasium's interfaces.

ids ─registers─▶ gymnasium.make ─▶ single ─▶ vector ─▶ sim.compile(num_steps=1)
                 gymnasium.make_vec, sim.make_vec ──▶    │ spaces, infos
"""
