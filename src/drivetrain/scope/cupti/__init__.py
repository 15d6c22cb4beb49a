"""What GPUs do, recorded by NVIDIA's CUPTI in the programs that `drivetrain profile` runs.

    headers.py -> build.py -> layer.cpp as a library -> plan.py -> the program's environment -> the CUDA driver loads it
                                                                     readings.py, beside the program: NVML

Nothing of NVIDIA's is shipped: headers are read where they are found, libraries are loaded while programs run.
"""
