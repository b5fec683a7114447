"""What a hostile script tries, and what becomes of it. After each attempt the next script still works."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import pytest
from searching import CATALOG, Search, make, searching

from hooksdk import ToolResult, hooks
from hooksdk.hooks import NarrowTools, Withhold

pytest.importorskip("pydantic_monty", reason="code mode needs the extra 'code'")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]


class Narrow:
    """Withholds the weather."""

    @hooks.narrow_tools
    def narrow(self, event: NarrowTools) -> Withhold:
        return Withhold(["get_forecast"], "no weather here")


RECEIVED: list[Any] = []


def keep(arguments: dict[str, Any]) -> str:
    """A tool that keeps what it was given."""
    RECEIVED.append(arguments)
    return "kept"


TOOLS = [*CATALOG, make("keep", "Keep something.", "keeper").copy(execute=keep)]


@asynccontextmanager
async def attacked(seconds: float = 30) -> AsyncGenerator[Search, None]:
    """A run in code mode whose scripts have so much time. In the end a harmless script must still work."""
    RECEIVED.clear()
    async with searching(TOOLS, Narrow, mode="code", code_timeout=seconds) as played:
        yield played
        assert (
            await attempt(played, 'await call("create_issue", title="x")')
        ).text == '{"value":"ran with {\\"title\\": \\"x\\"}"}'


async def attempt(played: Search, code: str) -> ToolResult:
    """What a script is answered; never more than a bounded text."""
    result = await played.call("tool_search_code", {"code": code})
    assert len(result.text) < 20_000
    return result


def reads_files(folder: Path) -> str:
    (folder / "secret.txt").write_text("the secret", encoding="utf-8")
    return f"open({str(folder / 'secret.txt')!r}).read()"


def reads_through_pathlib(folder: Path) -> str:
    (folder / "secret.txt").write_text("the secret", encoding="utf-8")
    return f"from pathlib import Path\nPath({str(folder / 'secret.txt')!r}).read_text()"


def writes_a_file(folder: Path) -> str:
    return f"open({str(folder / 'written.txt')!r}, 'w').write('x')"


def lists_a_folder(folder: Path) -> str:
    (folder / "the secret").mkdir()
    return f"import os\nos.listdir({str(folder)!r})"


def reads_the_environment(_: Path) -> str:
    return "import os\nos.environ['HOME']"


FILES = [reads_files, reads_through_pathlib, writes_a_file, lists_a_folder, reads_the_environment]


@pytest.mark.parametrize("write", FILES, ids=lambda write: write.__name__)
async def test_files_folders_and_the_environment_are_out_of_reach(write: Any, tmp_path: Path) -> None:
    async with attacked() as played:
        result = await attempt(played, write(tmp_path))
        assert result.is_error
        assert "the secret" not in result.text
        assert os.environ["HOME"] not in result.text
        assert not (tmp_path / "written.txt").exists()


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess\nsubprocess.run(['touch', 'PATH'])",
        "import os\nos.system('touch PATH')",
        "import os\nos.posix_spawn('/bin/touch', ['touch', 'PATH'], {})",
        "__import__('os').system('touch PATH')",
        "import ctypes\nctypes.CDLL(None).system(b'touch PATH')",
        "import pty\npty.spawn(['touch', 'PATH'])",
        "import importlib\nimportlib.import_module('os').system('touch PATH')",
        "await asyncio.create_subprocess_exec('touch', 'PATH')",
    ],
)
async def test_no_process_is_started(code: str, tmp_path: Path) -> None:
    async with attacked() as played:
        assert (await attempt(played, code.replace("PATH", str(tmp_path / "made")))).is_error
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "code",
    [
        "import socket\nsocket.create_connection(('127.0.0.1', PORT))",
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:PORT')",
        "import http.client\nhttp.client.HTTPConnection('127.0.0.1', PORT).request('GET', '/')",
        "await asyncio.open_connection('127.0.0.1', PORT)",
        "import ssl, asyncio\nasyncio.get_event_loop()",
    ],
)
async def test_a_listening_socket_sees_no_connection(code: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        async with attacked() as played:
            assert (await attempt(played, code.replace("PORT", str(server.getsockname()[1])))).is_error
        with pytest.raises(BlockingIOError):
            server.accept()


@contextmanager
def counted_signals() -> Generator[list[int], None, None]:
    """The signals that reach this process."""
    seen: list[int] = []

    def see(number: int, _frame: FrameType | None) -> None:
        seen.append(number)

    before = signal.signal(signal.SIGUSR1, see)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("code", ["import os\nos.kill(PID, 10)", "import signal\nsignal.raise_signal(10)", "import os\nos.kill(os.getppid(), 10)"])  # fmt: skip
async def test_the_parent_gets_no_signal(code: str) -> None:
    with counted_signals() as seen:
        async with attacked() as played:
            assert (await attempt(played, code.replace("PID", str(os.getpid())))).is_error
        assert seen == []


@pytest.mark.parametrize(
    "code",
    [
        "().__class__.__bases__[0].__subclasses__()",
        "type(call).__globals__",
        "call.__globals__['__builtins__']",
        "call.__self__",
        "call.__code__",
        "search.__func__.__globals__",
        "(lambda: 1).__globals__",
        "getattr(call, '__glo' + 'bals__')",
        "[].__class__.__mro__[1].__subclasses__()",
        "type(type(1))('X', (object,), {})",
        "''.__class__.__base__",
        "'{0.__class__.__init__.__globals__}'.format(call)",
        "f'{call.__globals__}'",
        "try:\n  1 / 0\nexcept Exception as error:\n  error.__traceback__.tb_frame.f_back.f_globals",
        "try:\n  await call('nothing')\nexcept Exception as error:\n  error.__traceback__.tb_frame",
        "import sys\nsys.modules['os']",
        "import sys\nsys._getframe(1).f_globals",
        "import builtins\nbuiltins.open('/etc/passwd')",
        "import gc\ngc.get_objects()",
        "import pickle\npickle.loads(b'cos\\nsystem\\n(S\"id\"\\ntR.')",
        "import marshal, types",
        "import builtin_plugins",
        "import hooksdk",
        "exec('import os; os.getcwd' + '()[99]')",
        "compile('1', 'a', 'eval').co_consts.__class__.__bases__",
        "breakpoint()",
        "input()",
        "async def f(): pass\nf().cr_frame.f_back",
    ],
)
async def test_nothing_of_the_host_is_reached_through_objects(code: str) -> None:
    async with attacked() as played:
        result = await attempt(played, code)
        assert result.is_error, result.text
        assert "hooksdk.tools" not in result.text


LIMITS = [
    ("heap_bomb", "x = []\nwhile True:\n  x.append('a' * 1000)", "more than 64 MiB of memory"),
    ("one_large_string", "'a' * 10**9", "more than 64 MiB of memory"),
    ("doubled_string", "x = 'a'\nwhile True:\n  x = x + x", "more than 64 MiB of memory"),
    ("large_list", "list(range(10**9))", "more than 64 MiB of memory"),
    ("nested_tuples", "x = (1, 2)\n" + "x = (*x, *x)\n" * 40, "more than 64 MiB of memory"),
    ("infinite_loop", "while True: pass", "longer than 1 s of its own time"),
    ("loop_that_catches_everything", "while True:\n  try:\n    while True: pass\n  except BaseException: pass", "longer than 1 s"),
    ("one_long_operation", "x = 10**6\nwhile True:\n  x = x * x", "longer than 1 s"),
    ("huge_power", "2 ** (2 ** 40)", "more than 64 MiB of memory"),
    ("recursion", "def down(n): return down(n + 1)\ndown(0)", "RecursionError"),
    ("endless_names", "while True:\n  try:\n    nothing_here\n  except BaseException: pass", "limit"),
    ("sleep", "await asyncio.sleep(10**9)", "may sleep 1 s in all"),
    ("sleeps", "await asyncio.gather(*[asyncio.sleep(0.3) for n in range(5)])", "may sleep 1 s in all"),
    ("deep_source", "(" * 9000 + ")" * 9000, "nested"),
    ("endless_printing", "while True:\n  try:\n    print('x' * 1000)\n  except BaseException: pass", "printed more than 1,000,000"),
    ("slow_pattern", "re.match('(a|aa)+$', 'a' * 200 + 'b')\nwhile True: pass", "longer than 1 s"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "told"), [(code, told) for _, code, told in LIMITS], ids=[name for name, _, _ in LIMITS]
)
async def test_a_script_that_takes_too_much_is_stopped(code: str, told: str) -> None:
    async with attacked(seconds=1 if "1 s" in told else 3 if "print(" in code else 30) as played:
        result = await attempt(played, code)
        assert result.is_error
        assert told in result.text


async def test_a_hundred_thousand_calls_are_stopped_at_a_hundred() -> None:
    async with attacked() as played:
        catching = 'while True:\n  try:\n    await call("keep")\n  except BaseException: pass'
        assert "a script may make 100 calls" in (await attempt(played, catching)).text
        assert len(RECEIVED) == 100
        at_once = 'await asyncio.gather(*[call("keep") for n in range(100_000)])'
        assert "a script may make 100 calls" in (await attempt(played, at_once)).text
        assert len(RECEIVED) == 100


async def test_a_huge_output_is_cut_with_a_note() -> None:
    async with attacked() as played:
        for code in (
            '"x" * 500_000',
            "[n for n in range(50_000)]",
            '"\\u00e9\\n\\"" * 100_000',
            "{n: 'x' for n in range(9_000)}",
        ):
            answer = json.loads((await attempt(played, code)).text)
            assert "value has the first " in answer["note"]
            assert len(answer["value"]) > 5_000


async def test_a_huge_printed_text_is_cut_with_a_note() -> None:
    async with attacked() as played:
        answer = json.loads((await attempt(played, "for n in range(900):\n  print('x' * 1000)\n'the value'")).text)
        assert answer["value"] == "the value"
        assert len(answer["printed"]) > 10_000
        assert "of 900,900 characters" in answer["note"]
        both = json.loads((await attempt(played, "print('x' * 100_000)\n'y' * 100_000")).text)
        assert min(len(both["printed"]), len(both["value"])) > 7_000


REFUSED = [
    ("huge", '"x" * 2_000_000', "1,000,000 are the most"),
    ("deep", "deep(5_000)", "nested more than 100 deep"),
    ("many", "[0] * 150_000", "more than 100,000 values"),
    ("nan", 'float("nan")', "arguments.a is no JSON: it is nan"),
    ("infinity", '{"b": [1e999]}', "arguments.a.b[0] is no JSON: it is inf"),
    ("set", "{1, 2}", "it is a set: make it a list"),
    ("bytes", 'b"x"', "it is bytes: decode them"),
    ("instance", "Thing()", "it is a Thing"),
    ("exception", 'ValueError("x")', "it is an exception"),
    ("type", "int", "it is a type"),
    ("number", "1 << 50_000", "it is a number of 50,001 bits"),
    ("tuple_key", "{(1, 2): 3}", "an object with a key of type tuple"),
    ("promise", 'call("keep")', "a call that was not awaited"),
    ("function", "lambda: 1", "it is a function"),
    ("view", "{1: 2}.keys()", "it is a view of a dict: make it a list"),
]
HELPERS = """
class Thing:
  pass
def deep(n):
  x = []
  for _ in range(n):
    x = [x]
  return x
"""


@pytest.mark.parametrize(
    ("value", "told"), [(value, told) for _, value, told in REFUSED], ids=[name for name, _, _ in REFUSED]
)
async def test_an_argument_that_is_no_json_is_refused_in_words_and_reaches_no_tool(value: str, told: str) -> None:
    async with attacked() as played:
        result = await attempt(played, f'{HELPERS}\nname = "keep"\nawait call(name, {{"a": {value}}})')
        assert result.is_error
        assert told in result.text
        assert RECEIVED == []


TOLD: list[tuple[str, str, object]] = [
    ("nan", '[float("nan"), -1e999]', ["nan", "-inf"]),
    ("set", "{2, 1}", ["1", "2"]),
    ("bytes", 'b"abc"', "(3 bytes)"),
    ("instance", "Thing()", {"Thing": {}}),
    ("exception", 'ValueError("x")', "ValueError: x"),
    ("tuple_key", "{(1, 2): 3}", {"(1, 2)": 3}),
    ("date", "datetime.date(2026, 1, 2)", "2026-01-02"),
    ("number", "1 << 50_000", "(50,001 bits)"),
    ("type", "int", "<class 'int'>"),
]


@pytest.mark.parametrize(
    ("value", "told"), [(value, told) for _, value, told in TOLD], ids=[name for name, _, _ in TOLD]
)
async def test_a_value_that_is_no_json_is_told_in_words(value: str, told: object) -> None:
    async with attacked() as played:
        assert json.loads((await attempt(played, f"{HELPERS}\n{value}")).text)["value"] == told


SHARED = [
    ("long_text", "[s] * 2000"),
    ("long_key", "[{s: 1}] * 50_000"),
    ("long_text_of_an_instance", "[Holder(s)] * 20_000"),
    ("long_text_of_an_exception", "[ValueError(s)] * 50_000"),
    ("long_text_in_a_set", "[{s}] * 50_000"),
    ("nested_lists", "wide"),
    ("nested_tuple_as_a_key", "{nested: 1}"),
    ("nested_tuple_in_a_set", "[{nested}, frozenset({nested})]"),
    ("nested_tuple_of_an_instance", "Holder({nested: 1})"),
    ("keys_with_one_hash", "{n * (2**61 - 1): 1 for n in range(60_000)}"),
    ("list_that_holds_itself", "loop"),
    ("long_numbers", "[10**3000] * 90_000"),
    ("number_that_cannot_be_written", "[10**5000, {10**5000: 1}, {10**5000}]"),
]
"""Small in the sandbox; written out, or only hashed as a key, they would take the host gigabytes or minutes."""
SHARING = """
class Holder:
  def __init__(self, held):
    self.held = held
s = "a" * 1_000_000
wide, nested, loop = ["a"] * 10, ("a",) * 10, []
loop.extend([loop] * 10)
for _ in range(9):
  wide, nested = [wide] * 10, (nested,) * 10
"""


PROCESS = Path("/proc/self")


def peak() -> int:
    """The most memory that this process had, in kB; 0 where that is not told."""
    lines = (PROCESS / "status").read_text(encoding="ascii").splitlines() if PROCESS.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


@asynccontextmanager
async def going_on() -> AsyncGenerator[None, None]:
    """What happens in here costs the event loop at most some seconds of work at a time, and hardly any memory."""
    longest, grown = 0.0, 0

    async def look() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()  # the loop's own work, which a busy machine does not make longer
            await anyio.sleep(0.01)
            longest = max(longest, time.thread_time() - before)

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        if PROCESS.exists():
            (PROCESS / "clear_refs").write_text("5", encoding="ascii")  # the peak is counted from here on
        before = peak()
        yield
        await anyio.sleep(0.02)
        grown = peak() - before
        group.cancel_scope.cancel()
    assert longest < 3, f"the event loop worked for {longest:.1f} s without a pause"
    assert grown < 200_000


@pytest.mark.in_ci(every=4)
@pytest.mark.parametrize("value", [value for _, value in SHARED], ids=[name for name, _ in SHARED])
async def test_a_small_value_that_is_endless_when_written_out_costs_the_host_nothing(value: str) -> None:
    async with attacked() as played, going_on():
        assert (await attempt(played, f"{SHARING}\n{value}")).text.startswith('{"value":')


@pytest.mark.in_ci(every=5)
@pytest.mark.parametrize(
    "call",
    [
        'call("keep", {"a": VALUE})',
        'call("keep", a=VALUE)',
        'call("keep", **{"a": VALUE})',
        "call(VALUE)",
        "search(VALUE)",
        "search(query=VALUE)",
        "describe({'name': VALUE})",
        "describe(VALUE)",
        'functools.partial(call, "keep")({"a": VALUE})',
    ],
)
async def test_a_call_with_such_a_value_is_refused_and_the_script_can_catch_that(call: str) -> None:
    async with attacked() as played, going_on():
        for name, value in SHARED:
            caught = f"try:\n  await {call.replace('VALUE', f'({value})')}\nexcept TypeError as error:\n  print(error)"
            result = await attempt(played, f"{SHARING}\n{caught}")
            assert not result.is_error, (name, result.text)
            assert json.loads(result.text)["printed"], name
        assert RECEIVED == []


@pytest.mark.in_ci(every=4)
@pytest.mark.parametrize(
    "code",
    [
        "name = 'nothing_' + 'here'\neval(name + '({nested: 1})')",
        "eval('__a' + 'sk__({nested: 1})')",
        "eval('[*map(__a' + 'sk__, [{nested: 1}])]')",
        "__json__ = lambda value, names: {nested: 1}\n1",
        "__json__ = lambda value, names: '[' + '[],' * 2_000_000 + '1]'\n1",
        "__json__ = lambda value, names: '[' + '9' * 900_000 + ']'\n1",
        "__json__ = lambda value, names: '[' * 900_000\n1",
        "class Odd:\n  def __repr__(self):\n    return {nested: 1}\nOdd()",
        "class Odd:\n  def __repr__(self):\n    while True: pass\nOdd()",
        "class Odd:\n  def __repr__(self):\n    return call('keep', {'a': 1})\nOdd()",
        "import time\ntime.sleep({nested: 1})",
        "await asyncio.sleep(0, {nested: 1})",
        "await asyncio.gather({nested: 1})",
        "open('a', {nested: 1})",
        "print(nested)",
        "raise ValueError(s * 15)",
        "raise ValueError(str(nested))",
        "print(s * 30)",
        "await search([s[:90_000]] * 10)",
        "await call('keep', **{'k' + str(n): 1 for n in range(30_000)})",
    ],
)
async def test_nothing_else_brings_such_a_value_to_the_host(code: str) -> None:
    async with attacked(seconds=1 if "while True" in code else 30) as played, going_on():
        await attempt(played, f"{SHARING}\n{code}")


@pytest.mark.parametrize("text", ["[NaN]", "[" * 985 + "]" * 985, "[", "{}", "nothing", "[1]" * 2])
async def test_a_writer_that_a_script_has_replaced_gives_text_at_most(text: str) -> None:
    async with attacked() as played:
        result = await attempt(played, f"__json__ = lambda value, names: {text!r}\n1")
        assert json.loads(result.text)["value"] == f"{text}(cut)"


@pytest.mark.parametrize(
    ("text", "told"), [("[]", "no value"), ("[1,2]", "It was stopped: it changed what writes its value")]
)
async def test_a_writer_that_answers_another_number_of_values_gives_none(text: str, told: str) -> None:
    async with attacked() as played:
        assert told in (await attempt(played, f"__json__ = lambda value, names: {text!r}\n1")).text


async def test_what_makes_the_writer_is_out_of_reach() -> None:
    forged = "r = __make__(type=lambda v: str, len=lambda v: 0, zip=lambda a, b: [({}, 'x'), ('k', 'y')])"
    async with attacked() as played:
        result = await attempt(played, f"try:\n  {forged}\nexcept NameError:\n  pass")
        assert "TypeError: 'NoneType' object is not callable" in result.text


async def test_calls_that_are_open_may_hold_so_much_together() -> None:
    async with attacked() as played:
        held = "calls = [call('keep', {'a': 'x' * 900_000}) for n in range(HELD)]\nlen(calls)"
        assert "more than 8,000,000 characters" in (await attempt(played, held.replace("HELD", "9"))).text
        one_by_one = "for n in range(12): await call('keep', {'a': 'x' * 900_000})\n'done'"
        assert json.loads((await attempt(played, one_by_one)).text)["value"] == "done"


async def test_a_number_too_long_to_be_written_is_told_by_its_length() -> None:
    async with attacked() as played:
        value = json.loads((await attempt(played, "[10**5000, {10**5000: 1}, {10**5000}]")).text)["value"]
        assert value == ["(16,610 bits)", {"(16,610 bits)": 1}, ["(16,610 bits)"]]
        refused = "the first argument is no JSON: it is a number of 16,610 bits"
        for code in ("await search(10**5000)", "await call(10**5000)", "await describe({10**5000: 1})"):
            assert refused in (await attempt(played, code)).text


async def test_a_script_may_give_the_names_of_builtins_to_something_else() -> None:
    async with attacked() as played:
        shadowed = (
            "str = int = list = dict = type = len = tuple = isinstance = json = math = zip = enumerate = reversed = 5"
        )
        code = f'{shadowed}\nname = "keep"\nawait call(name, {{"a": [1, {{"b": 1.5}}]}})'
        assert json.loads((await attempt(played, code)).text)["value"] == "kept"
        assert RECEIVED == [{"a": [1, {"b": 1.5}]}]


async def test_a_deep_or_cyclic_value_is_cut() -> None:
    async with attacked() as played:
        assert "(nested too deep)" in (await attempt(played, f"{HELPERS}\ndeep(5_000)")).text
        assert not (await attempt(played, "x = []\nx.append(x)\nx")).is_error
        assert "(nested too deep)" in (await attempt(played, "class A:\n  pass\nx = A()\nfor n in range(300):\n  y = A()\n  y.x = x\n  x = y\nx")).text  # fmt: skip


async def test_a_shadowed_call_reaches_nothing() -> None:
    async with attacked() as played:
        code = "def call(name, arguments=None):\n  return ['mine', name]\ncall('keep')"
        assert json.loads((await attempt(played, code)).text)["value"] == ["mine", "keep"]
        assert RECEIVED == []


async def test_a_withheld_tool_stays_out_of_reach_under_every_name() -> None:
    async with attacked() as played:
        for name in ("get_forecast", "mcp:weather:get_forecast", "Get_Forecast", "get_forecast\u200b", " get_forecast"):
            result = await attempt(played, f'name = {name!r}\nawait call(name, {{"city": "x"}})')
            assert result.is_error
            assert "was not run" in result.text


async def test_a_huge_name_is_kept_nowhere() -> None:
    async with attacked() as played:
        assert "was not run" in (await attempt(played, 'name = "x" * 1_000_000\nawait call(name)')).text
        assert len(json.dumps(played.run.stats)) < 5_000


async def test_a_script_cannot_run_a_script() -> None:
    async with attacked() as played:
        for name in ("tool_search_code", "tool_call", "plugin:tool_search:tool_search_code"):
            result = await attempt(played, f'await call("{name}", {{"code": "1", "name": "keep", "arguments": {{}}}})')
            assert result.is_error
        assert RECEIVED == []


async def test_a_call_that_is_not_awaited_is_not_run_and_that_is_said() -> None:
    async with attacked() as played:
        answer = json.loads((await attempt(played, 'kept = [call("keep", n=1), call("keep", n=2)]\n"done"')).text)
        assert answer["value"] == "done"
        assert answer["note"] == "not awaited, so not waited for: call('keep'), call('keep'). Write await before each"
        assert RECEIVED == []


async def test_a_call_that_is_not_awaited_is_not_run_either_when_another_one_is() -> None:
    async with attacked() as played:
        answer = json.loads((await attempt(played, 'kept = call("keep", n=1)\nawait call("keep", n=2)')).text)
        assert answer["note"].startswith("not awaited, so not waited for: call('keep')")
        assert RECEIVED == [{"n": 2}]


@pytest.mark.both_loops
async def test_a_call_that_is_still_running_when_the_script_fails_is_given_up() -> None:
    async with attacked() as played:
        code = (
            'async def wait():\n  await asyncio.sleep(20)\n  return await call("keep")\n'
            'async def fail():\n  await call("create_issue", title="x")\n  return 1 / 0\n'
            "await asyncio.gather(wait(), fail())"
        )
        result = await attempt(played, code)
        assert "ZeroDivisionError" in result.text
        assert RECEIVED == []


async def test_nested_functions_that_grow_and_tuples_that_double_are_stopped() -> None:
    async with attacked(seconds=1) as played:
        slow = "f = lambda a: a\n" + "f = lambda a, f=f: (f(a), f(a))\n" * 300 + "while True: f(1)"
        assert (await attempt(played, slow)).is_error
    async with attacked() as played:
        large = "x = (1, 2)\n" + "x = (*x, *x)\n" * 60
        assert "more than 64 MiB" in (await attempt(played, large)).text


async def test_of_what_one_script_does_to_functions_and_modules_the_next_finds_nothing() -> None:
    async with attacked() as played:
        for code in ("json.dumps = 5", "def search(*a): return 'mine'", "import builtins", "def helper(): return 1"):
            await attempt(played, f"kept = 1\n{code}")
        left = "try:\n  found = helper\nexcept NameError:\n  found = kept\n[found, json.dumps([1]), len(await search('issue'))]"
        assert json.loads((await attempt(played, left)).text)["value"] == [1, "[1]", 1]


async def test_a_result_that_a_hostile_tool_answers_stays_a_value() -> None:
    def answer(_: dict[str, Any]) -> str:
        return '{"__class__": "os", "a": "\\ud800", "b": "__import__(\'os\')"}'

    hostile = make("hostile", "Hostile.", "evil").copy(execute=answer)
    async with searching([hostile], mode="code") as played:
        result = await attempt(played, '(await call("hostile"))["b"]')
        assert json.loads(result.text)["value"] == "__import__('os')"
