"""Scalar expressions: a value of each row of a batch, exact to Spark in ANSI mode.

Read value (what every expression is) first, then the expressions: column and literal, arithmetic
and quotient, number_cast and text_cast, choice (CASE, coalesce, greatest), boolean (comparisons,
AND, OR, NOT), text, calendar (parts of dates and times); kinds has the rules of types. reader makes
expressions of SQL, expression_json sends them to other processes, computed makes a condition of a
read of one.

Promises: values and types are those of Spark, to the bit; where Spark raises an error for a row,
the row has a failure. What is not known to be exact is refused when it is made.
Does not know: tables, aggregates. Only reader knows sqlglot.
"""
