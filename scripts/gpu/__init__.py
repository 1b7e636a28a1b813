"""scripts/gpu.py: a module for each subcommand.

`machine` has the arguments, files and environments that they share, `session` a session of several checks. `figures/`
has the parts of `papers`. `programs/` has what runs plain or with libucudnn.so preloaded, each in a process of its own;
`machine.environment` lets it find harness and ucudnn.
"""
