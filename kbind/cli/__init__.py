"""The commands."""


def main() -> None:
    raise SystemExit("kbind: no commands yet")
