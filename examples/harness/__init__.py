"""The shared parts of the programs that measure, here and in scripts/.

arguments   types of command-line arguments, and those that several programs have
budget      a limited time
calls       calls by PyTorch: their times, CUDA graphs of them, errors of their results
children    child processes: one that runs to its end, one whose lines are read meanwhile
columns     tables as text
continued   tables that grow until time is up, and go on behind what is there
cudnn       finds the cuDNN that a program loads
results     files of JSON lines: results, and the library's report
rounds      runs that take turns, and how far they scatter
svg         pictures
testing     what unit tests share
variables   the environment of a run, without the library and under it
"""
