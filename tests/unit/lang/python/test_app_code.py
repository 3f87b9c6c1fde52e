"""A Python file as an app: its code travels as text and is executed once in a process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr
from headrace.errors import BadPython, ColumnNotFound
from headrace.lang.python.app_code import AppCode, is_loading, load
from headrace.plan.chain.interpreter import Chain
from headrace.plan.functions import find
from headrace.plan.functions.declaration import Function
from headrace.plan.operators import OPERATORS
from headrace.plan.serialization import deserialize_plan, serialize_plan
from headrace.plan.steps import Context

EXAMPLE = Path(__file__).parents[4] / "examples/python/clicks.py"


def test_the_example_runs() -> None:
    code, app = load(EXAMPLE)
    assert app.name == "clicks"
    assert OPERATORS["VISITS"].doc == "A visit ends when half a minute passes without a click."
    with hr.testing.run(app) as trial:
        trial.send("users", [{"user": "ann", "card": "1234567812345678"}])
        trial.send("clicks", [{"user": "ann", "page": "/", "amount": 500}, {"user": "bob", "page": "/"}])
        trial.advance(minutes=1)
        assert trial.rows("large") == [{"user": "ann", "amount": 500, "again": "************5678"}]
        assert [row["pages"] for row in trial.rows("visits")] == [1, 1]
        assert trial.problems == []
    known = find("masked")
    code()  # it is there already
    assert find("masked") is known


def test_another_process_gets_the_functions_from_the_text_alone() -> None:
    code, _ = load(EXAMPLE)
    program = (
        "import pickle, sys; code = pickle.load(sys.stdin.buffer); code(); code()\n"
        "from headrace.plan.functions import find; masked = find('masked').overloads[0]\n"
        "from headrace.plan.operators import OPERATORS\n"
        "print(masked.python('123456'), masked.version, OPERATORS['VISITS'].version)"
    )
    sent = pickle.dumps(AppCode(code.source, "gone/away.py"))
    done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True, check=True)
    masked = find("masked")
    assert isinstance(masked, Function)
    assert done.stdout.decode().split() == ["**3456", masked.overloads[0].version, OPERATORS["VISITS"].version]


def test_loading_an_app_does_not_run_it(tmp_path: Path) -> None:
    file = tmp_path / "eager.py"
    file.write_text("import headrace as hr\nmine = hr.App('mine')\nhr.run(mine)\n")
    assert load(file)[1].name == "mine"
    assert not is_loading()


def test_a_file_that_starts_its_app_when_it_is_loaded_is_refused_with_the_fix(tmp_path: Path) -> None:
    file = tmp_path / "eager.py"
    file.write_text("import headrace as hr\nmine = hr.App('mine')\nhr.start(mine)\n")
    with pytest.raises(BadPython, match="__main__"):
        load(file)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x = 1", "creates 0 apps"),
        ("import headrace as hr\na = hr.App()\nb = hr.App()", "creates 2 apps"),
        ("\n\n1 / 0", "ZeroDivisionError"),
        ("\n\nx = (", "SyntaxError"),
    ],
)
def test_files_without_an_app_are_refused(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "odd.py"
    file.write_text(text)
    with pytest.raises(BadPython) as raised:
        load(file)
    assert what in raised.value.what
    if "Error" in what:
        assert raised.value.where == f"{file}:3"


def test_errors_of_statements_are_raised_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        "import headrace as hr\napp = hr.App()\n"
        "s = app.stream('s', 'a INT KEY')\ns.where(hr.col.b > 1).to_stream('t')\n"
    )
    with pytest.raises(ColumnNotFound) as raised:
        load(file)
    assert raised.value.where == f"{file}:4:9"


def test_the_running_script_is_not_loaded_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from headrace.lang.python.app_code import AppCode, script_code\n"
        "code = script_code()\n"
        "assert isinstance(code, AppCode)\n"
        "code()\n"
        "assert sys.modules[code.module] is sys.modules['__main__']\n"
    )
    subprocess.run([sys.executable, str(script)], check=True)


NAMESAKE = """
import headrace as hr

app = hr.App()

@app.function
def namesake(n: int) -> int:
    return n + {step}

class Stepping(hr.Operator):
    output = "n BIGINT"
    def on_event(self, event, ctx):
        ctx.emit(n=event.n + {step})

rows = app.stream("rows", "k STRING KEY, n BIGINT")
rows.operate(Stepping).select("k", n=namesake(hr.col.n)).to_stream("steps")
"""


def test_apps_of_one_process_may_reuse_names_of_functions_and_operators(tmp_path: Path) -> None:
    made = []
    for step in (1, 10):
        file = tmp_path / f"step{step}.py"
        file.write_text(NAMESAKE.format(step=step))
        made.append(load(file))
    sent = [(serialize_plan(app.catalog.queries["CSAS_STEPS_0"]), code) for code, app in made]
    for (data, code), expected in [*zip(sent, (2, 20), strict=True)] * 2:
        code()
        chain = Chain(deserialize_plan(data), Context(lambda name: {}))
        made[0][0]()  # whatever others do meanwhile
        assert chain.feed("rows", [(0, ("a",), (0,))]) == [(0, ("a",), (expected,))]


NOTEBOOK = """
import subprocess
import sys
import headrace as hr
from headrace.lang.python.app_code import script_code
from pyspark import cloudpickle

app = hr.App()

@app.function
def doubled(n: int) -> int:
    return 2 * n

class Passing(hr.Operator):
    output = "n BIGINT"
    def on_event(self, event, ctx):
        ctx.emit(n=doubled(event.n))

app.operator(Passing)
sys.stdout.buffer.write(cloudpickle.dumps(script_code()))
"""
WORKER = """
import pickle, sys
setup = pickle.load(sys.stdin.buffer)
setup()
assert setup == type(setup)(setup.token, (), ())  # so that a worker knows it when it comes again
from headrace.plan.functions import find
from headrace.plan.relations import Kind, Relation
from headrace.plan.operators import OPERATORS
from headrace.schema import Field
import pyarrow as pa
print(find("doubled").overloads[0].python(21))
work = OPERATORS["PASSING"].work(Relation(Kind.STREAM, (Field("K", pa.string()),), (Field("N", pa.int64()),)))
print(work.event(None, 0, 0, ("a",), (21,)).rows)
"""


def test_functions_of_a_notebook_are_serialized_by_value() -> None:
    sent = subprocess.run([sys.executable, "-"], input=NOTEBOOK.encode(), capture_output=True, check=True).stdout
    done = subprocess.run([sys.executable, "-c", WORKER], input=sent, capture_output=True, check=True)
    assert done.stdout.decode().split("\n") == ["42", "[(42,)]", ""]
