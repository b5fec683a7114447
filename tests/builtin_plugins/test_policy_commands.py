"""Rules about programs and about commands of programs: what a line may run, through whatever runs it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_policy_conditions import SHELL, SILENT, TEXT, allows, denies, make

from builtin_plugins.tool_policy import ToolPolicy
from builtin_plugins.tool_policy._shell import read_line

PUSH = "git push"


def denied(line: object, command: str = PUSH) -> bool:
    return denies(SHELL, {"command": line}, command=command)


# Commands of programs

SPELLINGS = [*r"""
git push
git -C . push
git --git-dir=x push
git --git-dir x push
git -c a=b push
git -c core.sshCommand='x y' -C /a push
git --no-pager push
git -p push
git $X push
git -C "$D" push
git 'push'
git pu""sh
git pu\sh
git pus{h,}
{git,push}
git {push,origin}
git pus?
git p*
g=push; git $g
set -- push; git $1
git "$@"
git $(echo push)
git `echo push`
git${IFS}push
$'git' $'push'
$'\x67it' push
G=git; $G push
X="git push"; $X
/usr/bin/git push
GIT push
git.exe push
git-push origin
/usr/lib/git-core/git-push
env X=1 git push
sudo -u x git push
command git push
exec -a x git push
timeout 5 git push
nice -n 5 git push
nohup git push &
chronic git push
uv run git push
docker run -v .:/x img git push
xargs git push
xargs git
xargs -I% git %
echo push | xargs git
xargs -I{} git {} <<< push
find . -exec git push \;
parallel git push ::: a
sh -c 'git push'
bash -lc 'git push'
bash -c 'git "$0"' push
bash -c '"$0" "$1"' git push
bash <<< 'git push'
echo git push | sh
printf '%s %s' git push | sh
sh < <(echo git push)
. /dev/stdin <<< 'git push'
base64 -d <<< Z2l0IHB1c2g= | sh
eval git push
eval "git" "push"
eval "$(echo Z2l0IHB1c2g= | base64 -d)"
trap 'git push' EXIT
watch git push
ssh host git push
env -S'git push'
tmux new -d 'git push'
alias p='git push'; p
git -c alias.p=push p
git config alias.p push; git p
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.p GIT_CONFIG_VALUE_0=push git p
git -c core.pager='git push' log
PAGER='git push' git log
ssh -o ProxyCommand='git push' host
git submodule foreach git push
git rebase -x 'git push' HEAD~1
git bisect run git push
f() { git "$@"; }; f push
if true; then git push; fi
for i in 1; do git push; done
case x in x) git push;; esac
echo "$(git push)"
cat <(git push)
python3 -c 'import subprocess; subprocess.run(["git", "push"])'
perl -e 'system("git push")'
make -f - <<< 'x:; git push'
echo 'git push' > s.sh; bash s.sh
""".strip().split("\n"), "git \\\npush", "git\\\npush", "cat <<EOF | sh\ngit push\nEOF", "bash <<EOF\ngit push\nEOF", "true\ngit push"]  # fmt: skip


@pytest.mark.light(every=9)
@pytest.mark.parametrize("line", SPELLINGS)
def test_a_denied_command_of_a_program_is_denied_in_every_spelling(line: str):
    assert denied(line)
    assert denies(SILENT, {"command": line}, command={"command": ["npm publish", PUSH]})


OTHER_LINES = [*r"""
git commit -m "push"
git commit -m "git push later"
git commit -m "$MSG"
git log --grep push
git log --author push
git checkout push
git checkout "$BRANCH"
git add $FILES
git branch push
git diff HEAD -- push
git stash
git -C . status
git pull --rebase
git ls-files | xargs grep push
sudo git status
echo git push
echo 'git push' > notes.txt
grep 'git push' -r .
cat push.txt
python push.py
npm run push
docker push x
find . -name push
bash script.sh
cd $DIR && make
for f in *.py; do python $f; done
""".strip().split("\n"),
    "cat <<EOF > x\ngit push\nEOF", "git commit -F - <<EOF\ngit push\nEOF", "git commit -m \"$(cat <<'EOF'\nit's git push\nEOF\n)\"",
]  # fmt: skip


@pytest.mark.parametrize("line", OTHER_LINES)
def test_a_line_that_only_names_a_denied_command_is_not_denied(line: str):
    assert not denied(line)


@pytest.mark.parametrize(
    ("command", "line", "fits"),
    [
        ("npm publish", "npm --registry x publish", True), ("npm publish", "npm publ", True), ("npm publish", "npm run publish", False),
        ("npm publish", "npm install", False), ("git commit-tree", "git commit -m x", False),
        ("gh repo delete", "gh -R a/b repo --yes delete x", True), ("gh repo delete", "gh repo view", False),
        ("docker compose up", "docker-compose -f x up", True), ("docker compose up", "docker compose down", False),
        ("git stash push", "git stash push -m x", True), ("git stash push", "git push", False),
    ],
)  # fmt: skip
def test_options_between_the_words_and_shorter_forms_count(command: str, line: str, fits: bool):
    assert denied(line, command) is fits


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": ["git", "push"]}, {"command": ["sh", "-c", "git push"]}, {"command": ["sudo", "git", "-C", ".", "push"]},
        {"command": "git", "args": ["push"]}, {"command": "git", "args": "push"}, {"program": "git", "arguments": ["-C", ".", "push"]},
        {"command": "sh", "args": ["-c", "git push"]}, {"command": "bash", "stdin": "git push"}, {"args": ["git", "push"]},
        {"run": {"cmd": "git", "args": ["push"]}}, {"command": "git status", "args": ["; git push"]}, {"command": 5}, {"command": {"git push": 1}},
        {"x": "git push"}, {"x": ["true", "git push"]},
    ],
)  # fmt: skip
def test_a_line_in_several_arguments_is_read_as_one(arguments: dict[str, Any]):
    assert denies(SILENT, arguments, command=PUSH)


def test_arguments_that_are_no_line_are_left_alone():
    for arguments in (
        {"command": ["git", "commit", "-m", "push"]},
        {"command": "git", "args": ["status"]},
        {"query": "how do I git-push?"},
    ):
        assert not denies(SILENT, arguments, command=PUSH)


@pytest.mark.parametrize("line", ["git status", "git status -s && git log", "'git' log --all", "git log | git status"])
def test_an_allow_fits_the_listed_commands_of_a_program(line: str):
    assert allows(SHELL, {"command": line}, command=["git status", "git log"])


@pytest.mark.parametrize(
    "line",
    [
        "git", "git push", "git -C x status", "git --no-pager log", "git -c a=b log", "git statusx", "git status; git push", "git $X status",
        "git st{atus,}", "git status > x", "echo status", "git st*", "/usr/bin/git status", "gitstatus", "git 'status log'", "git-status",
    ],
)  # fmt: skip
def test_an_allow_fits_no_other_command_and_none_behind_an_option(line: str):
    assert not allows(SHELL, {"command": line}, command=["git status", "git log"])


def test_an_allow_looks_at_the_arguments_beside_a_command():
    tool = make(command=TEXT, args={"type": "array"})
    assert allows(tool, {"command": "git", "args": ["status", "-s"]}, command="git status")
    assert not allows(tool, {"command": "git", "args": ["push"]}, command="git status")
    assert not allows(tool, {"command": "git status", "args": ["; rm x"]}, command="git status")
    assert not allows(tool, {"command": "git", "args": ["status", "$(rm x)"]}, command="git")


@pytest.mark.parametrize(
    ("command", "problem"),
    [("git push --force", "names the option '--force'"), ("rm -rf", "names the option '-rf'"), ("git  push", "one blank"), ("git 'push'", "is not a program")],
)  # fmt: skip
def test_what_is_no_command_of_a_program_is_refused(command: str, problem: str):
    with pytest.raises(ValueError, match=problem):
        ToolPolicy.Config.model_validate({"rules": [{"action": "deny", "command": command}]})


# The ways around a denied program that were counted before

WAYS_AROUND = [
    "rm F", "ls && rm F", "/bin/rm F", "timeout 5 rm F", "env A=1 rm F", "bash -c 'rm F'", "r''m F", "$(echo rm) F", "setsid rm F",
    "find . -name F -exec rm {} +", "echo F | xargs rm", "cp /bin/rm ./x && ./x F", "busybox rm F || command rm F", "flock l rm F",
    "eval 'rm F'", "ionice rm F", '"$D/rm" F', 'chronic "$D/rm" F',
]  # fmt: skip


@pytest.mark.parametrize("line", WAYS_AROUND)
def test_a_way_around_a_denied_program_is_denied(line: str):
    assert denied(line, "rm")


@pytest.mark.parametrize(
    "line", ["unlink F", "python3 -c 'import os; os.remove(\"F\")'", "git clean -fdx", "./old-copy-of-rm F"]
)
def test_another_program_that_does_the_same_passes_as_the_page_says(line: str):
    assert not denied(line, "rm")


@pytest.mark.parametrize(
    "line",
    [
        "git rm x", "sudo git rm x", "docker rm x", "docker image rm x", "aws s3 rm x", "man rm", "which rm", "command -v rm", "grep rm x", "ls rm",
        "apt-get install -y rm", "env A=rm ls", "find . -name rm", "python x.py $A", 'cd "$D" && ls', 'echo "$(date)"', "ls `pwd`", "[[ $a == rm ]]",
        'awk "{print $1}" f', 'case "$1" in rm) ls;; esac', "x=(rm a)", 'ssh "$HOST" uptime', "find . | xargs", "find . -exec sh -c 'wc -l {}' \\;",
        'trap "echo bye" EXIT', "cat a.sql | psql", "echo $((1 + 2))", "if [ -f rm ]; then ls; fi",
    ],
)  # fmt: skip
def test_a_line_that_runs_another_program_is_not_denied(line: str):
    assert not denied(line, "rm")


def test_a_file_that_a_line_writes_is_no_line_however_long():
    text = "cat <<'EOF' > notes.md\n" + "Don't `rm` it: $(rm x) \"rm\n" * 500 + "EOF\n"
    assert len(text) > 10_000
    assert not denied(text, "rm")
    assert denied(text + "rm x", "rm")
    assert denied(text.replace("'EOF'", "EOF"), "rm")


# Whatever stands in a line

PIECES = st.sampled_from([
    "rm", "git", "push", "x", " ", " ", " ", ";", "|", "&&", "&", "\n", "'", '"', "\\", "$", "$(", "`", ")", "(", "{", "}", ",", "#", "<", ">",
    "<<E\n", "\nE\n", "<<<", "<(", "$X", "${", "$((", "))", "[[ ", " ]]", "case x in ", ";;", "esac", "sh -c ", "eval ", "xargs ", "find . -exec ",
    "sudo ", "echo ", "-x", "A=", "*", "[", "]", "$'", "\\x72", "!", "\0", "\x01", "\u2028", "{{secret:A}}", "if ", "; then ", "; fi", "f() ",
])  # fmt: skip
LINES = st.lists(PIECES, max_size=25).map("".join)
WRAPPERS = [
    "true; {}\n", "(\n{}\n)", "{{\n{}\n}}", "if true; then\n{}\nfi", "echo $(\n{}\n)", "x=`true`\n{}", "sh -c {q}", "eval {q}", "sudo bash -c {q}",
    "trap {q} EXIT", "env A=1 sh -c {q}", "ssh host {q}", "xargs sh -c {q}", "find . -exec sh -c {q} \\;", "timeout 5 bash -c {q}", "echo x && {}",
]  # fmt: skip


@pytest.mark.heavy
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(line=LINES, wrapper=st.sampled_from(WRAPPERS), command=st.sampled_from(["rm", PUSH]))
@example(line="rm x", wrapper="sh -c {q}", command="rm")
@example(line="xargs sh -c ", wrapper="trap {q} EXIT", command="rm")
@example(line="A='", wrapper="ssh host {q}", command="rm")
def test_what_is_denied_is_denied_in_whatever_runs_it(line: str, wrapper: str, command: str):
    if line.startswith("-") or not denied(line, command):  # what begins so is an option to most of them
        return
    if "{q}" not in wrapper and read_line(line).broken:  # what follows may close what it leaves open
        return
    if "(" in wrapper and line.count(")") > line.count("("):  # it may close what the wrapper opens
        return
    assert denied(wrapper.format(line, q=shlex.quote(line)), command)


@settings(max_examples=400, deadline=None)
@given(words=st.lists(st.sampled_from(["git", "ls", "rm", "push", "'a b'", '"c"', "-x", "a=b", "x/y", "*.py"]), min_size=1, max_size=6), joint=st.sampled_from(["; ", " && ", " | ", " "]))  # fmt: skip
def test_a_line_that_surely_runs_one_program_is_not_denied_for_another(words: list[str], joint: str):
    line = joint.join(words)
    if allows(SHELL, {"command": line}, command=["git", "ls"]):
        assert not denied(line, "rm")


@pytest.mark.heavy
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])  # fmt: skip
@given(line=st.lists(st.sampled_from([
    "target", "tool push", " ", " ", ";", "|", "&&", "\n", "'", '"', "''", "$(", ")", "(", "{ ", "; }", "{target,x}", "#", "<<E\n", "\nE\n", "<<<", "<(",
    "sh -c ", "eval ", "bash ", "A=", "$A", "env ", "xargs ", "if true; then ", "; fi", "case x in x) ", ";; esac", "[[ x ]] && ", "$'\\x74'", "tar", "get",
    "echo ", "| sh", "! ", "f() { ", "}; f", "trap ", " EXIT", "timeout 5 ", "printf ",
]), min_size=1, max_size=9).map("".join))  # fmt: skip
@example(line="A=tar; ${A}get")
@example(line="'case' x in y; target")
def test_whatever_a_real_shell_runs_is_denied(line: str, tmp_path: Path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    programs = tmp_path / "programs"
    if not programs.exists():
        programs.mkdir()
        (programs / "target").write_text('#!/bin/sh\necho >> "$MARKS/target"\n')
        (programs / "tool").write_text('#!/bin/sh\n[ "$1" = push ] && echo >> "$MARKS/tool push"\nexit 0\n')
        for name in ("target", "tool"):
            (programs / name).chmod(0o755)
        for name in ("sh", "bash", "env", "xargs", "timeout", "cat"):
            (programs / name).symlink_to(shutil.which(name) or bash)
    marks = tmp_path / "marks"
    shutil.rmtree(marks, ignore_errors=True)
    marks.mkdir()
    environment = {"PATH": str(programs), "MARKS": str(marks)}
    subprocess.run([bash, "-c", line], cwd=marks, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)  # fmt: skip
    for command in ("target", "tool push"):
        if (marks / command).exists():
            assert denied(line, command)


@pytest.mark.in_ci(every=5)
@pytest.mark.heavy
@pytest.mark.parametrize(
    "text",
    ["(" * 30_000, "$(" * 15_000, "${" * 15_000, "`" * 30_000, "{" * 30_000, "{a,b}" * 6000, "{a," * 5000 + "}" * 5000, "<<a " * 7000, "<<a\n" * 7000,
     '"$(' * 10_000, "case x in " * 3000, "sudo -a " * 4000, "sh -c 'sh -c " * 2000, "git -a " * 4000, "a=" * 15_000, "xargs " * 5000, "eval 'a b' " * 2500,
     "rm;" * 30_000, "f 'x y' " * 4000, "find -exec " * 2500, "ssh a " * 5000, "[[ " * 10_000, "$'" * 15_000, "=a b" * 7000],
)  # fmt: skip
def test_a_hostile_line_is_judged_in_a_bounded_number_of_steps(text: str):
    for line in (text, f"sh -c {shlex.quote(text)}"):
        denied(line, "no-such-program")
