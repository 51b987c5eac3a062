-- better_pct: a change with its sign turned so that more is better.
-- grain: scalar macro
-- reads: nothing
-- unit:  %; NULL where the metric has no better
CREATE OR REPLACE MACRO better_pct(change, direction) AS
    CASE direction WHEN 'higher' THEN change WHEN 'lower' THEN -change END;
COMMENT ON MACRO better_pct IS 'A change with its sign turned so that more is better; NULL where the metric has no better. change: per cent, as of change_pct; direction: higher, lower or neutral';
