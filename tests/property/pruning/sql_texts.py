"""Random SQL as people might write it: any form of literal, any column type and any cast, valid or not.

Spark evaluates it. Pruning does not support most of it, and must not misread the rest.
"""

from random import Random

NUMBERS = [
    *["1", "0", "-1", "10", "10.0", "9.5", "0.5", "1e1", "10D", "10L", "10S", "10Y", "1.5F", "0.1F", "0.1", "0.1D"],
    *["1.10", "1.10BD", "1.25", "-1.25", "128", "32768", "2147483648", "9223372036854775807"],
    *["9223372036854775808", "-9223372036854775808", "9007199254740993", "9007199254740993D", "9007199254740993.0"],
    *["16777217", "1e300", "1e39", "-0.0", "-0.0D", "99999999.99", "99999999.995"],
    *["1111111111111111111111111111.1111111111", "0.00000000000000000000000000000000000001"],
    *["1234567890123456789012345.5"],
]
TEXTS = [
    *["1", "01", "+1", "1.0", "1.5", "0.1", "10", " 10", "10 ", "1e1", "1.1", "1.10", "1.25", "1d", "0x10", "", "abc"],
    *["NaN", "Infinity", "-Infinity", "inf", "9007199254740993", "9223372036854775808", "-0.0", "99999999.995"],
    *["true", "TRUE", "t", "yes", "false", "b", "B", "é", "a", "null"],
    *["2020-09-13", "2020-9-13", "2020-09", "2020", "20200913", "2020-02-30", "1969-12-31", "+10000-01-01"],
    *["2020-09-13 12:26:40", "2020-09-13 12:26", "2020-09-13 12", "2020-09-13T", "2020-09-13 xyz", "2020-09-13+00:00"],
    *["2020-09-13T12:26:40Z", "2020-09-13T12:26:40.1234567Z", "2020-09-13 12:26:40.124+05:30", "2020-09-13T24:00:00Z"],
    *["2020-09-13 12:26:40 UTC", "2020-09-13 12:26:40 Europe/Berlin", "1969-12-31 23:59:59.999999Z"],
]
TYPES = [
    *["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "DECIMAL(10,2)", "DECIMAL(20,0)"],
    *["DECIMAL(38,10)", "DECIMAL(38,18)", "BOOLEAN", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"],
]
OTHERS = [
    *["TRUE", "FALSE", "NULL", "X'61'", "r'a'", "'a' || ''", "current_date"],
    *["1 + 9", "-(-10)", "+10", "to_date('2020-09-13')"],
]
PATTERNS = ["a%", "b%", "%a", "b_", "a%%", "%", "_", "", "1%", "2020%", "B%"]
OPERATORS = ["=", "==", "<", "<=", ">", ">=", "<>", "!=", "<=>"]


class SqlTexts:
    def __init__(self, seed: int, columns: list[str]) -> None:
        self._random = Random(seed)
        self._columns = columns

    def text(self, depth: int = 2) -> str:
        shape = self._pick(["leaf"] * 8 + ["NOT", "AND", "OR"]) if depth else "leaf"
        match shape:
            case "leaf":
                return self._leaf()
            case "NOT":
                return f"{self._pick(['NOT', '!'])} ({self.text(depth - 1)})"
        return f"({self.text(depth - 1)}) {shape} ({self.text(depth - 1)})"

    def _pick(self, options: list[str]) -> str:
        return self._random.choice(options)

    def _leaf(self) -> str:
        column, literal, operator = self._column(), self._literal(), self._pick(OPERATORS)
        negated = self._pick(["", "NOT "])
        forms = [
            *[f"{column} {operator} {literal}"] * 6,
            f"{literal} {operator} {column}",
            f"{negated}{column} {operator} {literal}",
            f"{column} {operator} {self._column()}",
            f"{column} {negated}IN ({literal}, {self._literal()}, {self._literal()})",
            f"{column} {negated}BETWEEN {literal} AND {self._literal()}",
            f"{column} {negated}LIKE '{self._pick(PATTERNS)}'",
            f"{column} IS {negated}DISTINCT FROM {literal}",
            f"{column} IS {negated}{self._pick(['NULL', 'TRUE', 'FALSE'])}",
            f"{column} {operator} {literal} {self._pick(['IS NULL', 'IS TRUE', 'IN (TRUE)', '= TRUE'])}",
        ]
        return self._pick(forms)

    def _column(self) -> str:
        column = self._pick(self._columns)
        cast = self._cast(column)
        return self._pick([column, column, column.upper(), f"(`{column}`)", cast])

    def _literal(self) -> str:
        text = f"'{self._pick(TEXTS)}'"
        number = self._pick(NUMBERS)
        typed = f"{self._pick(['DATE', 'TIMESTAMP', 'TIMESTAMP_NTZ'])} {text}"
        cast = self._cast(self._pick([text, number, "NULL", "true", "DATE '2020-09-13'"]))
        return self._pick([text, text, number, number, typed, cast, self._pick(OTHERS)])

    def _cast(self, operand: str) -> str:
        data_type = self._pick(TYPES)
        return self._pick([f"CAST({operand} AS {data_type})", f"TRY_CAST({operand} AS {data_type})"])
