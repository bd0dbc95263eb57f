"""`kubectl muster`: why a group waits and why it was evicted, queues, GPUs, nodes, and decisions as they are made.

Takes what the command line asks for, reads the API server with the user's own credentials, gives tables for people and
JSON or YAML for programs. Must not write to the cluster, decide anything, or have words of its own for reasons: those
are of `core.explain`, and what stands in objects was made of them.

    console       the command line: arguments, then running; problems are what is said when something cannot be done
    cluster       reading: objects, and live answers where they are installed
    naming        which group or pod a name means
    stated        what objects say of a group, in the form of the live answers
    manifests     pods and groups in files
    why, gangs, queues, top, nodes, history, plan, events: one command each: `gather` reads, `show` makes lines
    record, recording: a trace of what runs, into files on this machine
    tables        columns, colours, and what may not reach a terminal
    completion    for bash, zsh and fish
"""
