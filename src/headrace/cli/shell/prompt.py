"""The interactive shell: a prompt with history, completion and colours."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from headrace.cli.io import error_output, output
from headrace.cli.shell.catalog_cache import CatalogCache
from headrace.cli.shell.completion import complete
from headrace.cli.shell.highlighter import STYLES, highlight
from headrace.cli.shell.meta_commands import ExitShell
from headrace.cli.shell.session import Session
from headrace.cli.shell.statement_splitter import is_complete
from headrace.errors import HeadraceError

PROMPT, MORE = "headrace> ", "     ...> "


def run_prompt(session: Session) -> None:
    """Read and execute until `\\q` or Ctrl-D. The prompt returns after an error, or after Ctrl-C."""
    names = CatalogCache(session.client)
    session.on_change = names.forget
    threading.Thread(target=names.known, daemon=True).start()  # so that the first Tab, and highlighting, need not wait
    prompt = _prompt(names)
    while True:
        try:
            text = prompt.prompt(PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        try:
            session.run(text)
        except ExitShell:
            return
        except HeadraceError as error:
            error_output.print_error(error, as_json=False)
        except KeyboardInterrupt:  # the remaining statements of the input are skipped
            output.note("ended")


def _prompt(names: CatalogCache) -> PromptSession[str]:
    return PromptSession(
        multiline=True,
        prompt_continuation=lambda width, number, wrapped: MORE,
        key_bindings=_keys(),
        history=_history(),
        completer=_Words(names),
        complete_in_thread=True,
        complete_while_typing=False,
        lexer=_Colours(names),
        style=Style(list(STYLES.items())),
    )


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None  # accept the completion without submitting

    return keys


# -- history --------------------------------------------------------------------------------------------------------


def history_file() -> Path:
    """The history file, in the user's state directory."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "headrace" / "sql_history"


def _history() -> History:
    """Only its owner may read it: statements reveal what the data is about."""
    path = history_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        output.note(f"what is typed will not be remembered: {error}")
        return InMemoryHistory()
    return FileHistory(str(path))


# -- while typing ---------------------------------------------------------------------------------------------------


class _Words(Completer):
    def __init__(self, names: CatalogCache) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for offer in complete(document.text_before_cursor, self._names.known(), document.text_after_cursor):
            yield Completion(offer.word, start_position=-offer.length, display_meta=offer.kind)


class _Colours(Lexer):
    def __init__(self, names: CatalogCache) -> None:
        self._names = names

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        functions = self._names.current.functions
        fragments: StyleAndTextTuples = [(f"class:{kind}", text) for kind, text in highlight(document.text, functions)]
        lines = list(split_lines(fragments))
        return lambda number: lines[number] if number < len(lines) else []
