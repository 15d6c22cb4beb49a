"""The contenders of `drivetrain bench sim`, one file each; `entry.py` is what their processes do."""
