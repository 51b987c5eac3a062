-- comparison_reason: why two values of one metric are not compared.
-- grain: scalar macro
-- reads: nothing
-- unit:  text; NULL where they are compared
CREATE OR REPLACE MACRO comparison_reason(has_now, now, has_before, before) AS
    CASE comparison_state(has_now, now, has_before, before)
         WHEN 'new' THEN 'the previous run has no value'
         WHEN 'gone' THEN 'this run has no value'
         WHEN 'not_comparable' THEN
              CASE WHEN before = 0 THEN 'n/a (previous is 0)' WHEN NOT coalesce(isfinite(before), false) THEN 'n/a (previous is not a number)'
                   WHEN before < 0 THEN 'n/a (previous is negative)'
                   ELSE 'n/a (this value is not a number)' END END;
COMMENT ON MACRO comparison_reason IS 'Why two values of one metric are not compared; NULL where they are. has_now, has_before: whether the side knows the metric; now, before: its values';
