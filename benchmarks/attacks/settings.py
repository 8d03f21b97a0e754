"""Settings: recipes as files and single changes, of known and unknown keys."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from attacks import Attack, Case, damage, plain_value
from transop.config import Settings, load_settings


class SettingsAttack(Attack):
    """Read settings through `load_settings`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.text = Settings().to_toml()
        self.keys = [
            f"{section}.{key}"
            for section, values in Settings()
            if hasattr(values, "model_fields_set")
            for key, _ in values
        ]

    def case(self, chance: random.Random) -> Case:
        """Change a recipe's text, or override settings."""
        if chance.random() < 0.5:
            changes = [self._change(chance) for _ in range(chance.choice((1, 1, 2, 3)))]
            return f"set {changes!r}"[:200], lambda: load_settings("demo", changes)
        path = self.folder / "case.toml"
        name, content = self._text(chance)
        path.write_bytes(content)
        return name, lambda: load_settings(path)

    def _change(self, chance: random.Random) -> str:
        key = chance.choice(self.keys)
        if chance.random() < 0.1:
            key = chance.choice(("", ".", "a.b.c", "x", "data.", ".source", "data.source.x", "é.x"))
        name, value = plain_value(chance)
        text = chance.choice((_toml(value), str(value), name))
        return f"{key}={text}" if chance.random() < 0.97 else key

    def _text(self, chance: random.Random) -> tuple[str, bytes]:
        content = self.text.encode()
        kind = chance.randrange(6)
        if kind == 0:
            digits = chance.choice((10, 400, 5000))
            return f"{digits} digits", b"[operators]\nn_operators = " + b"9" * digits
        if kind == 1:
            depth = chance.choice((50, 5000))
            return f"{depth} brackets", b"x = " + b"[" * depth + b"]" * chance.choice((0, depth))
        if kind == 2:
            depth = chance.choice((50, 3000))
            return f"{depth} dots", b"a." * depth + b"b = 1"
        if kind == 3:
            key = chance.choice(self.keys)
            name, value = plain_value(chance)
            section, _, last = key.partition(".")
            text = f"[{section}]\n{last} = {_toml(value)}\n"
            return f"{key} = {name}", text.encode(errors="surrogatepass")
        return "damaged recipe", damage(content, chance)


def _toml(value: Any) -> str:
    """Write a value as TOML does, more or less."""
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, default=str) if value is not None else "null"
