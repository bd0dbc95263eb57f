"""Completion of commands and options in bash, zsh and fish, and by kubectl itself.

Takes the words of a command line, the last of which is being written, gives candidates. The scripts ask this program,
so that there is one list of commands. Must not ask a cluster: that may take seconds, and a password.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extender.cli import arguments

#: what kubectl's completion takes as "these, and no names of files"
NO_FILES = ":4"

SCRIPTS = {
    "bash": """\
_kubectl_muster() {
    local IFS=$'\\n'
    COMPREPLY=($(kubectl-muster completion ask -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _kubectl_muster kubectl-muster""",
    "zsh": """\
#compdef kubectl-muster
_kubectl_muster() {
    local -a found
    found=("${(@f)$(kubectl-muster completion ask -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -a found
}
compdef _kubectl_muster kubectl-muster""",
    "fish": """\
function __kubectl_muster
    set -l words (commandline -opc) (commandline -ct)
    kubectl-muster completion ask -- $words[2..-1] 2>/dev/null
end
complete -c kubectl-muster -f -a '(__kubectl_muster)'""",
}


def candidates(words: Sequence[str]) -> list[str]:
    """What the last word may become."""
    *before, last = words or [""]
    return sorted(one for one in _all(before) if one.startswith(last))


def _all(before: Sequence[str]) -> Iterator[str]:
    command = next((one for one in arguments.COMMANDS if one.name in before), None)
    own = command.arguments if command is not None else ()
    own += (arguments.ALL,) if command is not None and command.everywhere else ()
    options = (*own, *arguments.OPTIONS)
    asked = next((one for one in options if before and before[-1] in one.flags), None)
    if asked is not None and "action" not in asked.options:  # its value comes next
        yield from asked.options.get("choices", ())
        return
    if arguments.COMPLETION in before:
        yield from arguments.SHELLS
        return
    if command is None:
        yield from (*(one.name for one in arguments.COMMANDS), arguments.COMPLETION)
    for argument in options:
        yield from argument.flags
