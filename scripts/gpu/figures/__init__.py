"""The papers' figures, a module for each kind: `run` measures it, and adds its table.

papers         the session: tools, environments, the time of each part, tables
convnets       runs of convnet in turns, and their times as plans that `ucudnn plot` draws
undercut       Fig. 1: the best algorithm, one byte less, no workspace
desirable      Fig. 8: the desirable set of conv2
policies       Figs. 9 to 11: micro-batch sizes by policy
divided        Figs. 12 and 13: Workspace Division
streams        concurrent branches under Workspace Division
recurrent      GRNN's Table 1, and its performance model
"""
