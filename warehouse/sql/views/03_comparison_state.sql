-- comparison_state: may these two values of one metric be compared?
-- grain: scalar macro
-- reads: nothing
-- unit:  compared, new, gone or not_comparable
-- "has" says whether the side knows the metric at all; a value that is there
-- but is null, no number, or 0 or less as a base cannot be compared.
CREATE OR REPLACE MACRO comparison_state(has_now, now, has_before, before) AS
    CASE WHEN has_now AND NOT has_before THEN 'new'
         WHEN has_before AND NOT has_now THEN 'gone'
         WHEN change_pct(now, before) IS NULL THEN 'not_comparable'
         ELSE 'compared' END;
COMMENT ON MACRO comparison_state IS 'Whether two values of one metric may be compared: compared, new, gone or not_comparable. has_now, has_before: whether the side knows the metric; now, before: its values';
