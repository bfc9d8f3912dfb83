# Sourced by the EXIT trap of a session's bash, with stdout on the report descriptor: says how it ends and writes down
# what the next bash starts with (see reports.py). Each record is a letter and text, and ends in NUL.
\builtin printf 'X%d\0' "$?"
\builtin printf O
\builtin set +o
\builtin set +eux
\builtin shopt -p expand_aliases
\builtin printf '\0'
\builtin printf S
\builtin shopt -p
\builtin printf '%s\n' 'shopt -u expand_aliases'
\builtin declare -p
\builtin printf 'cd -- %q\n' "$PWD"
\builtin umask -p
\builtin trap -p
\builtin alias -p
\builtin declare -f
\builtin declare -F
\builtin printf '\0'
