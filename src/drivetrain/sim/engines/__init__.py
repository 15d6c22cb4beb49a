"""What runs the steps, one engine a module."""
