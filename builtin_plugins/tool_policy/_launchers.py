"""What is known of programs: which run what their arguments name, and which only read them.

A program that stands in none of these tables may run what it is given, so a deny looks at all its arguments. The tables keep
that from denying `grep rm notes.txt`; a program that is missing here costs a denial too much, and never one too few.
"""

from __future__ import annotations

LAUNCHERS = frozenset({
    "ash", "awk", "bash", "builtin", "busybox", "chroot", "command", "coproc", "csh", "dash", "docker", "doas", "do",
    "elif", "else", "env", "eval", "exec", "find", "fish", "flock", "if", "ionice", "ksh", "nice", "node", "nohup", "parallel",
    "perl", "php", "podman", "python", "python3", "ruby", "script", "setsid", "sh", "source", "ssh", "stdbuf", "strace", "su",
    "sudo", "tcsh", "then", "time", "timeout", "until", "watch", "while", "xargs", "zsh", ".",
})  # fmt: skip
"""Programs and words of the shell that run what their arguments name: none of them belongs into an allow."""

PREFIXES = {
    "builtin": 0, "busybox": 0, "command": 0, "coproc": 0, "doas": 0, "env": 0, "exec": 0, "ionice": 0, "ltrace": 0, "nice": 0,
    "nohup": 0, "parallel": 0, "setsid": 0, "stdbuf": 0, "strace": 0, "sudo": 0, "time": 0, "toybox": 0, "xargs": 0,
    "chroot": 1, "chrt": 1, "flock": 1, "gosu": 1, "taskset": 1, "timeout": 1,
}  # fmt: skip
"""Programs before a program, and how many arguments of their own come first."""
VALUES = {
    "doas": "Cu", "env": "CSu", "exec": "a", "flock": "Ew", "ionice": "cnpPu", "nice": "n", "parallel": "CILNPSadjns", "stdbuf": "eio",
    "strace": "Oabeopsu", "sudo": "CDRTUghprtu", "time": "fo", "timeout": "ks", "xargs": "EILPadns",
}  # fmt: skip
"""Their options of one letter that always take a value: the next word is no program."""
FLAGS = {
    "command": "pvV", "doas": "Lns", "env": "0iv", "exec": "cl", "flock": "Fenosuvx", "ionice": "t", "parallel": "0Xkmqtuvx", "setsid": "cfw",
    "strace": "CTcdfhikqrtvwxyz", "sudo": "ABEHKPSVbeiklnsv", "time": "apqvV", "timeout": "fpv", "xargs": "0oprtx",
}  # fmt: skip
"""Their options of one letter that never do: the next word may be the program."""
APPENDING = frozenset({"parallel", "xargs"})
"""Programs that add words which they read elsewhere."""

SHELLS = frozenset({
    "ash", "bash", "cmd", "csh", "dash", "fish", "ksh", "mksh", "powershell", "pwsh", "rbash", "runuser", "script", "sh", "su",
    "tcsh", "zsh",
})  # fmt: skip
"""Programs with an option `-c` for a line; else they read a file, or their input."""
JOINING = {"eval": 0, "ssh": 1, "trap": 0, "watch": 0}
"""What makes one line of its arguments, and how many of its own come first."""
SOURCING = frozenset({".", "source"})
CODE = frozenset({
    "awk", "deno", "ed", "emacs", "ex", "expect", "gawk", "gdb", "lua", "m4", "mawk", "mysql", "nawk", "node", "nodejs", "osascript", "perl", "php",
    "psql", "python", "python2", "python3", "ruby", "sqlite3", "tclsh", "vi", "view", "vim", "nvim", "bun", "java", "jshell", "groovy", "r", "rscript",
    "julia", "ghci", "scala", "irb", "ipython", "make", "ftp", "sftp", "telnet", "crontab", "at", "batch",
})  # fmt: skip
"""Programs with a language of their own, of which no more is read than the names in it."""

QUIET = frozenset({
    "[", "[[", ":", "test", "true", "false", "echo", "printf", "cat", "ls", "dir", "cd", "pwd", "pushd", "popd", "dirs", "mkdir", "rmdir",
    "touch", "chmod", "chown", "chgrp", "head", "tail", "wc", "uniq", "cut", "tr", "nl", "rev", "tac", "paste", "join", "comm", "cmp", "diff",
    "fold", "fmt", "expand", "column", "seq", "basename", "dirname", "realpath", "readlink", "stat", "file", "du", "df", "date", "cal", "sleep",
    "kill", "killall", "pkill", "pgrep", "pidof", "ps", "who", "whoami", "id", "groups", "uname", "hostname", "uptime", "free", "lsof", "which",
    "whereis", "whatis", "apropos", "type", "grep", "egrep", "fgrep", "zgrep", "ag", "ack", "export", "declare", "typeset", "local", "readonly", "unset",
    "set", "shopt", "let", "return", "exit", "break", "continue", "shift", "wait", "read", "mapfile", "readarray", "getopts", "umask", "ulimit",
    "history", "jobs", "fg", "bg", "disown", "for", "select", "tee", "md5sum", "sha1sum", "sha256sum", "cksum", "sum", "od", "xxd", "hexdump",
    "strings", "base64", "jq", "yq", "bc", "expr", "factor", "look", "shuf", "numfmt", "tput", "clear", "reset", "tty", "stty", "sync", "locale",
    "iconv", "dos2unix", "unix2dos", "gzip", "gunzip", "zcat", "bzip2", "xz", "unxz", "zstd", "tree", "nproc", "arch", "getconf", "locate", "updatedb",
    "ping", "dig", "host", "nslookup", "ifconfig", "netstat", "ss", "logger", "mktemp", "truncate", "split", "csplit", "tsort",
})  # fmt: skip
"""Programs and words of the shell that run none of their arguments."""
NAMING = frozenset({
    "apk", "apropos", "apt", "apt-cache", "apt-get", "aptitude", "brew", "bundle", "dnf", "dpkg", "gem", "hash", "info", "man", "help", "mv", "opam",
    "pacman", "pip", "pip2", "pip3", "port", "rg", "rpm", "snap", "sort", "systemctl", "service", "tar", "yum", "zip", "unzip", "zypper",
})  # fmt: skip
"""Programs to which a single word is a package, a page or a file, while an option may hold a line."""
GROUPING = frozenset({
    "aws", "az", "bun", "cargo", "compose", "conda", "docker", "docker-compose", "flyctl", "gcloud", "gh", "glab", "go", "gsutil", "hdfs", "helm", "heroku",
    "hg", "kubectl", "mamba", "minikube", "npm", "nerdctl", "oc", "pdm", "pipx", "pnpm", "podman", "poetry", "rclone", "rustup", "s3cmd", "svn",
    "terraform", "tofu", "uv", "vagrant", "virsh", "yarn",
})  # fmt: skip
"""Programs whose first words are commands of their own, such as `docker image rm`."""
RUNNING = frozenset({"run", "exec", "x", "dlx", "shell", "tool", "dev"})
"""Commands of theirs that run the words after them."""
GIT_RUNS = frozenset(
    {
        "bisect",
        "submodule",
        "rebase",
        "filter-branch",
        "difftool",
        "mergetool",
        "for-each-repo",
        "subtree",
        "maintenance",
        "config",
        "var",
    }
)
"""Commands of git that run a line."""
