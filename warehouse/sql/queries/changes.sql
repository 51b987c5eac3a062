-- changes: what differs between two runs besides their results; --param before=RUN --param after=RUN
SELECT field, before, after FROM what_changed($before, $after) ORDER BY rank, field;
