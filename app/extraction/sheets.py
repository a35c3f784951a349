"""The rows of a workbook as lines of fields parted by tabs, up to the longest text that is kept."""

import datetime as dt

from python_calamine import CalamineWorkbook

from app.core.attachments import LONGEST_TEXT

_Value = int | float | str | bool | dt.datetime | dt.date | dt.time | dt.timedelta


def list_rows(workbook: CalamineWorkbook) -> tuple[str, bool]:
    """Return the text, and whether rows are left out since it was too long."""
    lines: list[str] = []
    length = 0
    for name in workbook.sheet_names:
        lines.append(f"## {name}" if not lines else f"\n## {name}")
        for row in workbook.get_sheet_by_name(name).iter_rows():
            line = "\t".join(map(_cell_text, row)).rstrip("\t")
            length += len(line) + 1
            if length > LONGEST_TEXT:
                return "\n".join(lines), True
            lines.append(line)
    has_values = any(line.strip() and not line.lstrip().startswith("## ") for line in lines)
    return ("\n".join(lines) if has_values else ""), False


def _cell_text(value: _Value) -> str:
    """Return a cell as a spreadsheet shows it by default; ends of lines would end the row."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).replace("\t", " ").replace("\n", " ")
