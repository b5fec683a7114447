"""What an agent's hook starts: it hands the hook to the judge, and prints what the judge says. `python -I -S client.py
AGENT [SECONDS] [try]`.

It imports nothing but a few modules of the standard library, since it runs before each call. Whatever goes wrong ends
with a code by which the agent does not run the call, except with `try`, or while a person has paused the guard.
"""

# pathlib takes longer to import than all of this to run:
# ruff: noqa: PTH103, PTH110, PTH111, PTH116, PTH118, PTH123

import os
import socket
import sys
import time

__all__ = [
    "TRY",
    "NoJudge",
    "answer_hook",
    "ask",
    "connect",
    "exchange",
    "guard_folder",
    "is_end",
    "main",
    "paused_until",
]

BLOCKS = 2
"""The exit code by which every agent refuses the call, and reads why on stderr."""
START_SECONDS, ANSWER_SECONDS = 25.0, 30.0
"""How long a judge may take to start, and to answer: in all less than the minute after which agents run the call."""
TRY = "try"
"""The word for a hook that never refuses: its calls are judged, and the trace has what would have come of it."""
MOST_PATH = 100
"""Bytes that the path of a socket may have, nearly."""


class NoJudge(Exception):
    """The judge cannot be asked, and why."""


def guard_folder(*, make: bool = True) -> str:
    """Where the judge's socket, lock and log are. Raises `NoJudge` for a folder that others may use; where it is made,
    also for one whose name is too long for a socket."""
    state = os.environ.get("HOOKSDK_HOME") or os.path.join(
        os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "hooksdk"
    )
    folder = os.environ.get("HOOKSDK_GUARD_DIR") or os.path.join(os.path.expanduser(state), "guard")
    if make:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    elif not os.path.exists(folder):
        return folder
    facts = os.stat(folder)
    if facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise NoJudge(f"{folder} may be used by others. Type: chmod 700 {folder}")
    if make and len(os.fsencode(folder)) > MOST_PATH - len("/judge.sock"):
        raise NoJudge(f"the path {folder} is too long for a socket. Set HOOKSDK_GUARD_DIR to a shorter one")
    return folder


def paused_until() -> float:
    """Until when a person has paused the guard, in seconds since 1970: infinite for one that is off, 0 where it is in
    force."""
    try:
        with open(os.path.join(guard_folder(make=False), "paused"), "rb") as file:
            return float(file.read())
    except (OSError, ValueError, NoJudge):
        return 0.0


def connect(folder: str) -> socket.socket:
    """A connection to the judge, which is started where none runs. Raises `NoJudge`."""
    process = None
    until = time.monotonic() + START_SECONDS
    while True:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(START_SECONDS)
        try:
            connection.connect(os.path.join(folder, "judge.sock"))
            return connection
        except OSError:
            connection.close()
        if process is None or process.poll() == 0:  # a 0 says that another one runs, which may be ending
            process = _start(folder)
        elif process.poll() is not None:
            raise NoJudge(f"the judge does not start. {os.path.join(folder, 'judge.log')} says why")
        if time.monotonic() > until:
            raise NoJudge(f"the judge did not start within {START_SECONDS:g} s")
        time.sleep(0.02)


def _start(folder: str):  # noqa: ANN202 - subprocess is imported only where a judge is started
    import subprocess

    log = os.open(os.path.join(folder, "judge.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "hooksdk", "guard", "judge"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)


def ask(words: str, payload: bytes, wait: float = ANSWER_SECONDS) -> tuple[bool, bytes]:
    """True with what the hook is to print, or False with why there is no answer. Raises `NoJudge` and `OSError`."""
    return exchange(connect(guard_folder()), words, payload, wait)


def exchange(connection: socket.socket, words: str, payload: bytes, wait: float = ANSWER_SECONDS) -> tuple[bool, bytes]:
    """`ask` over a connection that is there, which is closed."""
    with connection:
        connection.settimeout(wait)
        connection.sendall(words.encode() + b"\n" + payload)
        connection.shutdown(socket.SHUT_WR)
        until = time.monotonic() + wait
        answer = b""
        while part := connection.recv(65_536):
            answer += part
            connection.settimeout(max(until - time.monotonic(), 0.001))
    said, _, text = answer.partition(b"\n")
    if said not in (b"answer", b"problem"):
        raise NoJudge("the judge ended in the middle of this call, which was not judged. Try it again")
    return said == b"answer", text


def is_end(payload: bytes) -> bool:
    """True for a hook that may not be refused: an agent whose end is refused goes on for ever."""
    import json

    try:
        name = json.loads(payload)["hook_event_name"]
    except Exception:
        return False
    return name in ("Stop", "SubagentStop", "AfterAgent", "SessionStart", "SessionEnd")


def answer_hook() -> int:
    """Hand the hook on stdin to the judge, print its answer, and answer the exit code."""
    payload, wait = b"", ANSWER_SECONDS
    words = [word for word in sys.argv[1:] if not word[:1].isdigit()]
    seconds = [word for word in sys.argv[1:] if word[:1].isdigit()]
    if os.environ.get("CLAUDE_CODE_ENTRYPOINT") == "sdk-cli":  # `claude -p`: nobody is there who could be asked
        words.append("alone")
    try:
        payload = sys.stdin.buffer.read()
        wait = float(seconds[0]) if seconds else wait
        answered, text = ask(" ".join(words), payload, wait)
        if answered:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
            return 0
    except TimeoutError:
        text = f"the judge did not answer within {wait:g} s".encode()
    except BaseException as error:
        text = f"{type(error).__name__}: {error}".removeprefix("NoJudge: ").encode(errors="replace")
    if TRY in words or is_end(payload) or time.time() < paused_until():
        import json

        sys.stdout.write(json.dumps({"systemMessage": f"hooksdk guard: {text.decode(errors='replace')}"}))
        sys.stdout.flush()
        return 0
    sys.stderr.buffer.write(b"hooksdk guard: " + text + b"\n")
    sys.stderr.buffer.flush()
    return BLOCKS


def main() -> None:
    """End the process with the code of the answer; one that cannot be told refuses the call."""
    code = 0 if TRY in sys.argv else BLOCKS
    try:
        code = answer_hook()
    finally:
        os._exit(code)  # what the end of the interpreter thinks of a closed stdout is nobody's answer


if __name__ == "__main__":
    main()
