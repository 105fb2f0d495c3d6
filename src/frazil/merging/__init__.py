"""Merging versions: three-way rules on nodes and chunks, and what they make of branches.

Rules are pure functions of snapshots, logs and change sets; `states` reads, and `merge`,
`replay` and `squash` write through an ordinary commit or a compare-and-swap of the branch.
"""
