"""What the engine `torch` evaluates with: words.py holds integers, the other files say what operations mean."""
