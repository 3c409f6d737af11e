"""`moldau completion`: what the Tab key offers in bash, zsh and fish.

The script of a shell asks `moldau completion candidates`, which reads the words before the cursor,
one a line, the last one being completed. So a script never goes out of date, and the commands of
plugins complete as ours do.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Final

from moldau.cli.command import Context, Exit
from moldau.cli.summaries import SUMMARIES

_WORDS_BYTES_MAX: Final = 65_536

_BASH: Final = """\
# In ~/.bashrc: eval "$(moldau completion bash)"
_moldau() {
    local IFS=$'\\n'
    COMPREPLY=($(printf '%s\\n' "${COMP_WORDS[@]:1:COMP_CWORD}" |
        "${COMP_WORDS[0]}" completion candidates 2>/dev/null))
}
complete -o default -F _moldau moldau
"""
_ZSH: Final = """\
# In ~/.zshrc, after compinit: eval "$(moldau completion zsh)"
_moldau() {
    local -a found
    found=(${(f)"$(printf '%s\\n' "${(@)words[2,CURRENT]}" |
        "${words[1]}" completion candidates 2>/dev/null)"})
    if (( ${#found} )); then compadd -a found; else _files; fi
}
compdef _moldau moldau
"""
_FISH: Final = """\
# In ~/.config/fish/config.fish: moldau completion fish | source
function __moldau_candidates
    set -l words (commandline -opc)
    printf '%s\\n' $words[2..-1] (commandline -ct | string collect --allow-empty) |
        moldau completion candidates 2>/dev/null
end
complete -c moldau -a '(__moldau_candidates)'
"""
SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


class CompletionCommand:
    """The command `moldau completion`."""

    summary = SUMMARIES["completion"]

    def configure(self, parser: ArgumentParser, /) -> None:
        parser.add_argument(
            "shell", choices=(*SCRIPTS, "candidates"), help="the shell; the scripts ask candidates"
        )

    def run(self, arguments: Namespace, context: Context, /) -> int:
        if arguments.shell in SCRIPTS:
            context.out.write(SCRIPTS[arguments.shell])
            return Exit.DONE
        from moldau.cli.completing import candidates

        text = context.source.read(_WORDS_BYTES_MAX).decode("utf-8", "surrogateescape")
        words = text.removesuffix("\n").split("\n")
        for each in candidates(words, context):
            context.out.write(f"{each}\n")
        return Exit.DONE


command = CompletionCommand()
