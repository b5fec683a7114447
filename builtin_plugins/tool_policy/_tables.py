"""What is known of programs, and of arguments by their names.

A program that stands in none of these tables may run what it is given, so a deny looks at all its arguments. The tables
keep that from denying `grep rm notes.txt`: a program that is missing here costs a denial too much, and never one too
few. To check a table is to know of each program in it that it never does more than the table's comment says.
"""

from __future__ import annotations

import re


def words_in(text: str) -> frozenset[str]:
    """The words of a table: one long text is read more easily than a column of quotes."""
    return frozenset(text.split())


# Programs and words of the shell that run what their arguments name: an allow of one of them allows everything.
LAUNCHERS = words_in("""
    ash awk bash builtin busybox chroot command coproc csh dash docker doas do elif else env eval exec find fish
    flock if ionice ksh nice node nohup parallel perl php podman python python3 ruby script setsid sh source ssh
    stdbuf strace su sudo tcsh then time timeout until watch while xargs zsh .
""")
# Programs before a program, and how many arguments of their own come first.
PREFIXES = dict.fromkeys(words_in("chroot chrt flock gosu taskset timeout"), 1) | dict.fromkeys(
    words_in("""
        builtin busybox command coproc doas env exec ionice ltrace nice nohup parallel setsid stdbuf strace sudo time
        toybox xargs
    """),
    0,
)
# Their options of one letter: those that always take a value (the next word is no program), and those that never do.
OPTIONS = {
    "command": ("", "pvV"),
    "doas": ("Cu", "Lns"),
    "env": ("CSu", "0iv"),
    "exec": ("a", "cl"),
    "flock": ("Ew", "Fenosuvx"),
    "ionice": ("cnpPu", "t"),
    "nice": ("n", ""),
    "parallel": ("CILNPSadjns", "0Xkmqtuvx"),
    "setsid": ("", "cfw"),
    "stdbuf": ("eio", ""),
    "strace": ("Oabeopsu", "CTcdfhikqrtvwxyz"),
    "sudo": ("CDRTUghprtu", "ABEHKPSVbeiklnsv"),
    "time": ("fo", "apqvV"),
    "timeout": ("ks", "fpv"),
    "xargs": ("EILPadns", "0oprtx"),
}
# Programs that add words which they read elsewhere.
APPENDING = frozenset({"parallel", "xargs"})
# Programs with an option `-c` for a line; else they read a file, or their input.
SHELLS = words_in("ash bash cmd csh dash fish ksh mksh powershell pwsh rbash runuser script sh su tcsh zsh")
# What makes one line of its arguments, and how many of its own come first.
JOINING = {"eval": 0, "ssh": 1, "trap": 0, "watch": 0}
# What runs the lines of a file in the shell itself.
SOURCING = frozenset({".", "source"})
# Programs with a language of their own, of which no more is read than the names in it.
CODE = words_in("""
    awk deno ed emacs ex expect gawk gdb lua m4 mawk mysql nawk node nodejs osascript perl php psql python python2
    python3 ruby sqlite3 tclsh vi view vim nvim bun java jshell groovy r rscript julia ghci scala irb ipython make
    ftp sftp telnet crontab at batch
""")
# Programs and words of the shell that run none of their arguments.
QUIET = words_in("""
    [ [[ : test true false echo printf cat ls dir cd pwd pushd popd dirs mkdir rmdir touch chmod chown chgrp head
    tail wc uniq cut tr nl rev tac paste join comm cmp diff fold fmt expand column seq basename dirname realpath
    readlink stat file du df date cal sleep kill killall pkill pgrep pidof ps who whoami id groups uname hostname
    uptime free lsof which whereis whatis apropos type grep egrep fgrep zgrep ag ack export declare typeset local
    readonly unset set shopt let return exit break continue shift wait read mapfile readarray getopts umask ulimit
    history jobs fg bg disown for select tee md5sum sha1sum sha256sum cksum sum od xxd hexdump strings base64 jq yq
    bc expr factor look shuf numfmt tput clear reset tty stty sync locale iconv dos2unix unix2dos gzip gunzip zcat
    bzip2 xz unxz zstd tree nproc arch getconf locate updatedb ping dig host nslookup ifconfig netstat ss logger
    mktemp truncate split csplit tsort
""")
# Programs to which a single word is a package, a page or a file, while an option may hold a line.
NAMING = words_in("""
    apk apropos apt apt-cache apt-get aptitude brew bundle dnf dpkg gem hash info man help mv opam pacman pip pip2
    pip3 port rg rpm snap sort systemctl service tar yum zip unzip zypper
""")
# Programs whose first words are commands of their own, such as `docker image rm`.
GROUPING = words_in("""
    aws az bun cargo compose conda docker docker-compose flyctl gcloud gh glab go gsutil hdfs helm heroku hg kubectl
    mamba minikube npm nerdctl oc pdm pipx pnpm podman poetry rclone rustup s3cmd svn terraform tofu uv vagrant
    virsh yarn
""")
# Commands of theirs that run the words after them.
RUNNING = frozenset({"run", "exec", "x", "dlx", "shell", "tool", "dev"})
# Commands of git that run a line.
GIT_RUNS = words_in("""
    bisect submodule rebase filter-branch difftool mergetool for-each-repo subtree maintenance config var
""")
# Programs that touch no file: `test` and `[` only ask whether there is one.
NOTHING = words_in("""
    : [ [[ break cd continue dirs echo exit export false for id popd printf ps pushd pwd return seq shift sleep test
    true type uname unset wait which whoami
""")
# Programs that read files, and have no option that writes.
READING = words_in("""
    base64 basename cat cksum cmp column comm cut df diff dirname du egrep expand fgrep fold grep head hexdump jq ls
    md5sum nl od paste readlink realpath rev sha1sum sha256sum stat strings tac tail tr wc zcat zgrep
""")
# Programs that change the files which they are given, and reach nobody.
WRITING = frozenset({"chgrp", "chmod", "chown", "mkdir", "rm", "rmdir", "tee", "touch", "truncate", "unlink"})
# Programs that read all but the last file that they are given, and write that one.
COPYING = frozenset({"cp", "install", "ln"})
# Programs whose first argument is a pattern.
SEARCHING = frozenset({"egrep", "fgrep", "grep", "jq", "rg", "sed", "zgrep"})
# Commands of git that only read.
GIT_READS = words_in("""
    blame cat-file describe diff log ls-files ls-tree merge-base rev-list rev-parse shortlog show status
""")
# Commands of git that change files and reach nobody.
GIT_STAYS = words_in("""
    add apply branch checkout cherry-pick clean commit init merge mv rebase reset restore revert rm stash switch tag
    worktree
""")
# Programs whose names begin no sentence, so that a text which begins with one is a command line.
BEGINNING_A_LINE = words_in("""
    apt-get awk bash cd chmod chown cp crontab curl dd docker eval git grep kubectl ln ls mkfs mv nc node npm npx
    perl pip powershell python python3 rm rmdir rsync scp sed sh ssh sudo systemctl tar wget xargs zsh
""")
_RECURSIVE = re.compile(r"-[a-zA-Z]*[rR]|--rec")
# Programs that may go through whole folders, and the arguments with which they do.
GOES_DOWN = {
    **dict.fromkeys(["chgrp", "chmod", "chown", "cp", "egrep", "fgrep", "grep", "rm", "zgrep"], _RECURSIVE),
    **dict.fromkeys(("rsync", "scp", "zip"), re.compile(r"-[a-zA-Z]*[ar]|--rec|--arch")),
    "find": re.compile(r"-(?:exec|ok|delete)"),
    "git": re.compile("--no-index"),
    "rg": re.compile(""),
    "tar": re.compile(r"-?[a-zA-Z]*[cru]|--cr|--app|--up"),
}

# The last words of the names of arguments that hold a command line, such as `shell_command`.
LINE_NAMES = words_in("command commands cmd cmds cmdline commandline script shell bash exec argv program executable")
# The last words of the names of arguments that hold a path.
PATH_NAMES = words_in("""
    path paths file files filename filenames filepath filepaths pathname dir dirs directory directories folder
    folders cwd root roots workdir src source sources dst dest destination target targets location
""")
# The last two words of such names, where the last one alone says nothing.
PATH_PAIRS = {("file", "name"), ("file", "names"), ("folder", "name"), ("directory", "name"), ("path", "name")}
# The last words of the names of arguments that hold an address of the web.
HOST_NAMES = words_in("""
    url urls uri uris link links href endpoint host hosts hostname domain domains site website address server origin
    webhook callback proxy
""")
# The last words of the names of arguments that say in which folder a command line starts.
FOLDER_NAMES = frozenset({"cwd", "workdir", "dir", "directory"})
# The last two words of such names, where the last one alone says less.
FOLDER_PAIRS = {("dir", "path"), ("directory", "path"), ("folder", "path")}
# The last words of the names of arguments that hold more words for the command line beside them.
WORDS_NAMES = frozenset({"args", "arguments", "argv", "params", "parameters", "options", "flags"})
# The last words of the names of arguments that hold what that command line reads.
INPUT_NAMES = frozenset({"stdin", "input"})
