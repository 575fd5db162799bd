"""What the demo is judged by: every row and record against an independent computation."""

from collections import Counter, defaultdict

SHOWN = 10  # destinations in the table at the end

Late = tuple[str, str, str | None, int]


def show(got: Counter[Late], want: Counter[Late]) -> None:
    """Late arrivals: the destinations that have most, those that are wrong, and all the others as one."""
    table: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    names: dict[str, str] = {}
    for side, counter in ((0, got), (2, want)):
        for (_, dest, name, minutes), times in counter.items():
            table[dest][side] += times
            table[dest][side + 1] += times * minutes
            names[dest] = name or "(not in airports)"
    rows = sorted(table.items(), key=lambda row: -row[1][0])
    wrong = [dest for dest, (late, minutes, *want) in rows if [late, minutes] != want]
    shown = [(dest, row) for i, (dest, row) in enumerate(rows) if i < SHOWN or dest in wrong]
    others = [row for i, (dest, row) in enumerate(rows) if i >= SHOWN and dest not in wrong]
    if others:
        names[""] = f"{len(others)} others"
        shown.append(("", [sum(column) for column in zip(*others, strict=True)]))
    print(f"\n{'':4} {'destination':36} {'late':>7} {'minutes':>10}   {'expected':>8} {'minutes':>10}")
    for dest, (late, minutes, want_late, want_minutes) in shown:
        mark = "  WRONG" if dest in wrong else ""
        print(
            f"{dest:4} {names[dest][:36]:36} {late:7,} {minutes:10,}   {want_late:8,} {want_minutes:10,}{mark}"
        )
    print()


def differences(name: str, got: "Counter[object]", want: "Counter[object]") -> list[str]:
    """Nothing when both are the same; else sentences, the first of them for all."""
    missing, extra = want - got, got - want
    if not missing and not extra:
        return []
    told = [f"{name}: {sum(missing.values())} rows missing, {sum(extra.values())} wrong or doubled"]
    for title, rows in (("missing", missing), ("wrong or doubled", extra)):
        told += [f"    {title}: {row}" for row in list(rows)[:5]]
    return told
