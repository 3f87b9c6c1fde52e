"""`python -m tests.golden`: write every expected text anew. What must fail is said by the scripts themselves."""

from __future__ import annotations

from tests import golden


def main() -> None:
    for script in golden.scripts():
        made, text = golden.outcome(golden.checked(script)), golden.text_of(script)
        if not text.exists() or text.read_text(encoding="utf-8") != made:
            text.write_text(made, encoding="utf-8")
            print(f"wrote {text.relative_to(golden.FOLDER)}")


if __name__ == "__main__":
    main()
