"""A line is judged by the folders that it goes to, however these are written."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_policy_conditions import allows, denies
from test_policy_does import BASH

from builtin_plugins.tool_policy._does import parts_of_line

CANARY = "canary-5d1f"
SSH: dict[str, Any] = {"path_inside": "~/.ssh"}
READS: dict[str, Any] = {"does": ["read", "write"], **SSH}
OUTSIDE: dict[str, Any] = {"does": "write", "path_outside": "."}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a key in it, a project two folders below, and a link from there to where the key lies."""
    home = tmp_path / "ada"
    (home / "work" / "app" / "src").mkdir(parents=True)
    (home / "work" / "app" / "link").symlink_to(home / ".ssh")
    (home / ".ssh").mkdir()
    (home / ".ssh" / "config").write_text(f"{CANARY}\n")
    monkeypatch.setenv("HOME", str(home))
    return home


def project(home: Path) -> str:
    return str(home / "work" / "app")


READING = r"""
cd ~/.ssh && cat config
cd ~/.ssh; cat config
cd && cat .ssh/config
cd; cat .ssh/config
cd -- && cat .ssh/config
cd -P && cat .ssh/config
cd -P -- ~/.ssh && cat config
cd ~ && cat .ssh/config
cd ~/ && cd .ssh && cat config
cd ~ && cd nowhere; cd .ssh && cat config
cd "$HOME" && cat .ssh/config
cd $HOME/.ssh && cat config
cd "${HOME}/.ssh" && cat config
cd ~/.ssh && cat *
cd ~/.ssh && grep -rh canary
cd ~/.ssh && grep -r '' .
cd ~/.ssh || exit; cat config
cd nowhere || cd ~/.ssh; cat config
cd ~/.s*h && cat config
cd ~/.[s]sh && cat config
cd ~/.ss? && cat config
cd $HOME/.s* && cat config
cat ~/.[s]sh/*
cat ~/.ss?/config
cat $HOME/.s*/config
cat ~/.s*h/con*
cat ~/{.ssh,nowhere}/config
d=~/.ssh; cd $d; cat config
d=~/.ssh && cd "$d" && cat config
d=.ssh; cat ~/$d/*
d=.ssh; cat "$HOME/$d/config"
d=$HOME; e=$d/.ssh; cat $e/config
d=$HOME; e=$d/.ssh; cd $e && cat config
d=h; cat ~/.ss$d/config
export d=~/.ssh; cd $d && cat config
for d in ~/.ssh; do cd $d; cat config; done
for d in a ~/.ssh; do (cd "$d" && cat config); done
for d in ~ .ssh; do cd "$d"; done; cat config
for d in .ssh; do cat ~/$d/config; done
if cd ~; then cat .ssh/config; fi
while cd ~/.ssh; do cat config; break; done
while [ ! -d .ssh ]; do cd ..; done; cat .ssh/config
until [ -d .ssh ]; do cd ..; done; cd .ssh; cat config
for i in 1 2; do cd ..; done; cat .ssh/config
cd ../..; cat .ssh/config
cd .. && cd .. && cat .ssh/config
cd src && cd ../../.. && cat .ssh/config
false && cd src; cd ../..; cat .ssh/config
cd src; cd ../../../.ssh; cat config
(cd ~; cat .ssh/config)
{ cd ~; cat .ssh/config; }
x=$(cd ~ && cat .ssh/config); echo "$x"
cat $(cd ~ && pwd)/.ssh/config
cat "$(cd ~/.ssh && pwd)/config"
cat "$(cd ~/.ssh; pwd -P)"/config
cd "$(cd ~/.ssh && pwd)" && cat config
cd $(echo ~/.ssh) && cat config
cd `echo ~`/.ssh && cat config
cd "$(dirname ~/.ssh/config)" && cat config
pushd ~ >/dev/null; cat .ssh/config
pushd ~/.ssh >/dev/null && cat config
pushd ~/.ssh >/dev/null; pushd / >/dev/null; pushd +1 >/dev/null; cat config
pushd ~/.ssh >/dev/null; pushd / >/dev/null; popd >/dev/null; cat config
pushd ~ >/dev/null; pushd / >/dev/null; popd >/dev/null; cat .ssh/config
cd ~/.ssh; cd /; cd - >/dev/null; cat config
cd ~; cd /; cat ~-/.ssh/config
cd ~/.ssh; cd /; cat "$OLDPWD/config"
cd ~; cat ~+/.ssh/config
cd ~; cat $PWD/.ssh/config
cd ~; cat "$(pwd)/.ssh/config"
builtin cd ~; cat .ssh/config
command cd ~ && cat .ssh/config
\cd ~ && cat .ssh/config
c''d ~ && cat .ssh/config
eval cd ~ && cat .ssh/config
eval 'cd ~/.ssh'; cat config
eval "cd ~; cat .ssh/config"
env -C ~ cat .ssh/config
env --chdir="$HOME" cat .ssh/config
env -C ~/.ssh cat config
make -s -C ~/.ssh -f - <<< 'x:;@cat config'
tar -C ~ -cf - .ssh
tar -cC ~/.ssh config
tar --directory="$HOME/.ssh" -c config
git -C ~/.ssh grep --no-index canary
git -C ~ diff --no-index /dev/null .ssh/config
bash -c 'cd ~ && cat .ssh/config'
sh -c "cd ~/.ssh; cat config"
bash -c 'cd "$1" && cat config' _ ~/.ssh
bash -c "cd ~ && sh -c 'cat .ssh/config'"
bash <<< 'cd ~/.ssh; cat config'
f() { cd ~; cat .ssh/config; }; f
f() { cd "$1"; cat config; }; f ~/.ssh
f() { cat "$1/config"; }; f ~/.ssh
f() { cd ..; }; f; f; cat .ssh/config
set -- ~/.ssh; cd $1; cat config
HOME=~/.ssh; cd; cat config
HOME=~/.ssh cd && cat config
HOME=~/.ssh; cat ~/config
HOME=~/.ssh; cat $HOME/config
export HOME=$HOME/.ssh; cd && cat config
CDPATH=~ cd .ssh >/dev/null && cat config
export CDPATH=/:$HOME; cd .ssh >/dev/null; cat config
CDPATH=~; cd .ssh; cat config
read d <<< ~/.ssh; cd $d; cat config
d=/; read d <<< ~/.ssh; cd $d; cat config
printf -v d %s ~/.ssh; cd $d; cat config
: ${d:=~/.ssh}; cd "$d"; cat config
d=x; d+=y; d=~; d+=/.ssh; cd $d; cat config
d=(~/.ssh); cd ${d[0]}; cat config
d=; cd $d && cat .ssh/config
d=~/.ssh/x; cd ${d%/*}; cat config
d=~/.ssx; cd ${d/x/h}; cat config
cd link && cat config
cd src/../link && cat config
cd src && cat ../link/config
cd src && cd ../link && cat config
shopt -s dotglob; cd ~; for d in *; do (cd "$d" && cat config); done
find ~/.ssh -type f -exec cat {} +
find ~ -name config -path '*/.ssh/*' -exec cat {} +
grep -r '' ~
cd ~ && grep -r ''
grep -rh canary ../..
cd /; find "$HOME" -type f -exec cat {} +
tar -cf - ~
tar -C ~ -cf - .
ls -d ~/.ssh/* | xargs cat
ls ~/.ssh | (cd ~/.ssh; xargs cat)
cd ~/.ssh | cat; cd ~/.ssh && head -5 < config
cd ~/.ssh && python3 -c 'print(open("config").read())'
cd ~/.ssh && exec cat config
cd ~ && : && true && cat ./.ssh/config
cd ~ && cat ./work/../.ssh/config
cd /; cd "$HOME"/work/..; cat .ssh/config
cd ${HOME%/}; cat .ssh/config
cd -L ~ && cat .ssh/config
time cd ~/.ssh; cat config
! cd ~; cat .ssh/config
case x in x) cd ~;; esac; cat .ssh/config
cd ~ & cd ~/.ssh; cat config
cd ~/.ssh 2>/dev/null && cat config
cd <<< x ~/.ssh; cat config
cat ${X:-$HOME/.ssh}/config
d=${X:-~/.ssh}; cat $d/config
cat "${HOME#x}/.s"*/config
cat lin?/config
cd l*; cat config
cd src; cat ../l*/config
cat ../*/l*/config
while read f; do cat $f; done <<< ~/.ssh/config
echo ~ | xargs -I{} cat {}/.ssh/config
echo ~ | xargs -I % cat %/.ssh/config
bash -c "$(echo 'cd ~/.ssh; cat config')"
bash -c "$(echo 'cd; cat .ssh/config')"
printf 'cd ~/.ssh\ncat config\n' | sh
printf 'cd\ncat .ssh/config\n' | sh
`echo cd` ~; cat .ssh/config
: ~/.ssh; cat $_/config
test -d ~/.ssh && cd $_ && cat config
declare -n r=HOME; cd $r/.ssh; cat config
OLDPWD=~/.ssh; cat ~-/config
PWD=~/.ssh; cat ~+/config
git -C ~ grep --no-index canary
shopt -s cdable_vars; d=~; cd d; cat .ssh/config
""".strip().splitlines()
"""Each prints the key, in bash, from the project."""


@pytest.mark.light(every=9)
@pytest.mark.parametrize("line", READING)
def test_a_line_that_goes_to_a_denied_folder_is_denied(line: str, home: Path):
    assert denies(BASH, {"command": line}, project(home), **READS)
    assert denies(BASH, {"command": line}, project(home), **SSH)
    assert not allows(BASH, {"command": line}, project(home), does="read", path_inside=".")


@pytest.mark.parametrize(
    "line",
    [
        "cd $X && cat config", 'cd "$X"; cat config', "cd $(nobody knows) && ls sub", "cd ~nobody-of-this-name && cat config", "cd - && cat config",
        "pushd +2; cat config", "popd; cat config", 'git -C "$X" show :config', "make -C $X config", "for d in $(cat dirs); do (cd $d; cat config); done",
        "x=$(cd $X && cat config)", "cd a .ssh && cat config", ";".join(f"cd d{at}" for at in range(60)) + "; cat config",
    ],
    ids=lambda line: line[:50],
)  # fmt: skip
def test_a_folder_that_nobody_knows_may_be_any(line: str, home: Path):
    assert denies(BASH, {"command": line}, project(home), **READS)
    assert denies(BASH, {"command": line}, project(home), **SSH)


HARMLESS = r"""
cd src && ls
cd src && cat ../README.md
cd "$(git rev-parse --show-toplevel)" && make
cd "$(git rev-parse --show-toplevel)" && npm test
cd $(git rev-parse --show-toplevel) && cat README.md
for f in src/*.py; do cat "$f"; done
for f in src/*.py; do wc -l $f; done
cd .. && ls
cd ../other && git status
cd src && pytest tests && cd ..
(cd src && npm test)
(cd packages/a && npm run build) && (cd packages/b && npm run build)
for d in packages/*; do (cd "$d" && npm test); done
for d in packages/*/; do cd "$d"; npm test; cd ..; done
for d in a b c; do (cd $d && make test); done
for d in a b; do cd $d; cat package.json; cd -; done
pushd src && make test && popd
pushd src > /dev/null; cat main.py; popd > /dev/null
cd src && grep -rn TODO . | head -20; cd -
grep -rn TODO .
rm -rf build && cp -r src build
cd "$PWD" && ls -la
cd $(pwd)/src && cat main.py
cat $PWD/src/main.py
git -C src log --oneline -5
git -C "$(pwd)" status
make -C src test
tar -C src -czf build.tgz .
d=src; cd $d && cat main.py
ROOT=$PWD; cd src && cat "$ROOT/README.md"
find . -name '*.py' -not -path './.venv/*' | xargs wc -l
find src -name '*.ts' -exec grep -l foo {} +
while read -r f; do head -3 "$f"; done < files.txt
git diff --name-only | while read f; do cat "$f"; done
cd src; for i in 1 2 3; do cat file$i.txt; done
cd frontend && npm ci && npm run build && cd ../backend && pytest tests
cd build && cmake .. && make -j4
if [ -d src ]; then cd src && ls; fi
bash -c 'cd src && cat main.py'
docker run --rm -v "$PWD":/app -w /app node npm test
git commit -m "docs: cd \$DIR first, then cat config"
export PATH=$HOME/bin:$PATH; node app.js
ls ~/project
cat "$HOME/.bashrc" | head
cd "$PROJECT" && make
mkdir -p build && cd $_ && cmake .. && cat CMakeCache.txt
cat lib*/config
echo $(cat VERSION); cat README.md
cat ${FILE:-a.txt}
ls | xargs -I{} mv {} {}.bak
printf 'cd build\nmake\n' > run.sh && bash run.sh
echo "cd src, then cat x" | tee notes.txt
VENV=.venv; source $VENV/bin/activate && pytest tests
DIR="$(cd "$(dirname "$0")" && pwd)"; cat "$DIR/x.txt"
""".strip().splitlines()


@pytest.mark.light(every=5)
@pytest.mark.parametrize("line", HARMLESS)
def test_everyday_work_in_a_project_is_left_alone(line: str, home: Path):
    assert not denies(BASH, {"command": line}, project(home), **READS)
    assert not denies(BASH, {"command": line}, project(home), **SSH)


@pytest.mark.parametrize(
    "line",
    ["find . -name '*.pyc' -delete", "rm -rf *.egg-info", "chmod -R +x *.sh", "shopt -s extglob; rm -r !(keep).txt", "mkdir -p a/b && cp x $_"],
)  # fmt: skip
def test_what_stays_in_a_project_is_not_outside(line: str, home: Path):
    assert not denies(BASH, {"command": line}, project(home), **OUTSIDE)


def test_a_pattern_that_is_a_link_leads_outside(home: Path):
    assert denies(BASH, {"command": "echo x > lin[k]/config"}, project(home), **OUTSIDE)


@pytest.mark.heavy
@pytest.mark.parametrize("command", ["eval cd a", "xargs cat", "cat {a,b}{c,d}{e,f}"])
def test_equal_commands_are_judged_once(command: str):
    """Some thousands took minutes, in which no other agent was answered."""
    parts = parts_of_line(f"{command};" * 1000)
    assert parts is not None
    assert len(parts) == 1


# A line and its twin with the folder written out

ABSOLUTE = {
    "~": "{home}", "$HOME": "{home}", '"${HOME}"': "{home}", "~/work": "{home}/work", "~/.ssh": "{home}/.ssh", "$HOME/.ssh": "{home}/.ssh",
    '"$HOME/.config/gh"': "{home}/.config/gh", "~/.ssh/keys/..": "{home}/.ssh", "$HOME/work/app/src": "{home}/work/app/src", "~/../ada": "{home}",
}  # fmt: skip
"""Ways to write a folder that mean the same wherever the line is."""
RELATIVE = {
    ".": "{here}", "src": "{here}/src", "$PWD": "{here}", '"$(pwd)"/src': "{here}/src", "~+/src": "{here}/src", "$PWD/..": "{here}/..",
    "~root": "/root", "../..": "{here}/../..", "../../.ssh": "{here}/../../.ssh", '"$(cd ~ && pwd)"': "{home}", "$(cd ~/.ssh && pwd)": "{home}/.ssh", "link": "{here}/link",
}  # fmt: skip
"""Ways that may mean another one, where the folder before was not gone to or a home is not as here: judged no weaker than the twin."""
FRAMES = [
    "cd @ && cat FILE", "cd @; cat FILE", "(cd @ && cat FILE)", "{ cd @; cat FILE; }", "pushd @ && cat FILE; popd", "builtin cd @; cat FILE",
    "command cd -P -- @ && cat FILE", "if cd @; then cat FILE; fi", "for i in 1 2; do cd @; cat FILE; done", "for d in @; do cd $d; cat FILE; done",
    'for d in a @; do (cd "$d" && cat FILE); done', "while cd @; do cat FILE; break; done", "d=@; cd $d; cat FILE", 'd=@; cd "$d" && cat FILE',
    "export D=@; cd $D; cat FILE", "f() { cd @; cat FILE; }; f", "x=$(cd @; cat FILE)", "cat `cd @ && echo FILE`", "env -C @ cat FILE",
    "git -C @ show FILE", "make -C @ FILE", "tar -C @ -c FILE", "cat @/FILE", "cp @/FILE .", "cd @ && cd - && cat FILE", "cd / && cd @ && cat FILE",
    "cd @ && cd work; cd .ssh && cat FILE", "cd src; cd @; cat FILE", "grep -r x @", "find @ -exec cat {} +", "cd @ && grep -r x .", "touch @/FILE",
    "cd @ && touch FILE", "cd @ && ls", "cat < @/FILE", "echo x > @/FILE", "eval cd @; cat FILE", "HOME=@; cd; cat FILE", "CDPATH=@; cd .ssh; cat FILE",
    "cd nowhere || cd @; cat FILE", "cd @ | true; cd @ && cat FILE", "a=@; b=$a/.ssh; cat $b/FILE",
]  # fmt: skip
FILES = [
    "config",
    ".ssh/config",
    "../.ssh/config",
    "a.txt",
    "work/app/x",
    "*",
    ".s*/config",
    "keys/id",
    "/etc/hosts",
    "~/.ssh/config",
]
RULES: list[dict[str, Any]] = [
    READS,
    SSH,
    OUTSIDE,
    {"does": "read", "path_name": ".ssh"},
    {"path_inside": "~/.config"},
    {"path_inside": "."},
]


@pytest.mark.heavy
@pytest.mark.in_ci(examples=[20])
@pytest.mark.parametrize("examples", [20, pytest.param(400, marks=pytest.mark.heavy)])
def test_a_line_and_its_twin_with_the_folder_written_out_are_judged_alike(examples: int, home: Path):
    @settings(max_examples=examples, deadline=None)
    @given(
        before=st.sampled_from(["", "ls; ", "cd src && ", "true && "]),
        frame=st.sampled_from(FRAMES),
        way=st.sampled_from(sorted(ABSOLUTE | RELATIVE)),
        file=st.sampled_from(FILES),
    )
    def holds(before: str, frame: str, way: str, file: str) -> None:
        here = project(home) + before.startswith("cd") * "/src"
        written = (ABSOLUTE | RELATIVE)[way].format(home=home, here=here)
        line, twin = (before + frame.replace("@", one).replace("FILE", file) for one in (way, written))
        for rule in RULES:
            said = denies(BASH, {"command": line}, project(home), **rule)
            of_twin = denies(BASH, {"command": twin}, project(home), **rule)
            stricter = said and (way in RELATIVE or frame.startswith("HOME"))
            assert said == of_twin or stricter, f"{rule}: {line!r} is {said}, {twin!r} is {of_twin}"
        assert not allows(BASH, {"command": line}, project(home), path_inside=".")

    holds()


# The same in real shells

IN_A_CELL = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork"]
LIMITS = "ulimit -t 5 -f 2000 -v 2000000; "


def printed(line: str, home: Path, shell: str) -> str:
    """What a line prints in a shell without rights and without a network."""
    variables = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    limits = LIMITS if shell == "bash" else LIMITS.replace(" -f", "; ulimit -f").replace(" -v", "; ulimit -v")
    done = subprocess.run(
        [*IN_A_CELL, shell, "-c", limits + line], cwd=project(home), env=variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout.decode(errors="replace")


@pytest.mark.heavy
def test_each_line_of_the_table_prints_the_key(home: Path):
    assert [line for line in READING if CANARY not in printed(line, home, "bash")] == []


@pytest.mark.in_ci(False)
@pytest.mark.heavy
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_no_line_that_prints_the_key_passes(shell: str, home: Path):
    @settings(max_examples=400, deadline=None)
    @given(steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=4), last=st.sampled_from(LAST))
    def holds(steps: list[str], last: str) -> None:
        line = "".join(steps) + last
        (home / "work/app/out").unlink(missing_ok=True)
        if CANARY in printed(line, home, shell):
            seen.append(line)
            assert denies(BASH, {"command": line}, project(home), **READS), line
            assert denies(BASH, {"command": line}, project(home), **SSH), line

    seen: list[str] = []
    holds()
    assert len(set(seen)) > 20, "too few lines open the key"


STEPS = [
    "cd ~; ", "cd; ", "cd ~ && ", "cd ~/.ssh; ", "cd $HOME/.ssh && ", "cd .ssh; ", "cd ..; ", "cd ../..; ", "cd src; ", "cd nowhere; ", "cd nowhere || ", "cd /; ",
    "cd -; ", "cd $d; ", 'cd "$d" && ', "d=~; ", "d=.ssh; ", "d=~/.ssh; ", "d=..; ", "d=$HOME/$d; ", "d=$d/.ssh; ", "d=$PWD; ", "d=$(pwd); ", "cd link; ", "false && ",
    "true && ", "cd ~/.s*; ", "cd .[s]sh; ", "for d in .. ~ .ssh; do cd $d; done; ", "for i in 1 2; do cd ..; done; ", "while [ ! -d .ssh ] && [ $PWD != / ]; do cd ..; done; ",
    "if [ -d .ssh ]; then cd .ssh; fi; ", "f() { cd ..; }; ", "f; ", "HOME=$HOME/.ssh; ", "CDPATH=~; ", "export CDPATH=..; ", "pushd ~; ", "popd; ", "pushd; ",
    "cd work; ", "cd work/../.ssh; ", "x=$(cd ~ && pwd); ", "cd $x; ", "cd $x/.ssh; ", "set -- ~ .ssh; ", "cd $1; ", "cd $2; ", "command cd ~; ", "eval 'cd ~'; ", "unset d; ",
    "OLDPWD=~/.ssh; ", "PWD=~/.ssh; ", "cd $OLDPWD; ", "cd $PWD; ", ": || ",
]  # fmt: skip
LAST = [
    "cat config", "cat .ssh/config", "cat ../.ssh/config", "cat ../../.ssh/config", "cat *", "cat .s*/config", "cat ~/config", "cat $d/config", 'cat "$d"/.ssh/config',
    "cat < config", "(cat config)", "grep -rh canary", "grep -r canary .", "cat $x/.ssh/config", "cat $(pwd)/config", "cat $OLDPWD/config", "cat ~/*/config", "f; cat .ssh/config",
    "sh -c 'cat config'", "find . -name config -exec cat {} +", "head -5 $PWD/.ssh/config", "ls | xargs cat", 'cat "$1/$2/config"',
]  # fmt: skip
